"""From what hosts show to what is so: evidence → state."""
