"""The conversation with home."""
