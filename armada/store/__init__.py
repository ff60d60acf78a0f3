"""Home's own memory: one SQLite file. About runs it is a cache of what the hosts' files say, so it can be rebuilt from them."""
