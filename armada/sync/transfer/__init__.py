"""How bytes travel into staging: rsync or the verified stream, over how many connections, how fast."""
