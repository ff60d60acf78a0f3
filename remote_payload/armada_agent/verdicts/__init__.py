"""Pure decisions of a host: typed evidence in, a verdict out. Nothing here reads a file, a clock or a link."""
