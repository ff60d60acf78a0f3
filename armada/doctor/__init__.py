"""`armada doctor`: check for every known problem of home and hosts, explain it, and give a command that fixes it."""
