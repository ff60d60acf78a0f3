"""The filter of `/`: an expression whose bare words are fuzzy. One with an unknown key is read word by word, as text."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from armada.filters.errors import FilterError
from armada.filters.filter import EVERYTHING, Filter
from armada.filters.keys import NO_WORDS, Subject, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.filters.keys import Fact, Vocabulary
    from armada.tui.snapshot import RunRow

Facts: TypeAlias = Mapping[str, Mapping[str, Value]]
"""Settings and metrics by run."""

FIELDS: dict[str, Callable[[RunRow], str]] = {
    "name": lambda row: row.name,
    "id": lambda row: row.run.run_id,
    "host": lambda row: row.host,
    "state": lambda row: row.run.state,
    "reason": lambda row: row.run.reason or "",
    "task": lambda row: row.run.task,
    "is": lambda row: "trouble" if row.trouble else "ended" if row.run.ended else "active",
}
NO_FACTS: Facts = {}
_PATTERN = re.compile(r"[$^|*]")
_ENDS = re.compile(r"^(?:\.\*)+|(?<!\\)(?:\.\*)+$")
"""What matches anything at either end says nothing."""
_SIGNS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_REPEATS = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
AGAIN_S = 30.0
"""How often a filter about ages is applied again although no run changed, in seconds."""


def subject_of(row: RunRow, facts: Facts, now: float) -> Subject:
    """Return a row as filters and columns ask it."""
    return Subject(row.run, now, row.tariff, row.trouble, facts.get(row.run.run_id, {}), row.past, row.kept.home)


class Query:
    """A parsed filter.

    Args:
        text: As typed.
        words: The settings and metrics that runs have.

    Attributes:
        error: Why the text is not a filter; None if it is one.
        facts: Settings and metrics of runs, as the newest snapshot has them.
    """

    def __init__(self, text: str = "", words: Vocabulary = NO_WORDS) -> None:
        self.text = " ".join(text.split())
        self.words = words
        self.error: FilterError | None = None
        self.facts: Facts = NO_FACTS
        self._filter = EVERYTHING
        self._tests: list[Callable[[RunRow], bool]] = []
        try:
            self._filter = self._compile(self.text)
        except FilterError as error:
            self.error = error
            if error.is_unknown_key:
                self._tests = [_test(word) for word in self.text.casefold().split()]
            else:
                self._filter = self._before(error)

    def _compile(self, text: str) -> Filter:
        if not text:
            return EVERYTHING  # the first paint waits for no more
        from armada.filters.expression import compile_filter

        return compile_filter(text, lambda: self.words, word_test=_fuzzy_word)

    def _before(self, error: FilterError) -> Filter:
        """Return the filter that stands before the wrong place: the rest is probably still being typed."""
        try:
            return self._compile(self.text[: error.start].rpartition(" ")[0])
        except FilterError:
            return EVERYTHING

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def wanted(self) -> frozenset[Fact]:
        """The settings and metrics that it asks for."""
        return frozenset(key.fact for key in self._filter.keys if key.source != "run")

    @property
    def moment(self) -> int:
        """A number that changes when unchanged rows have to be asked again; 0 if the filter asks for no age."""
        return int(time.time() / AGAIN_S) if self._filter.is_timed else 0

    def matches(self, row: RunRow) -> bool:
        """Whether the table shows a run. An archived one passes only a filter that names it, or if it needs the user."""
        if row.run.is_archived and row.trouble is None and not self._filter.names_archive:
            return False
        if self._tests:
            return all(test(row) for test in self._tests)
        return self._filter.matches(subject_of(row, self.facts, time.time()))


def _fuzzy_word(word: str, subject: Subject) -> bool:
    run = subject.run
    labels = " ".join((run.group or "", *run.tags))
    return fuzzy(word.casefold(), f"{run.name} {run.run_id} {run.host} {run.state} {labels}".casefold())


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


def holds(word: str) -> Callable[[str], object]:
    """Return a test whether a text has a word in it, or matches it if it is a regular expression: `^eval_`, `loss$`, `q|k`."""
    if _PATTERN.search(word) and _ends_soon(word := _ENDS.sub("", word)):
        with contextlib.suppress(re.error, OverflowError):
            return re.compile(word).search
    return lambda text: word in text


def _ends_soon(expression: str) -> bool:
    """Whether a search does not take minutes: Python's tries all ways to part a text between what may repeat."""
    plain = _SIGNS.sub("", expression)
    return len(_REPEATS.findall(plain)) <= 2 and plain.count("?") <= 8 and _REPEATED_GROUP.search(plain) is None


def matching(names: Sequence[str], words: str) -> list[str]:
    """Return the names that have all words, regular expressions, or letters: those that have the words themselves come first.

    Args:
        names: In the order in which they are wanted.
        words: As typed; none means all names.
    """
    listed = words.casefold().split()
    tests = [holds(word) for word in listed]
    plain = [name for name in names if all(test(name.casefold()) for test in tests)]
    near = [name for name in names if all(fuzzy(word, name.casefold()) for word in listed)] if listed else []
    return list(dict.fromkeys([*plain, *near]))


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
