"""Sweeps: many runs of one experiment that differ in a few settings."""
