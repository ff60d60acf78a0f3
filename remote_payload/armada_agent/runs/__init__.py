"""Runs as folders on this host: made, handed over, observed, removed."""
