"""The commands that undo a change of labels, from what the runs had before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.store.runs import Run
    from armada.tui.snapshot import RunRow

Words = tuple[str, ...]
LABELS = frozenset({"archive", "group", "note", "star", "tag"})
_BLIND = frozenset({"--where", "--json", "--edit"})
_VALUES = frozenset({"--add", "--remove"})


def is_blind(words: Sequence[str]) -> bool:
    """Return whether a command changes labels, but its words do not tell of which runs, or to what."""
    return bool(words) and words[0] in LABELS and any(name in _BLIND for name, _ in _sorted(words[1:])[1])


def undoing(words: Sequence[str], rows: Mapping[str, RunRow]) -> list[Words]:
    """Return the commands that undo a command, as the runs are now; none if it cannot be undone.

    Args:
        words: The command, before it is started, with the whole ids of its runs.
        rows: The runs by id.
    """
    if not words or words[0] not in LABELS or is_blind(words):
        return []
    given, flags = _sorted(words[1:])
    verb, clears = words[0], ("--clear", "") in flags
    takes_text = (verb in ("group", "note") and not clears) and bool(given)
    ids = given[:-1] if takes_text else given
    if not ids or any(run_id not in rows for run_id in ids):
        return []
    runs = [rows[run_id].run for run_id in dict.fromkeys(ids)]
    if verb == "star":
        on = ("--off", "") not in flags
        changed = [run.run_id for run in runs if (run.starred_at is None) == on]
        return [("star", *changed, *(["--off"] if on else []))] if changed else []
    if verb == "archive":
        on = ("--undo", "") not in flags
        changed = [run.run_id for run in runs if run.is_archived != on]
        return [("archive", *changed, *(["--undo"] if on else []))] if changed else []
    if verb == "tag":
        by_changes: dict[Words, list[str]] = {}
        for run in runs:
            by_changes.setdefault(_tags(run, flags), []).append(run.run_id)
        return [("tag", *ids, *changes) for changes, ids in by_changes.items() if changes]
    if verb == "note":
        note = runs[0].note
        return [("note", runs[0].run_id, "--", note) if note else ("note", runs[0].run_id, "--clear")]
    by_group: dict[str | None, list[str]] = {}
    for run in runs:
        by_group.setdefault(run.group, []).append(run.run_id)
    return [("group", *ids, group) if group else ("group", *ids, "--clear") for group, ids in by_group.items()]


def undoing_edit(words: Sequence[str], rows: Mapping[str, RunRow]) -> list[Words]:
    """Return the commands that give a run its note again, before an editor changes it.

    Args:
        words: `note RUN --edit`, with the whole id of the run.
        rows: The runs by id.
    """
    given, _ = _sorted(words[1:])
    return undoing(("note", given[0], "--clear"), rows) if given else []


def _sorted(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the arguments, and the options with their values."""
    given: list[str] = []
    flags: list[tuple[str, str]] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            given += left
            break
        if not word.startswith("-"):
            given.append(word)
            continue
        name, _, value = word.partition("=")
        flags.append((name, left.pop(0) if name in _VALUES and "=" not in word and left else value))
    return given, flags


def _tags(run: Run, flags: Sequence[tuple[str, str]]) -> Words:
    """Return the options that give a run its tags again; none if they do not change."""
    before = set(run.tags)
    after = set() if ("--clear", "") in flags else set(before)
    after |= {value for name, value in flags if name == "--add"}
    after -= {value for name, value in flags if name == "--remove"}
    added, gone = (
        (f"--add={tag}" for tag in sorted(before - after)),
        (f"--remove={tag}" for tag in sorted(after - before)),
    )
    return (*added, *gone)
