"""Understand a typed command line, and fill in the runs or the host that are selected."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.commands.registry import Command, Registry, Word

Words = tuple[str, ...]
RUN_KINDS = frozenset({"runs", "active", "places"})
HOST_KINDS = frozenset({"hosts", "places"})
_PORT = re.compile(r"\d{1,5}(:\d{1,5})?")
LONGEST = 10_000
"""Characters of a command line."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What is marked or under the cursor.

    Attributes:
        runs: Ids of runs.
        active: Those that have not ended.
        host: The host under the cursor.
        host_of_runs: The host of all these runs, if it is the same.
        sweep: The sweep of all these runs, if it is the same.
        is_run: Whether a word is a run's id or its first characters.
    """

    runs: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    host: str | None = None
    host_of_runs: str | None = None
    is_run: Callable[[str], bool] = lambda word: False  # noqa: ARG005
    sweep: str | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """A command line, split into words.

    Attributes:
        words: All words after `armada`.
        command: The command that they name.
        given: The positional arguments among them.
        flags: The options among them, without their values.
    """

    words: tuple[str, ...]
    command: Command
    given: tuple[str, ...]
    flags: frozenset[str]


def split(text: str) -> list[str]:
    """Split a command line into words, as a shell does; a leading `armada` is dropped.

    Raises:
        UsageError: A quote is not closed, or the line is too long.
    """
    if len(text) > LONGEST:
        raise UsageError(f"the command has {len(text):,} characters", hint=f"at most {LONGEST:,}")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            "a quote in the command is not closed", hint="close it, or write \\' for the sign itself"
        ) from error
    return words[1:] if words[:1] == ["armada"] else words


def understand(text: str, registry: Registry) -> Typed | None:
    """Return what a line means; None if it is empty.

    Raises:
        UsageError: It cannot be split, or there is no such command.
    """
    words = split(text)
    if not words:
        return None
    if words[0].startswith("-"):
        raise UsageError(f"a command does not begin with {words[0]!r}", hint="such as: show, why, stop, logs")
    command = registry.find(words)
    rest = words[1:] if len(command.path) == 1 or words[1] != command.path[1] else words[len(command.path) :]
    places, flags = sort(command, rest)
    return Typed(tuple(words), command, tuple(rest[place] for place in places), flags)


def sort(command: Command, words: Sequence[str]) -> tuple[list[int], frozenset[str]]:
    """Return where the positional arguments are among the words after a command, and the options.

    What comes after the words before a `...` argument is the command line of another program, with options of its own.
    """
    given: list[int] = []
    flags: set[str] = set()
    others = next((place for place, word in enumerate(command.words) if word.count == "..."), len(words))
    ended = is_value = False
    for place, word in enumerate(words):
        if is_value:
            is_value = False
        elif ended or not word.startswith("-") or word == "-" or (len(given) >= others and word != "--"):
            given.append(place)
        elif word == "--":
            flags.add(word)
            ended = True
        else:
            flag, equals, _ = word.partition("=")
            flags.add(flag)
            option = command.option(flag)
            is_value = option is not None and option.value is not None and not equals and option.value.count is None
    return given, frozenset(flags)


def fill_in(typed: Typed, selected: Selected) -> list[Words]:
    """Return the commands that a line starts: one, or one for each selected run if the command takes one run.

    What is selected is added if the command takes a run or a host and none was typed. `--` or `--where` at the end of the line
    keeps it out.
    """
    plain = [typed.words]
    if (labelled := _label(typed, selected)) is not None:
        return [labelled]
    if (forwarded := _forwarded(typed, selected)) is not None:
        return forwarded
    at, wanted = _missing(typed)
    if wanted is None or {"--", "--where", "-h", "--help"} & typed.flags:
        return plain
    if wanted.kind == "places" and selected.host is not None and not selected.runs:
        return [(*typed.words, selected.host)]
    if wanted.kind in RUN_KINDS:
        runs = (selected.active or selected.runs) if wanted.kind == "active" else selected.runs
        needed = _in_a_row(typed.command.words, at)
        if not runs:
            return plain
        if wanted.is_many:
            return [(*typed.words, *runs)]
        if needed > 1:
            return [(*typed.words, *runs[:needed])] if len(runs) >= needed else plain
        return [(*typed.words, run) for run in runs]
    if wanted.kind == "sweeps":
        return [(*typed.words, selected.sweep)] if selected.sweep is not None else plain
    host = selected.host or (selected.host_of_runs if wanted.count is None else None)
    return [(*typed.words, host)] if host is not None and wanted.kind in HOST_KINDS else plain


def _label(typed: Typed, selected: Selected) -> tuple[str, ...] | None:
    """Return `group NAME` and `note TEXT` with the selected runs before the last word; None if it is another command."""
    name, only = typed.command.name, len(typed.given) == 1 and not {"--", "--where", "--clear", "--edit"} & typed.flags
    fits = (name == "group" and bool(selected.runs)) or (name == "note" and len(selected.runs) == 1)
    if not (only and fits) or selected.is_run(typed.given[0]):
        return None
    at = len(typed.words) - 1 - typed.words[::-1].index(typed.given[0])
    return (*typed.words[:at], *selected.runs, *typed.words[at:])


def _forwarded(typed: Typed, selected: Selected) -> list[Words] | None:
    """Return `forward PORT …` with what is selected before the ports; None if it is another command, or names a place."""
    places = selected.runs or ((selected.host,) if selected.host is not None else ())
    if not (places and has_ports_alone(typed)):
        return None
    at = typed.words.index(typed.given[0], 1)
    return [(*typed.words[:at], place, *typed.words[at:]) for place in places]


def has_ports_alone(typed: Typed) -> bool:
    """Return whether it is `forward` without the run or the host that it needs before the ports."""
    given = typed.given
    return typed.command.name == "forward" and bool(given) and all(_PORT.fullmatch(word) for word in given)


def _missing(typed: Typed) -> tuple[int, Word | None]:
    """Return the first argument that names a run or a host and was not typed, with its place; None if there is none."""
    words = typed.command.words
    at = len(typed.given)
    if at and words and words[min(at, len(words)) - 1].is_many:
        return at, None
    if at >= len(words) or words[at].kind not in RUN_KINDS | HOST_KINDS | {"sweeps"}:
        return at, None
    return at, words[at]


def _in_a_row(words: Sequence[Word], at: int) -> int:
    """Return how many arguments from this place on name one run each."""
    count = 0
    for word in words[at:]:
        if word.kind not in RUN_KINDS or word.count is not None:
            break
        count += 1
    return count
