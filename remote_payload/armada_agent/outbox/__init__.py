"""Checkpoints on this host: find, hash, list, acknowledge, delete."""
