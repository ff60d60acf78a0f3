"""The program on the host: it answers requests from home and supervises runs. Standard library only, Python 3.6 and newer."""

__version__ = "0.1.0"
PROTOCOL = 1
OLDEST_PROTOCOL = 1  # the oldest protocol version of a home that this agent still answers
