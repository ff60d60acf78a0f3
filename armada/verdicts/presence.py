"""Where a run's folder is, and what may follow from not seeing it.

| its folder  | the root's own name                     | it is     | what follows                                               |
|-------------|-----------------------------------------|-----------|------------------------------------------------------------|
| seen        | whatever it is                          | here      | its evidence counts                                        |
| not seen    | the one it was seen under               | removed   | nothing of it is there, and nothing will come from there   |
| not seen    | another one, or none that can be read   | away      | nothing: a file system is not mounted, or another disk is  |
| never seen  | none is known: an old record            | unknown   | nothing                                                    |
"""

from __future__ import annotations

import enum


class There(enum.Enum):
    """What a host showed of a run's folder when it was asked."""

    HERE = "here"
    REMOVED = "removed"
    AWAY = "away"
    UNKNOWN = "unknown"


def presence(*, exists: bool, seen_root: str | None, known_root: str | None) -> There:
    """Judge one look.

    Args:
        exists: Whether the run's folder is there.
        seen_root: What the root that was looked at calls itself; None where it could not say.
        known_root: The root that this run was handed over to, or seen on.
    """
    if exists:
        return There.HERE
    if known_root is None:
        return There.UNKNOWN
    return There.REMOVED if seen_root == known_root else There.AWAY
