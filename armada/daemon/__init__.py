"""One process at home: it watches hosts, brings checkpoints home by the clock, and says what happened.

Killed at any instruction, the next one goes on.
"""
