"""Parse the filter of `/`: words (fuzzy), `!word`, `key:value`, `!key:value`. A run must match all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.tui.snapshot import RunRow

FIELDS: dict[str, Callable[[RunRow], str]] = {
    "name": lambda row: row.name,
    "id": lambda row: row.run.run_id,
    "host": lambda row: row.host,
    "state": lambda row: row.run.state,
    "reason": lambda row: row.run.reason or "",
    "task": lambda row: row.run.task,
    "is": lambda row: "trouble" if row.trouble else "ended" if row.run.ended else "active",
}


class Query:
    """A parsed filter. An unknown key is treated as a word."""

    def __init__(self, text: str = "") -> None:
        self.text = " ".join(text.split())
        self._tests = [_test(word) for word in self.text.casefold().split()]

    def __bool__(self) -> bool:
        return bool(self._tests)

    def matches(self, row: RunRow) -> bool:
        return all(test(row) for test in self._tests)


def _test(word: str) -> Callable[[RunRow], bool]:
    if word.startswith("!") and len(word) > 1:
        inner = _exact(word[1:])
        return lambda row: not inner(row)
    if word.partition(":")[0] in FIELDS and ":" in word:
        return _exact(word)
    return lambda row: fuzzy(word, f"{row.name} {row.run.run_id} {row.host} {row.run.state}".casefold())


def _exact(word: str) -> Callable[[RunRow], bool]:
    """Match a literal part of the named field, or of any field. Exclusion is literal, so that similar letters do not match."""
    key, colon, value = word.partition(":")
    if colon and key in FIELDS:
        read = FIELDS[key]
        return lambda row: value in read(row).casefold()
    return lambda row: any(word in read(row).casefold() for read in FIELDS.values())


def fuzzy(word: str, text: str) -> bool:
    """Whether the letters of `word` are in `text` in order, in a part not much longer than the word."""
    if word in text:
        return True
    start = text.find(word[0])
    while start >= 0:
        at = start
        for letter in word[1:]:
            at = text.find(letter, at + 1)
            if at < 0:
                return False
        if at - start < 3 * len(word):
            return True
        start = text.find(word[0], start + 1)
    return False
