"""The error of a filter: a sentence, and the place in the text that it is about."""

from __future__ import annotations

from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line

_SHOWN = 160


class FilterError(UsageError):
    """A filter cannot be understood.

    Args:
        sentence: What is wrong.
        text: The whole filter.
        start: Where the wrong part begins, in characters.
        end: Where it ends.
        hint: What to write instead.

    Attributes:
        is_unknown_key: The filter is well formed, but names a key that does not exist.
    """

    def __init__(
        self, sentence: str, text: str, start: int, end: int, *, hint: str | None = None, is_unknown_key: bool = False
    ) -> None:
        self.sentence = sanitize_line(sentence, 500)
        self.start, self.end = start, max(end, start + 1)
        self.is_unknown_key = is_unknown_key
        super().__init__(f"{self.sentence}\n{_pointer(text, start, self.end)}", hint=hint)


def _pointer(text: str, start: int, end: int) -> str:
    """The part of the text around a place, and marks below the place."""
    first = max(0, min(start - _SHOWN // 2, len(text) - _SHOWN))
    part = sanitize_line(text[first : first + _SHOWN], _SHOWN)
    width = max(1, min(end, first + _SHOWN) - start)
    return f"  {part}\n  {' ' * (start - first)}{'^' * width}"
