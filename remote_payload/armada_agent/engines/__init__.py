"""Batch systems: one module for each, and the parts that they share."""
