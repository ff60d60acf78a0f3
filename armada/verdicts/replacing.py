"""Decide whether an output at home may be replaced by what came from its host, or is kept beside it.

A host shows an older file where its disk was put back to an older copy, and a torn one after a power cut. What home has
is then nowhere else.

| the one that came                                          | the one at home                            |
|------------------------------------------------------------|--------------------------------------------|
| begins with all of the one at home                         | is replaced                                |
| … does not, and armada and jobs only append to such a file | is kept                                    |
| is no newer than the one at home was on the host           | is kept                                    |
| is newer, and the one at home is as it came                | is replaced: the run wrote it anew         |
| is another than the one at home, which somebody changed    | is kept                                    |
| is a beginning of the one at home, or empty                | is kept: it may be torn                    |
| came with a log that does not continue the one at home     | is kept: the disk may have been put back   |
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copies:
    """An output at home, and what came in its place.

    Attributes:
        only_grows: Armada and jobs append to it, and never write it anew.
        continues: What came begins with all of the one at home.
        is_as_it_came: The one at home has the size and the time that it had when it was fetched.
        is_newer: The host's time of what came is after that of the one at home.
        is_beginning: The one at home begins with all of what came.
        was_put_back: In the same sync, a file that only grows did not continue the one at home.
    """

    only_grows: bool
    continues: bool
    is_as_it_came: bool
    is_newer: bool
    is_beginning: bool
    was_put_back: bool


def may_replace(seen: Copies) -> bool:
    """Return whether nothing is lost that is nowhere else, if what came replaces the one at home."""
    if seen.continues:
        return True
    if seen.only_grows or seen.is_beginning or seen.was_put_back:
        return False
    return seen.is_as_it_came and seen.is_newer
