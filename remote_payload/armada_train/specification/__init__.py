"""Read the specification of a training from spec.json, as frozen values."""
