"""Estimates of what a training needs, by arithmetic alone: no file, host or clock is read here."""
