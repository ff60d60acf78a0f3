"""The host's decisions, from evidence alone: no module here reads, writes or queries anything."""
