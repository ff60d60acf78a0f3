"""Share a host's cores among the runs that compute on them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def share_cores(cores: int, taken: Sequence[int], at_once: int = 1) -> int:
    """Return how many cores a run without GPUs may use.

    It gets its equal share, or more if the others leave more free. A run keeps what it got: another number of threads
    adds up in another order, so that a resume would not be equal to the bit.

    Args:
        cores: Of the host.
        taken: The cores of each run that is there already.
        at_once: How many runs of this kind start together, such as the cells of a sweep.
    """
    equal = cores // (at_once + len(taken))
    left = (cores - sum(taken)) // at_once
    return max(1, equal, left)
