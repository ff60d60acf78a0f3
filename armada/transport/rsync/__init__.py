"""The rsync program: found, run, and its errors read."""
