"""Decide how a run ended that was asked to stop and of which its host has no records.

| its folder                                                | the run                                          |
|-----------------------------------------------------------|--------------------------------------------------|
| is on a root that is away                                 | unknown: it may run                              |
| is seen after all, or its host cannot read it             | unknown: it may run                              |
| is not seen, and processes of it are on the host          | lives                                            |
| never was on the host                                     | cancelled: only home's own record exists         |
| was removed; a batch system had the run                   | unknown: its job may wait or run under its name  |
| was removed; its host says nothing of processes           | unknown: it may run there                        |
| was removed; other machines share the file system, or may | unknown: it may run on another                   |
| was removed; no process of it is on the host              | cancelled                                        |
| … and it had ended before                                 | as it ended                                      |
| … and its end is a guess                                  | as it ended, where nothing says unknown or lives |
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from armada.verdicts.presence import There
from armada.verdicts.states import ENDED


class Outcome(enum.Enum):
    """What can be concluded."""

    AS_IT_ENDED = "as it ended"
    NEVER_THERE = "never there"
    REMOVED = "removed"
    AWAY = "away"
    HERE = "here"
    IN_A_QUEUE = "in a queue"
    UNTOLD = "untold"
    ELSEWHERE = "elsewhere"
    LIVES = "lives"


@dataclass(frozen=True, slots=True)
class NotSeen:
    """What is known of a run when its host answered that it has no records of it.

    Attributes:
        state: The state in the store after that answer.
        there: What became of its folder; UNKNOWN if no root was ever recorded for it.
        was_there: It was seen on the host before, or submitted to it.
        queued: It was submitted to a batch system.
        is_shared: Other machines may share the host's file system.
        processes: Number of its processes seen on the host; None if the host does not say.
        is_guess: Its end is only guessed, see `guesses`.
    """

    state: str
    there: There
    was_there: bool
    queued: bool
    is_shared: bool
    processes: int | None = 0
    is_guess: bool = False


def judge(seen: NotSeen) -> Outcome:
    """Decide what became of a run of which its host has no records."""
    has_ended = seen.state in ENDED
    if has_ended and not seen.is_guess:
        return Outcome.AS_IT_ENDED
    if seen.there is There.AWAY:
        return Outcome.AWAY
    if seen.there is There.HERE:
        return Outcome.HERE
    if seen.processes:
        return Outcome.LIVES
    if not seen.was_there:
        return Outcome.AS_IT_ENDED if has_ended else Outcome.NEVER_THERE
    if seen.queued:
        return Outcome.IN_A_QUEUE
    if seen.processes is None:
        return Outcome.UNTOLD
    if seen.is_shared or seen.there is There.UNKNOWN:
        return Outcome.ELSEWHERE
    return Outcome.AS_IT_ENDED if has_ended else Outcome.REMOVED
