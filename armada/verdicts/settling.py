"""Decide whether all of a run is at home, so that no more syncs are needed.

| of a run                                                     | all of it is home                                       |
|--------------------------------------------------------------|---------------------------------------------------------|
| it has not ended, or its end is a guess                      | no                                                      |
| its host shows an earlier submission than a moment ago       | no                                                      |
| a checkpoint on its host is not at home                      | no, unless it is unwanted, or was given up and reported |
| a log or an output changed during its transfer, or failed    | no                                                      |
| a checkpoint is still being hashed on its host               | no                                                      |
| a checkpoint on its host cannot be read, and home lacks it   | no                                                      |
| something of it could not be fetched, or is in doubt at home | no                                                      |
| the user asked for a part of it only                         | no                                                      |
"""

from __future__ import annotations

from dataclasses import dataclass

from armada.units import counted


@dataclass(frozen=True, slots=True)
class Seen:
    """What one sync saw and fetched of a run.

    Attributes:
        ended: Its end was seen, and is not a guess.
        pending: Number of checkpoints still to fetch.
        unsettled: Number of logs and outputs still to fetch.
        finishing: Number of checkpoints that its host has yet to hash.
        troubles: Number of failures, without those that were given up.
        partial: The sync was for one checkpoint only.
        unreadable: Number of checkpoints on its host that cannot be read, and that home lacks and wants.
        untaken: Number of checkpoints of a script that its host could not read or copy.
        lags: Its host showed an earlier submission than was seen there shortly before.
    """

    ended: bool
    pending: int
    unsettled: int
    finishing: int
    troubles: int
    partial: bool = False
    unreadable: int = 0
    untaken: int = 0
    lags: bool = False


def what_is_missing(run_id: str, seen: Seen) -> str | None:
    """Return why not all of a run is at home; None if all of it is."""
    if seen.lags:
        return f"its host shows an earlier submission of {run_id} than a moment ago"
    if not seen.ended:
        return f"{run_id} has not ended"
    if count := seen.pending + seen.unsettled:
        return f"{count} things of {run_id} are still to come (armada sync ls says why)"
    if seen.finishing:
        named = counted(seen.finishing, "checkpoint")
        return f"{named} of {run_id} still being hashed on its host"
    if seen.untaken:
        return f"{counted(seen.untaken, 'checkpoint')} of {run_id} that its host could not read (armada why says why)"
    if seen.unreadable:
        named = counted(seen.unreadable, "checkpoint")
        return f"{named} of {run_id} on its host whose MANIFEST.json cannot be read there"
    if seen.troubles:
        return f"{counted(seen.troubles, 'thing')} of {run_id} could not be brought"
    return f"only a part of {run_id} was asked for" if seen.partial else None
