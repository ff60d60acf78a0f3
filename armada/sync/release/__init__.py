"""Decide whether a host can be destroyed without losing anything."""
