"""Batch systems: one module for each, and their shared parts."""
