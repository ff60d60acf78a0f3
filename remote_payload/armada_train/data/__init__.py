"""From files to batches: read, tokenise, pack, order."""
