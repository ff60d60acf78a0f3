"""Group rows of similar length, in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch.utils.data import Sampler

_SORTED_AT_ONCE = 50
"""How many batches are sorted together: more reduce padding, fewer are more random."""


class LengthSampler(Sampler):  # type: ignore[misc]  # torch is not installed where types are checked
    """A permutation per epoch, the same on every rank and at every start.

    The Trainer's own sampler by length draws from the process's global generator. Resumed in a later epoch, it silently
    takes other rows than the run would have taken, and ranks agree only as long as they draw equally often. It also
    gives all batches of a step one length, so that a step of short rows weighs as much as one of long ones. Here the
    accumulated batches are shuffled, and a step contains the same mixture as the data.

    Args:
        lengths: The lengths of the rows, in tokens.
        batch_size: How many rows are computed together: the micro batches of all ranks.
        seed: The seed of all epochs.
        epoch: Returns the epoch; called when an iteration begins.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int, epoch: Callable[[], int]) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self._epoch())  # no two seeds share epochs
        order = torch.randperm(len(self._lengths), generator=generator).tolist()
        size, at_once = self._batch_size, self._batch_size * _SORTED_AT_ONCE
        batches: list[list[int]] = []
        for start in range(0, len(order), at_once):
            alike = sorted(order[start : start + at_once], key=self._lengths.__getitem__, reverse=True)
            batches += [alike[at : at + size] for at in range(0, len(alike), size)]
        ragged = batches.pop() if batches and len(batches[-1]) < size else []  # it must stay last
        shuffled = [batches[at] for at in torch.randperm(len(batches), generator=generator).tolist()]
        # The batch that needs most memory comes first, to fail early; each batch begins with its longest row.
        longest = max(range(len(shuffled)), key=lambda at: self._lengths[shuffled[at][0]], default=0)
        shuffled[:1], shuffled[longest : longest + 1] = shuffled[longest : longest + 1], shuffled[:1]
        return iter([row for batch in [*shuffled, ragged] for row in batch])
