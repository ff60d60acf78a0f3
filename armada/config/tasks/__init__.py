"""The keys of an experiment: one model for each task, on top of the keys that all tasks share."""
