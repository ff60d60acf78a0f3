"""Checkpoints as the payload writes, judges and announces them."""
