"""Choose where a training resumes, from what its checkpoints hold. Reads nothing itself.

| a checkpoint, the newest first                             | the training resumes from it                             |
|------------------------------------------------------------|----------------------------------------------------------|
| it can be loaded, and has all its states                   | yes                                                      |
| it can be loaded, but states are missing or damaged        | only if no other has all, and if the user permits it     |
| it cannot be loaded (incomplete, truncated, other bytes)   | no                                                       |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)  # slots need Python 3.10; scripts bring older ones
class Found:
    """A checkpoint: what keeps it from being loaded (None: nothing), and the states that it lacks."""

    checkpoint: Path
    defect: str | None
    missing: Sequence[str] = ()


@dataclass(frozen=True)
class Choice:
    """The chosen checkpoint (None: there is none), the states that it lacks, and a sentence for each that was skipped."""

    checkpoint: Path | None
    missing: Sequence[str]
    skipped: list[str]


def choose(found: Iterable[Found]) -> Choice:
    """Choose a checkpoint.

    Args:
        found: All of them, the newest first. Those after the first whole one are not looked at: reading states takes time.
    """
    skipped: list[str] = []
    with_weights: Found | None = None
    for each in found:
        if each.defect is None and not each.missing:
            return Choice(each.checkpoint, (), skipped)
        why = each.defect or f"{each.missing[0]} is missing or damaged"
        skipped.append(f"{each.checkpoint.name} is skipped: {why}")
        if each.defect is None and with_weights is None:
            with_weights = each
    if with_weights is None:
        return Choice(None, (), skipped)
    return Choice(with_weights.checkpoint, with_weights.missing, skipped)
