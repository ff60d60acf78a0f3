"""The database at home: one SQLite file. Its records of runs are a cache of the hosts' files, so it can be rebuilt from them."""
