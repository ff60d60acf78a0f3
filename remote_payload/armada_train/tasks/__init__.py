"""The tasks of the payload, one module for each."""
