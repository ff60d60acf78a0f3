"""Sync one run, the runs of many hosts, or a run that the user waits for."""
