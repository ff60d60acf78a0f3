"""How bytes travel into staging: by rsync or the verified stream, over how many connections, how fast."""
