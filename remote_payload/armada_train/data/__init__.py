"""From files to batches: read, tokenised, packed, ordered."""
