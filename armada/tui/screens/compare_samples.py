"""Samples of two runs side by side: what each answered to the same prompt, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table as Grid
from rich.text import Text

from armada.compare.report.samples import read_history
from armada.foundation.sanitize import sanitize_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from armada.compare.report.samples import Sample
    from armada.tui.symbols import Symbols

History = dict[str, dict[int, "Sample"]]
MOST_STEPS = 40
LONGEST = 2000


class SampleBook:
    """Samples by run, read again when a file changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, History]] = {}

    def read(self, path: Path) -> History:
        """Return the samples in a file; empty if there is none."""
        try:
            stat = path.lstat()
        except OSError:
            return {}
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = (stamp, read_history(path))
        return known[1]


def prompts_of(histories: Sequence[History]) -> list[str]:
    """Return the prompts, those of the first run first."""
    return list(dict.fromkeys(prompt for history in histories for prompt in history))


def steps_of(histories: Sequence[History], prompt: str) -> list[int]:
    """Return the steps after which a run answered, the newest first."""
    return sorted({step for history in histories for step in history.get(prompt, {})}, reverse=True)


def beside(
    names: Sequence[str], histories: Sequence[History], number: int, symbols: Symbols, styles: Mapping[str, str]
) -> Grid | Text:
    """Return the answers to one prompt, a column for each run and a row for each step, the newest first.

    Args:
        names: Of the runs, sanitized.
        histories: Their samples.
        number: Which prompt.
        symbols: The symbols that the terminal can show.
        styles: `dim` and `strong`.
    """
    prompts = prompts_of(histories)
    if not prompts:
        return Text(
            symbols.text(" no samples of these runs are at home; a training writes them with evaluation: {samples: 8}"),
            style=styles["dim"],
        )
    prompt = prompts[number % len(prompts)]
    steps = steps_of(histories, prompt)
    grid = Grid.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(width=9, no_wrap=True, style=styles["dim"])
    for _ in names:
        grid.add_column(ratio=1)

    def said(text: str, style: str = "") -> Text:
        return Text(symbols.text(sanitize_text(text, LONGEST)), style=style)

    first = next(history[prompt][steps[0]] for history in histories if steps[0] in history.get(prompt, {}))
    place = f"{number % len(prompts) + 1} of {len(prompts)}"
    grid.add_row(said(place), said(f"prompt: {prompt}", styles["strong"]), *(Text("") for _ in names[1:]))
    if first.expected:
        grid.add_row("", said(f"expected: {first.expected}"), *(Text("") for _ in names[1:]))
    grid.add_row("step", *(said(name, styles["strong"]) for name in names))
    for step in steps[:MOST_STEPS]:
        answers = [history.get(prompt, {}).get(step) for history in histories]
        grid.add_row(f"{step:,}", *(said(each.generated if each else symbols.none) for each in answers))
    if len(steps) > MOST_STEPS:
        grid.add_row(
            "", said(f"{len(steps) - MOST_STEPS} earlier steps", styles["dim"]), *(Text("") for _ in names[1:])
        )
    return grid
