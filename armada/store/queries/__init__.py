"""The store's queries for screens and commands, one module per subject; no SQL is written outside `armada.store`."""
