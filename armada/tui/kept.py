"""Keep what is expensive to make for as long as nothing changes of all that it is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class Kept(Generic[T]):
    """The newest value of each key.

    Args:
        most: With more keys than this, all are forgotten.
    """

    def __init__(self, most: int = 2000) -> None:
        self._most = most
        self._known: dict[Hashable, tuple[object, T]] = {}

    def get(self, key: Hashable, made_from: object, make: Callable[[], T]) -> T:
        """Return the value of a key, made anew if it was made from something else.

        Args:
            key: What it is.
            made_from: All that `make` reads, compared by value; parts that are the same object cost nothing to compare.
            make: Makes the value.
        """
        known = self._known.get(key)
        if known is None or known[0] != made_from:
            if len(self._known) >= self._most:
                self._known.clear()
            known = self._known[key] = (made_from, make())
        return known[1]
