"""Measure cells: several short trainings, one after the other, in one environment."""
