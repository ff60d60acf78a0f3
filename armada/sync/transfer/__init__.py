"""How the bytes of a checkpoint travel: rsync or the verified stream, over how many connections, how fast."""
