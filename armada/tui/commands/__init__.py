"""The command line of the dashboard: what can be typed, what it means, and what completes it."""
