"""What a bench measures, and what came of it."""
