"""Chance that can be had again: every test's dice are thrown from the same seed, unless ARMADA_SEED says another."""

from __future__ import annotations

import os
import random

ARMADA_SEED = os.environ.get("ARMADA_SEED", "")
"""What `make test-all` sets, so that each night throws other dice; empty in `make test`."""


def dice(number: int) -> random.Random:
    """A test's source of chance; the seed is printed, and pytest shows that where the test fails.

    Args:
        number: The test's own, so that two tests do not throw alike.
    """
    seed = f"{ARMADA_SEED}:{number}" if ARMADA_SEED else number
    print(f"random seed {seed!r}")
    return random.Random(seed)
