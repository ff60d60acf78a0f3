"""Decide whether everything of a run is home, so that it needs no more syncs.

| of a run                                                        | all of it is home                                    |
|-----------------------------------------------------------------|------------------------------------------------------|
| it has not ended, or its end is a guess                         | no                                                   |
| a checkpoint on its host is not at home                         | no, unless it is not wanted or was given up, and said to be |
| a log or an output changed while it came, or did not come       | no                                                   |
| a checkpoint is still being hashed on its host                  | no                                                   |
| something of it could not be brought, or is in doubt at home    | no                                                   |
| only a part of it was asked for                                 | no                                                   |
"""

from __future__ import annotations

from dataclasses import dataclass

from armada.units import counted


@dataclass(frozen=True, slots=True)
class Seen:
    """What one sync saw of a run, and brought.

    Attributes:
        ended: Its end was seen, and is no guess.
        pending: How many checkpoints are still to come.
        unsettled: How many logs and outputs are.
        finishing: How many checkpoints its host has yet to hash.
        troubles: How many things of it failed, those that were given up left out.
        partial: It was asked for one checkpoint only.
    """

    ended: bool
    pending: int
    unsettled: int
    finishing: int
    troubles: int
    partial: bool = False


def what_is_missing(run_id: str, seen: Seen) -> str | None:
    """Say why not all of a run is home; None: all of it is."""
    if not seen.ended:
        return f"{run_id} has not ended"
    if count := seen.pending + seen.unsettled:
        return f"{count} things of {run_id} are still to come (armada sync ls says why)"
    if seen.finishing:
        named = counted(seen.finishing, "checkpoint")
        return f"{named} of {run_id}, whose supervisor died, still being hashed on its host"
    if seen.troubles:
        return f"{counted(seen.troubles, 'thing')} of {run_id} could not be brought"
    return f"only a part of {run_id} was asked for" if seen.partial else None
