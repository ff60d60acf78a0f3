"""Write, validate and announce the payload's checkpoints."""
