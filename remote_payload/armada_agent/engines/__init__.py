"""The batch systems, one module each, and what they have in common."""
