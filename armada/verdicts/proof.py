"""Evidence of a checkpoint at home, from bytes that were read (`sync/checkpoints/proof.py` reads them)."""

from __future__ import annotations

import enum


class Proof(enum.Enum):
    """What home has of a checkpoint."""

    PROVEN = "proven"
    DAMAGED = "damaged"
    MISSING = "missing"
