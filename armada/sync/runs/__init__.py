"""One sync of one run, of many hosts, or for a person who waits for it."""
