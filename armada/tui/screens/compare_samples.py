"""Samples of two runs side by side: what each answered to the same prompt, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table as Grid
from rich.text import Text

from armada.foundation.sanitize import sanitize_text
from armada.tui.samples import SampleBook, prompts_of, samples_file, steps_of
from armada.tui.widgets import frame
from armada.tui.widgets.marked_text import MarkedText
from armada.tui.widgets.text_scroll import TextScroll
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.paths import HomePaths
    from armada.tui.samples import History
    from armada.tui.symbols import Symbols

MOST_STEPS = 40
LONGEST = 2000


class SamplePage(TextScroll):
    """Shows the samples of two runs, and reads them in a thread."""

    DEFAULT_CSS = "SamplePage { padding: 0 1; }"

    def __init__(self, symbols: Symbols, home: HomePaths) -> None:
        self._answers = MarkedText()
        super().__init__(self._answers, classes=frame.FRAME)
        self._symbols, self._home = symbols, home
        self._book = SampleBook()
        self._prompt = 0
        self._runs: dict[str, str] = {}
        self._histories: list[History] | None = None

    def show_runs(self, names: Mapping[str, str]) -> None:
        """Show runs by their ids, with the names to show; those that are shown are not read again."""
        if self._runs == names:
            return
        self._runs, self._histories = dict(names), None
        self._answers.update(Text("reading …"))
        frame.title(self, "Samples")
        self.run_worker(lambda: self._read(tuple(names)), thread=True, exclusive=True, exit_on_error=False)

    def read_again(self) -> None:
        """Read the samples again when they are shown next."""
        self._runs = {}

    def step_prompt(self, by: int) -> None:
        self._prompt += by
        self._draw()

    def _read(self, ids: tuple[str, ...]) -> None:
        found = [self._book.read(samples_file(self._home, run_id)) for run_id in ids]
        self.app.call_from_thread(self._take, ids, found)

    def _take(self, ids: tuple[str, ...], found: list[History]) -> None:
        if self.is_attached and tuple(self._runs) == ids:
            self._histories = found
            self._draw()

    def _draw(self) -> None:
        if self._histories is not None:
            names, styles = list(self._runs.values()), {"dim": "dim", "strong": "bold"}
            self._answers.update(beside(names, self._histories, self._prompt, self._symbols, styles))


def beside(
    names: Sequence[str], histories: Sequence[History], number: int, symbols: Symbols, styles: Mapping[str, str]
) -> Grid | Text:
    """Return the answers to one prompt, a column for each run and a row for each step, as on a run's page the oldest first.

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
            symbols.text("no samples of these runs are at home; a training writes them with evaluation: {samples: 8}"),
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
    if len(steps) > MOST_STEPS:
        more = counted(len(steps) - MOST_STEPS, "earlier step")
        grid.add_row("", said(more, styles["dim"]), *(Text("") for _ in names[1:]))
    for step in reversed(steps[:MOST_STEPS]):
        answers = [history.get(prompt, {}).get(step) for history in histories]
        grid.add_row(f"{step:,}", *(said(each.generated if each else symbols.none) for each in answers))
    return grid
