"""Decide which processes that no supervisor looks after may be ended: those whose run is over for certain.

| the run's folder on its host             | its end          | home knows it | its processes may be ended                    |
|------------------------------------------|------------------|---------------|-----------------------------------------------|
| is seen                                  | is recorded      | yes           | yes                                           |
| is seen                                  | is recorded      | no            | if the user names the run: it is another home's |
| is seen                                  | is not recorded  |               | no: its job may go on, and `stop` ends it     |
| is seen                                  | cannot be read   |               | no: it may go on                              |
| was removed from the root that had it    |                  | yes           | yes: nothing that they write is kept          |
| is not seen, its root may be away        |                  | yes           | no: it may go on, on a disk that is not mounted |
| is not seen                              |                  | no            | no: nobody here knows which root had it       |
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from armada.verdicts.presence import AWAY_WORDS, There


class Left(enum.Enum):
    """What a run is whose processes live without a supervisor."""

    ENDED = "ended"
    REMOVED = "removed"
    ANOTHERS = "anothers"
    LIVES = "lives"
    UNREADABLE = "unreadable"
    AWAY = "away"
    UNKNOWN = "unknown"

    @property
    def may_be_ended(self) -> bool:
        """Whether its processes may be ended."""
        return self in (Left.ENDED, Left.REMOVED)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a run with such processes.

    Attributes:
        there: Where its folder is.
        has_ended: Whether its newest submission has ended; None if its records cannot be read.
        known: Whether home's store has the run.
        named: The user named it.
    """

    there: There
    has_ended: bool | None
    known: bool
    named: bool


def judge(seen: Seen) -> Left:
    """Decide what a run is whose processes live without a supervisor."""
    if seen.there is not There.HERE:
        if not seen.known:
            return Left.UNKNOWN
        return Left.REMOVED if seen.there is There.REMOVED else Left.AWAY
    if seen.has_ended is None:
        return Left.UNREADABLE
    if not seen.has_ended:
        return Left.LIVES
    return Left.ENDED if seen.known or seen.named else Left.ANOTHERS


def words(left: Left, *, run_id: str, host: str) -> tuple[str, str | None]:
    """Say what a run is, and what a user can do about it if its processes may not be ended."""
    said = {
        Left.ENDED: ("it has ended", None),
        Left.REMOVED: ("its folder there was removed", None),
        Left.ANOTHERS: (
            "it has ended, and this home has no record of it: another one started it",
            f"armada hosts reap {host} {run_id}, if its owner agrees",
        ),
        Left.LIVES: (
            "no end of it is recorded: its job may go on without its supervisor",
            f"armada stop {run_id}, if it shall end",
        ),
        Left.UNREADABLE: ("its records there cannot be read: it may go on", f"armada stop {run_id}, if it shall end"),
        Left.AWAY: (AWAY_WORDS, "mount it, then run the command again"),
        Left.UNKNOWN: (
            "its folder is not seen, and this home has no record of it: it may lie on a disk that is not mounted",
            "ask its owner",
        ),
    }
    return said[left]
