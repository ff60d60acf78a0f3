"""What is chosen in the window with the columns of Runs: which, in which order, and what else there is."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from armada.filters.cells import MOST_COLUMNS
from armada.filters.keys import ALIASES, RUN_KEYS, SETTING_ALIASES, UnknownKey, resolve
from armada.filters.meanings import meaning
from armada.tui.filtering import fuzzy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.filters.keys import Key, Vocabulary

USUAL = ("name", "host", "gpus", "progress", "loss", "speed", "eta", "checkpoints", "cost", "seen")
"""The keys of what the usual columns show."""
_SEPARATORS = re.compile(r"[,\s]+")
_NEEDS_LAST = re.compile(r"(?i:min|max|last)\(")


class Offer(NamedTuple):
    """A column that there is.

    Attributes:
        id: The same for every word that means the same.
        word: What is kept of it.
        name: What the list calls it.
        about: What it shows.
    """

    id: str
    word: str
    name: str
    about: str


def split(text: str) -> list[str] | None:
    """Return the names of a text that lists some; None if it has no comma or blank between any."""
    text = text.strip()
    return [word for word in _SEPARATORS.split(text) if word] if _SEPARATORS.search(text) else None


class ColumnChoice:
    """The columns that are taken, in their order.

    Args:
        present: The words of the columns now; none means the usual ones.
        words: The settings and metrics that runs have.
    """

    def __init__(self, present: Sequence[str], words: Vocabulary) -> None:
        self._rows = list(dict.fromkeys(present or USUAL))
        """What is taken, and what was left out since: it stays where it was, so that the list does not jump."""
        self._left: set[str] = set()
        self.learn(words)

    def learn(self, words: Vocabulary) -> None:
        """Offer the settings and metrics that runs have."""
        self.words = words
        self._asked = words._replace(declared=cache(words.declared))  # 0.2 s each time
        self._offers = {offer.id: offer for offer in _offers(words)}
        self._known: dict[str, Offer] = {}

    @property
    def _taken(self) -> list[str]:
        return [word for word in self._rows if word not in self._left]

    @property
    def taken(self) -> list[Offer]:
        """The columns that are taken, in their order."""
        return [self._offer(word) for word in self._taken]

    @property
    def result(self) -> list[str]:
        """The words to keep; none for the usual columns."""
        return [] if tuple(self._taken) == USUAL else list(self._taken)

    @property
    def keys(self) -> list[Key]:
        """What is shown: a column that no run has is left out."""
        return [key for key in map(self._resolved, self._taken) if key is not None]

    def _resolved(self, word: str) -> Key | None:
        try:
            return resolve(word, lambda: self._asked)
        except UnknownKey:
            return None

    def _offer(self, word: str) -> Offer:
        known = self._known.get(word)
        if known is None:
            key = self._resolved(word)
            made = _of_key(key, word) if key is not None else Offer(f"?:{word}", word, word, "no run has it now")
            listed = self._offers.get(made.id)
            known = self._known[word] = made if listed is None else listed._replace(word=word)
        return known

    def place(self, offer: Offer) -> int | None:
        """Return where a column stands; None if it is not taken."""
        ids = [each.id for each in self.taken]
        return ids.index(offer.id) if offer.id in ids else None

    def take(self, offer: Offer) -> bool:
        """Take a column, as the last one or where it was left out; return False if there are too many."""
        if self.place(offer) is None:
            if len(self._taken) >= MOST_COLUMNS:
                return False
            before = next((word for word in self._rows if self._offer(word).id == offer.id), None)
            if before is None:
                self._rows.append(offer.word)
            else:
                self._left.discard(before)
        return True

    def leave(self, offer: Offer) -> None:
        """Leave a column out."""
        if (place := self.place(offer)) is not None:
            self._left.add(self._taken[place])

    def shift(self, offer: Offer, by: int) -> None:
        """Let a column that is taken change places with a neighbour."""
        place, taken = self.place(offer), self._taken
        if place is not None and 0 <= place + by < len(taken):
            one, other = (self._rows.index(taken[each]) for each in (place, place + by))
            self._rows[one], self._rows[other] = self._rows[other], self._rows[one]

    def take_only(self, names: Sequence[str]) -> None:
        """Take exactly these columns.

        Raises:
            UnknownKey: One means nothing, or several things; nothing changes.
        """
        self.check(names)
        self._rows, self._left = list(dict.fromkeys(names))[:MOST_COLUMNS], set()

    def check(self, names: Sequence[str]) -> None:
        """Find out what columns mean.

        Raises:
            UnknownKey: One means nothing, or several things.
        """
        for name in names:
            resolve(name, lambda: self._asked)

    def find(self, typed: str) -> list[Offer]:
        """Return the columns that a text finds, the best first; all of them for none, those that are taken first."""
        rows = {offer.id: offer for offer in map(self._offer, self._rows)}
        every = [*rows.values(), *(offer for offer in self._offers.values() if offer.id not in rows)]
        word = _SEPARATORS.split(typed)[-1].casefold()
        if not word:
            return every
        others = {**ALIASES, **SETTING_ALIASES}
        meant = others.get(word, word).casefold()
        ranked = [(rank, offer) for offer in every if (rank := _rank(word, meant, offer)) is not None]
        ranked.sort(key=lambda each: each[0])
        found = [offer for _, offer in ranked]
        # Such as min(eval_loss), or a setting that no run has yet.
        is_new = not found or (word in others and ranked[0][0] > 0)
        key = self._resolved(word if found else typed.strip()) if is_new else None
        if key is None:
            return found
        # A setting has its whole name, as it does once the settings of runs are read.
        return [_of_key(key, key.name if key.source == "setting" else word if found else typed.strip()), *found]


def _rank(word: str, meant: str, offer: Offer) -> int | None:
    """Rank how well an offer fits, 0 for the best; None if it does not."""
    name = offer.name.casefold()
    if meant in (name, offer.word.casefold()):
        return 0
    last = name.rpartition(".")[2]
    if word == last:
        return 1
    if name.startswith(word) or last.startswith(word):
        return 2
    if word in name:
        return 3
    if fuzzy(word, name):
        return 4
    return 5 if len(word) > 2 and word in offer.about.casefold() else None


def _of_key(key: Key, word: str) -> Offer:
    return Offer(f"{key.source}:{key.name}", word, key.name, meaning(key))


def _offers(words: Vocabulary) -> Iterator[Offer]:
    for key in RUN_KEYS.values():
        yield _of_key(key, key.name)
    for setting in sorted(words.settings):
        if not _is_of_run(setting):
            yield Offer(f"setting:{setting}", setting, setting, "a setting of the experiment")
    parts = {
        ".".join(found[place:]) for each in words.settings if (found := each.split(".")) for place in range(len(found))
    }
    for metric in sorted(words.metrics):
        if metric.casefold() not in RUN_KEYS:
            is_plain = not (_is_of_run(metric) or metric in parts or _NEEDS_LAST.match(metric))
            word = metric if is_plain else f"last({metric})"
            yield Offer(f"metric:{metric}", word, metric, "the newest value of a metric")


def _is_of_run(word: str) -> bool:
    """Whether a word means a fact of the run, before any setting or metric of this name."""
    return word.casefold() in RUN_KEYS or word.casefold() in ALIASES
