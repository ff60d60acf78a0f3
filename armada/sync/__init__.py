"""Checkpoints come home: fetched into staging, every byte verified, published by a rename."""
