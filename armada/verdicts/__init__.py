"""Pure decisions: typed evidence in, a verdict with its reasons out. Nothing here uses a file, a clock or a connection."""
