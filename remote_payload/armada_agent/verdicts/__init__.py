"""What the host decides, from evidence alone: no module here reads, writes or asks."""
