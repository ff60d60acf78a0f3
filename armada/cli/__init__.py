"""The command line: parse, call, print. One file per noun; what a command does lives elsewhere."""
