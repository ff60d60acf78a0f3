"""The training loop and its helpers."""
