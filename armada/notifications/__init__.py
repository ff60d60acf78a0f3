"""Notify a user who is not at the screen: which events count, where messages go, and that each arrives once."""
