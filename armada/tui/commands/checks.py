"""Refuse at once what a command would refuse after a question: a missing argument, a run or a host that does not exist."""

from __future__ import annotations

import contextlib
from difflib import get_close_matches
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, NotFound, UsageError
from armada.tui.commands.typed import HOST_KINDS, RUN_KINDS, has_ports_alone, sort
from armada.tui.inverse import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.tui.commands.typed import Typed, Words
    from armada.tui.snapshot import RunRow, Snapshot

_OF_SWEEPS = {"resume": "sweep retry", "show": "sweep show", "stop": "sweep stop"}
"""Commands of one run, and what does the same for a sweep."""
_NAMED = 5
TOLD = frozenset({("resume", "--set")})
"""Options of which the command itself says why it does not have them."""


def check_complete(typed: Typed, started: Words) -> None:
    """Check that nothing is missing which the command needs.

    Args:
        typed: What was typed.
        started: The command with what is selected filled in.

    Raises:
        UsageError: An argument, or the value of the last option, is missing.
    """
    if not _is_understood(typed):
        return
    name, last = typed.command.name, typed.command.option(typed.words[-1])
    if last is not None and last.value is not None and "--" not in typed.flags:
        raise UsageError(f"{name}: {typed.words[-1]} needs a value: {last.value.name}")
    given = len(typed.given) + len(started) - len(typed.words)
    missing = [word.name.upper() for word in typed.command.words[given:] if word.count in (None, "+")]
    if missing:
        raise UsageError(f"{name} needs {' and '.join(missing)}", hint=f"{name} --help")


def check_options(typed: Typed) -> None:
    """Check that the command has the options which were typed.

    Raises:
        UsageError: It has no such option.
    """
    command = typed.command
    known = {flag for option in command.options for flag in option.flags}
    if not known or any(word.count == "..." for word in command.words):
        return  # one of the dashboard's own, or one that passes words on
    for flag in sorted(typed.flags):
        if flag.startswith("--") and flag not in {"--", "--help", *known} and (command.name, flag) not in TOLD:
            near = get_close_matches(flag, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"{command.name} --help"
            raise UsageError(f"{command.name} has no option {flag}", hint=hint)


def check_named(typed: Typed, snapshot: Snapshot) -> None:
    """Check that the runs, hosts and sweeps which were typed exist.

    Raises:
        NotFound: One does not.
        UsageError: Several runs' ids, or sweeps' names, begin with a word.
    """
    is_whole = snapshot.first_of is None and snapshot.taken_at > 0 and snapshot.trouble is None
    if not is_whole or not _is_understood(typed):
        return
    for kind, word in _names(typed):
        if kind in HOST_KINDS and _is_host(word, snapshot):
            continue
        if kind == "sweeps":
            _check_sweep(word, snapshot)
            continue
        if kind == "hosts":
            raise NotFound(f"no host is called {word!r}", hint="Tab completes its name")
        if snapshot.runs:  # in an empty store the command itself says whether there are runs at home
            find_run(typed, word, snapshot, or_host=kind == "places")


def find_run(typed: Typed, word: str, snapshot: Snapshot, *, or_host: bool = False) -> RunRow:
    """Return the run that a word of a command names: its id, or the first characters.

    Args:
        typed: The command.
        word: The word.
        snapshot: The runs there are.
        or_host: The word may also name a host.

    Raises:
        NotFound: No run's id begins with it.
        UsageError: Several do.
    """
    if (row := snapshot.by_id.get(word)) is not None:
        return row
    low = word.lower()  # as the store compares them
    found = [row for run_id, row in snapshot.by_id.items() if run_id.lower().startswith(low)] if low.strip() else []
    if len(found) == 1:
        return found[0]
    if any(row.run.sweep == word for row in snapshot.runs):
        other = _OF_SWEEPS.get(typed.command.name)
        hint = f"{other} {word}" if other else f"sweep show {word} lists its runs"
        raise NotFound(f"{word!r} is a sweep, not a run", hint=hint)
    if found:
        some = ", ".join(sorted(row.id for row in found)[:_NAMED])
        raise UsageError(f"{word!r} matches several run ids: {some}", hint="type more characters")
    words = f"no host and no run is called {word!r}" if or_host else f"no run's id begins with {word!r}"
    raise NotFound(words, hint="Tab completes it")


def with_whole_ids(typed: Typed, words: Words, snapshot: Snapshot) -> Words:
    """Return a command that changes labels with the whole ids of its runs: those alone say how it is undone.

    Args:
        typed: What was typed.
        words: The command with what is selected filled in.
        snapshot: The runs there are.
    """
    if typed.command.name not in LABELS or not _is_understood(typed):
        return words
    places = [place + 1 for place in sort(typed.command, words[1:])[0]]
    if typed.command.name in ("group", "note") and not {"--clear", "--edit"} & typed.flags:
        places = places[:-1]  # the last one is the text
    whole = list(words)
    for place in places:
        with contextlib.suppress(ArmadaError):  # the command itself says what is wrong
            whole[place] = find_run(typed, words[place], snapshot).id
    return tuple(whole)


def _check_sweep(word: str, snapshot: Snapshot) -> None:
    """Check that a word names one sweep: its name, or the first characters."""
    names, low = snapshot.names_of_sweeps(), word.lower()  # as the store compares them
    found = [name for name in names if name.lower().startswith(low)] if low.strip() else []
    if word in names or len(found) == 1:
        return
    if found:
        some = ", ".join(sorted(found)[:_NAMED])
        raise UsageError(f"{word!r} matches several sweeps: {some}", hint="type more characters")
    if (row := snapshot.by_id.get(word)) is not None:
        own = f"it belongs to {row.run.sweep}" if row.run.sweep else "it belongs to no sweep"
        raise NotFound(f"{word!r} is a run, not a sweep; {own}")
    raise NotFound(f"no sweep's name begins with {word!r}", hint="Tab completes it")


def _is_understood(typed: Typed) -> bool:
    """Whether it is known which words are arguments: every option is known, and takes one value or none."""
    if {"-h", "--help"} & typed.flags:
        return False
    options = [typed.command.option(flag) for flag in typed.flags - {"--"}]
    return all(each is not None and (each.value is None or each.value.count is None) for each in options)


def _is_host(word: str, snapshot: Snapshot) -> bool:
    return (
        not snapshot.hosts or snapshot.config_trouble is not None or any(each.name == word for each in snapshot.hosts)
    )


def _names(typed: Typed) -> Iterator[tuple[str, str]]:
    """Yield the arguments that name a run, a host or a sweep, each after its kind."""
    name, words, given = typed.command.name, typed.command.words, typed.given
    if name == "note" and len(given) == 1 and "--edit" not in typed.flags:
        return  # it may be the text
    if has_ports_alone(typed):
        return  # what is selected is the place
    if name == "group" and "--clear" not in typed.flags:
        given = given[:-1]  # the last one is the group
    for place, word in enumerate(given):
        if place >= len(words) and not (words and words[-1].is_many):
            return
        kind = words[min(place, len(words) - 1)].kind
        if kind in RUN_KINDS | HOST_KINDS | {"sweeps"}:
            yield str(kind), word
