"""Complete the last word of a command line: commands, verbs, options, runs, hosts, experiments."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line
from armada.tui.commands.typed import understand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from armada.tui.commands.registry import Command, Registry, Word
    from armada.tui.snapshot import Snapshot

MOST = 50


class Candidate(NamedTuple):
    """A word that can stand there, and what it is. Both are sanitized."""

    word: str
    about: str = ""


class Names(Protocol):
    """Returns the names of a kind, each with a description and the text to search in, in lower case."""

    def __call__(self, kind: str, /) -> Sequence[tuple[Candidate, str]]: ...


@dataclass(slots=True)
class Known:
    """The names in a snapshot, listed once until a run, a host or a sweep changes.

    Args:
        experiments: The experiment files near the folder in which the dashboard was started.
    """

    experiments: Sequence[str] = ()
    _runs: object = None
    _others: object = None
    _lists: dict[str, Sequence[tuple[Candidate, str]]] = field(default_factory=dict)

    def names(self, snapshot: Snapshot) -> Names:
        """Return the source of a snapshot's names."""
        others = (tuple(host.name for host in snapshot.hosts), snapshot.sweeps)
        if self._runs is not snapshot.runs or self._others != others:
            self._runs, self._others, self._lists = snapshot.runs, others, {}
        lists = self._lists

        def listed(kind: str) -> Sequence[tuple[Candidate, str]]:
            if kind not in lists:
                lists[kind] = [(each, f"{each.word} {each.about}".lower()) for each in self._list(kind, snapshot)]
            return lists[kind]

        return listed

    def _list(self, kind: str, snapshot: Snapshot) -> Iterator[Candidate]:
        if kind in ("runs", "active", "places"):
            for row in snapshot.runs:
                if kind != "active" or not row.run.ended:
                    yield Candidate(row.run.run_id, sanitize_line(f"{row.name}, {row.run.state} on {row.host}", 80))
        if kind in ("hosts", "places"):
            yield from (Candidate(host.name, "host") for host in snapshot.hosts if host.name.isprintable())
        if kind == "experiments":
            yield from (Candidate(name, "experiment") for name in self.experiments if name.isprintable())
        if kind == "sweeps":
            yield from (Candidate(name, "sweep") for name in snapshot.names_of_sweeps() if name.isprintable())


def complete(text: str, registry: Registry, names: Names) -> tuple[int, list[Candidate]]:
    """Return where the last word begins, and what it can become; the most likely first."""
    head, typed = _last_word(text)
    if typed is None:
        return len(text), []
    found = _candidates(head, typed, registry, names)
    return len(text) - len(typed), found[:MOST]


def replaced(text: str, start: int, candidate: Candidate) -> str:
    """Return the line with its last word completed."""
    end = "" if candidate.word.endswith("=") else " "
    return text[:start] + shlex.quote(candidate.word) + end


def _last_word(text: str) -> tuple[str, str | None]:
    """Return the line before its last word, and that word; None if it is inside quotes."""
    head, blank, last = text.rpartition(" ")
    try:
        shlex.split(text)
    except ValueError:
        return text, None
    return (head + blank, last) if "'" not in last and '"' not in last else (text, None)


def _candidates(head: str, typed: str, registry: Registry, names: Names) -> list[Candidate]:
    before = head.split()
    if before[:1] == ["armada"]:
        before = before[1:]
    if not before:
        return _matching(typed, [Candidate(name, each.about) for name, each in registry.all.items()])
    try:
        command = registry.find([*before, ""][:2]) if len(before) > 1 else registry.all.get(before[0])
        known = understand(head, registry) if command is not None and (len(before) > 1 or not command.verbs) else None
    except UsageError:
        return []
    if command is None:
        return []
    if known is None:
        return _matching(typed, [Candidate(name, each.about) for name, each in command.verbs.items()])
    command = known.command
    flag, equals, part = typed.partition("=")
    if equals and (option := command.option(flag)) is not None and option.value is not None:
        values = _of_word(part, option.value, names, known.given)
        return [Candidate(f"{flag}={each.word}", each.about) for each in values]
    option = command.option(known.words[-1])
    if option is not None and option.value is not None:
        return _of_word(typed, option.value, names, ())
    if typed.startswith("-"):
        return _options(typed, command, known.flags)
    return _of_word(typed, _next_word(command, len(known.given)), names, known.given)


def _next_word(command: Command, given: int) -> Word | None:
    if given < len(command.words):
        return command.words[given]
    return command.words[-1] if command.words and command.words[-1].is_many else None


def _options(typed: str, command: Command, used: Iterable[str]) -> list[Candidate]:
    found = []
    for option in command.options:
        if not set(option.flags) & set(used) and any(each.startswith(typed) for each in option.flags):
            name = f" ({option.value.name})" if option.value is not None else ""
            found.append(Candidate(option.flags[-1], f"{option.about}{name}"))
    return found


def _of_word(typed: str, word: Word | None, names: Names, given: Sequence[str]) -> list[Candidate]:
    if word is None:
        return []
    if word.choices:
        return _matching(typed, [Candidate(choice) for choice in word.choices])
    if word.kind is None:
        return []
    low = typed.lower()
    starts: list[Candidate] = []
    within: list[Candidate] = []
    for candidate, text in names(word.kind):
        if low in text and candidate.word not in given:
            (starts if text.startswith(low) else within).append(candidate)
            if len(starts) >= MOST:
                break
    return starts + within[: MOST - len(starts)]


def _matching(typed: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    found = list(candidates)
    return [each for each in found if each.word.startswith(typed)] or [each for each in found if typed in each.word]
