"""The store: one SQLite file at home. Its records of runs are a cache of the hosts' files and can be rebuilt from them."""
