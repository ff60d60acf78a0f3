"""A compiled filter; `expression` compiles one. A screen that filters nothing needs no more than this."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from armada.filters.keys import TIMED, Key, Subject

Test: TypeAlias = Callable[[Subject], bool]


class Filter(NamedTuple):
    """A compiled filter.

    Attributes:
        text: As written.
        matches: Whether a run passes.
        keys: All keys that it names; a caller reads settings, metrics and prices for them.
        names_archive: It says itself what is to become of archived runs, which other filters leave out.
    """

    text: str
    matches: Test
    keys: tuple[Key, ...] = ()
    names_archive: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether a run may pass later although nothing of it changed."""
        return any(key.name in TIMED or key.kind == "moment" for key in self.keys)


EVERYTHING = Filter("", lambda _: True)
