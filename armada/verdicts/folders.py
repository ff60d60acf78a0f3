"""Decide whether a folder at home is the one that armada put results into, or only the place where its disk is missing.

| the folder                                                          | its mark is recorded | it is                 |
|---------------------------------------------------------------------|----------------------|-----------------------|
| cannot be read, or is a link that leads nowhere                     | yes, or no           | away                  |
| does not exist, and the folder that it belongs into is there        | yes, or no           | removed by a person   |
| has the recorded mark                                               | yes                  | there                 |
| has another mark or none, and something known to be in it is in it  | yes                  | there: it is marked   |
| has another mark or none                                            | yes                  | away: an empty mount  |
| has anything in it                                                  | no: an older armada  | there: it is marked   |
| is empty, and home has no checkpoint of the run                     | no                   | there: it is marked   |
| is empty, and home has checkpoints of the run                       | no                   | away                  |

Only a folder that is there can lack a checkpoint. Whoever unmounts a disk leaves the folder where it was mounted, and
whoever removes what a link leads to leaves the link.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Standing(enum.Enum):
    """What a folder at home is."""

    THERE = "there"
    TO_MARK = "to mark"
    REMOVED = "removed"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of a folder at home.

    Attributes:
        exists: Anything has its name, in a folder that is there.
        problem: Why it cannot be read; empty if it can be.
        mark: The id in its mark; None if it has none that can be read.
        is_empty: Nothing is in it besides what a sync creates before it fetches.
    """

    exists: bool = True
    problem: str = ""
    mark: str | None = None
    is_empty: bool = False


def judge_folder(seen: Seen, recorded: str | None, *, holds_known: bool, has_checkpoints: bool) -> Standing:
    """Judge one folder; the one that it belongs into was judged before.

    Args:
        seen: What is seen of it.
        recorded: The id that home recorded for it; None if it recorded none.
        holds_known: Something in it is known to belong into it: a checkpoint, or a folder with its recorded mark.
        has_checkpoints: By its records, home has checkpoints of the run.
    """
    if seen.problem:
        return Standing.AWAY
    if not seen.exists:
        return Standing.REMOVED
    if recorded is not None and seen.mark == recorded:
        return Standing.THERE
    if recorded is not None:
        return Standing.TO_MARK if holds_known else Standing.AWAY
    is_used = seen.mark is not None or not seen.is_empty
    return Standing.TO_MARK if is_used or not has_checkpoints else Standing.AWAY
