"""What to train, as frozen values, and how they are read from spec.json."""
