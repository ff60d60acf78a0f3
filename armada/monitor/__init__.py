"""Observe runs: from the evidence on hosts to the state of a run."""
