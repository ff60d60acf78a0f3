"""What screens and commands ask the store for, one module a subject; no SQL is written outside `armada.store`."""
