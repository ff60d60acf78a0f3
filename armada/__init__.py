"""armada: one terminal over all of a researcher's GPUs."""

__version__ = "0.1.0"
