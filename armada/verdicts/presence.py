"""Decide where a run's folder is, and what follows if it is not visible.

| its folder  | the root's own name                     | it is     | what follows                                               |
|-------------|-----------------------------------------|-----------|------------------------------------------------------------|
| seen        | whatever it is                          | here      | its evidence counts                                        |
| not seen    | the one it was seen under               | removed   | nothing of it is there, and nothing will come from there   |
| not seen    | another, which a wipe put in its place  | removed   | the same; who wiped the host stands there                  |
| not seen    | another, and this home wiped that root  | removed   | the same                                                   |
| not seen    | another one, or none that can be read   | away      | nothing: a file system is not mounted, or another disk is  |
| never seen  | none is known: an old record            | unknown   | nothing                                                    |
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


AWAY_WORDS = "its root on the host is not the folder that the run was put into: a file system may not be mounted there"


class There(enum.Enum):
    """What a host showed of a run's folder when it was asked."""

    HERE = "here"
    REMOVED = "removed"
    AWAY = "away"
    UNKNOWN = "unknown"


def presence(*, exists: bool, seen_root: str | None, known_root: str | None, wiped: Collection[str] = ()) -> There:
    """Judge one look.

    Args:
        exists: Whether the run's folder is there.
        seen_root: What the root that was looked at calls itself; None where it could not say.
        known_root: The root that this run was handed over to, or seen on.
        wiped: The roots that the one that was looked at says it had been before it was wiped, and those that this home wiped.
    """
    if exists:
        return There.HERE
    if known_root is None:
        return There.UNKNOWN
    return There.REMOVED if known_root == seen_root or known_root in wiped else There.AWAY
