"""Checkpoints on this host: found, hashed, listed, acknowledged, deleted."""
