"""Engines start a run on its host: armada's supervisor, Slurm or HTCondor. One module for each kind of job file."""
