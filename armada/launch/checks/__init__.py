"""What would fail later, or silently do something else, looked for before anything costs time or money."""
