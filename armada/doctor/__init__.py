"""`armada doctor`: everything that is known to break hosts, looked at and explained, each with its remedy as a command."""
