"""Count the runs of a sweep by state. It imports nothing that takes long, because `armada ps` uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.store.runs import Run

_ORDER = ("running", "queued", "submitted", "preparing", "unknown", "succeeded", "failed", "pruned", "cancelled")
_WORDS = {"submitted": "waiting", "queued": "waiting for GPUs", "preparing": "being handed over"}


def newest_runs(found: Iterable[Run]) -> list[Run]:
    """Keep the newest run of each cell, by the numbers of the cells."""
    return list({run.cell: run for run in found}.values())


def word_of(run: Run) -> str:
    """Return a run's state in a word; `pruned` of a cell that a sweep stopped because it did badly."""
    return "pruned" if (run.state, run.reason) == ("cancelled", "pruned") else run.state


def count_states(found: Iterable[Run]) -> str:
    """`3 running · 5 waiting · 4 succeeded`."""
    counts: dict[str, int] = {}
    for run in found:
        counts[word_of(run)] = counts.get(word_of(run), 0) + 1
    known = [word for word in _ORDER if word in counts] + sorted(set(counts) - set(_ORDER))
    return " · ".join(f"{counts[word]} {_WORDS.get(word, word)}" for word in known) or counted(0, "cell")
