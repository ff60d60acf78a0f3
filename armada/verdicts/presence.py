"""Decide where a run's folder is, and what follows if it is not visible.

| its folder | name that the root reports               | it is   | what follows                                                  |
|------------|------------------------------------------|---------|---------------------------------------------------------------|
| seen       | any                                      | here    | its evidence counts                                           |
| not seen   | the same as when the folder was seen     | removed | nothing of it is there or will come from there                |
| not seen   | another, created there by a wipe         | removed | the same; the root records who wiped the host                 |
| not seen   | another, and this home wiped the old one | removed | the same                                                      |
| not seen   | another, or none that can be read        | away    | nothing: a file system is not mounted, or the disk is another |
| never seen | none is known: an old record             | unknown | nothing                                                       |

An end that home recorded stays when the folder is not seen, unless processes there belong to a newer attempt or submission
than that end: a home that was restored from a backup has not heard of its own resume.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from armada.protocol.observation import Remains

AWAY_WORDS = "its root on the host is not the folder that the run was put into: a file system may not be mounted there"

UNKNOWN_WORDS = "its host shows nothing of it, and home does not know which folder it was put into: a file system may not be mounted"


class There(enum.Enum):
    """What a host showed of a run's folder."""

    HERE = "here"
    REMOVED = "removed"
    AWAY = "away"
    UNKNOWN = "unknown"


def presence(*, exists: bool, seen_root: str | None, known_root: str | None, wiped: Collection[str] = ()) -> There:
    """Judge one observation.

    Args:
        exists: Whether the run's folder exists.
        seen_root: The name that the observed root reports; None if it has none that can be read.
        known_root: The root to which this run was submitted, or on which it was seen.
        wiped: The earlier names of the observed root from before it was wiped, and the roots that this home wiped.
    """
    if exists:
        return There.HERE
    if known_root is None:
        return There.UNKNOWN
    return There.REMOVED if known_root == seen_root or known_root in wiped else There.AWAY


def began_since(remains: Remains | None, *, attempt: int, submission: int) -> bool:
    """Tell whether processes of a run whose folder is not seen show that it was started since its recorded end.

    Args:
        remains: What its host showed of it; None if it showed nothing.
        attempt: The attempt of that end; 0 if none was begun.
        submission: Its submission; 0 if unknown.
    """
    if remains is None or not remains.processes:
        return False
    return (remains.attempt or 0) > attempt or (remains.submission or 0) > submission > 0
