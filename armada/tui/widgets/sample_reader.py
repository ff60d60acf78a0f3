"""The samples of one run: its prompts as rows, and below the answers to one of them, a column for each step."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text
from textual.containers import Vertical

from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.tui.samples import SampleBook, stamp_of, steps_of
from armada.tui.widgets import frame
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.marked_text import MarkedText
from armada.tui.widgets.table import Column
from armada.tui.widgets.text_scroll import TextScroll
from armada.units import counted

if TYPE_CHECKING:
    from pathlib import Path

    from armada.tui.samples import History
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Table

COLUMNS = (
    Column("", 3, right=True),
    Column("PROMPT", 20, grow=1),
    Column("ANSWERS", 7, right=True, rank=2),
    Column("LAST STEP", 10, right=True, rank=1),
)
LONGEST = 4000
"""Characters of a prompt or an answer."""
COLUMN = 44
"""The width of an answer; a wider screen shows those of more steps beside each other."""
MOST_BESIDE = 4
READING = "reading …"


class SampleReader(Vertical):
    """Reads the file in a thread when it is shown and when it has changed."""

    DEFAULT_CSS = """
    SampleReader ListTable { height: 30%; min-height: 4; max-height: 14; }
    SampleReader TextScroll { height: 1fr; padding: 0 1; }
    """

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        self.prompts = ListTable(COLUMNS, symbols, classes=frame.FRAME)
        self.prompts.empty = READING
        self._said = MarkedText()
        self.answers = TextScroll(self._said, classes=frame.FRAME)
        super().__init__(self.prompts, self.answers, id=id)
        self._symbols = symbols
        self._book = SampleBook()
        self._asked: object = None
        self._none = ""
        self._history: History | None = None
        self._step: int | None = None
        """The step that was chosen for the last column; None: always the newest one."""

    def forget(self) -> None:
        """Be as a new one."""
        self._asked = self._history = self._step = None
        self.prompts.forget()
        self.answers.forget()
        self._draw()

    # Reading --------------------------------------------------------------------------------------------------------

    def show_file(self, path: Path, none: str) -> None:
        """Show the samples in a file.

        Args:
            path: The file; it need not be there.
            none: What to say if it has no samples.
        """
        is_other, self._none = none != self._none, none
        if is_other and not self._history:
            self._draw_answers()
        asked = (path, stamp_of(path))
        if asked != self._asked:
            self._asked = asked
            self.run_worker(lambda: self._read(path, asked), thread=True, exclusive=True, exit_on_error=False)

    def _read(self, path: Path, asked: object) -> None:
        found = self._book.read(path)
        self.app.call_from_thread(self._take, asked, found)

    def _take(self, asked: object, found: History) -> None:
        if self.is_attached and asked == self._asked:
            self._history = found
            self._draw()

    # Drawing --------------------------------------------------------------------------------------------------------

    @property
    def prompt(self) -> str | None:
        """The prompt under the cursor."""
        prompts, cursor = list(self._history or ()), self.prompts.cursor
        return (
            prompts[int(cursor)] if cursor is not None and cursor.isdecimal() and int(cursor) < len(prompts) else None
        )

    @property
    def steps(self) -> list[int]:
        """The steps after which the prompt under the cursor was answered, the oldest first."""
        return steps_of([self._history], self.prompt)[::-1] if self._history and self.prompt is not None else []

    def _draw(self) -> None:
        history = self._history or {}
        self.prompts.empty = READING if self._history is None else "no samples"
        self.prompts.show_items(
            Item(
                str(number),
                (
                    ((str(number + 1), "dim"),),
                    ((sanitize_line(prompt, 400), "plain"),),
                    ((f"{len(answers):,}", "plain"),),
                    ((f"{max(answers):,}", "dim"),),
                ),
            )
            for number, (prompt, answers) in enumerate(history.items())
        )
        self.prompts.refresh()  # the words for no lines may be others
        frame.title(
            self.prompts, self._symbols.text(f"Samples · {counted(len(history), 'prompt')}" if history else "Samples")
        )
        self._draw_answers()

    def _draw_answers(self) -> None:
        text, steps, prompt = self._symbols.text, self.steps, self.prompt
        if self._history is None or prompt is None:
            self._said.update(Text("" if self._history is None else text(self._none), style="dim"))
            frame.title(self.answers, "Answers")
            frame.facts(self.answers, "")
            return
        end = self._end(steps)
        shown = steps[max(0, end - self._beside) : end]
        answers = self._history[prompt]
        expected = answers[shown[-1]].expected
        said = [
            self._text(f"prompt: {prompt}", "bold"),
            *([self._text(f"expected: {expected}", "dim")] if expected else []),
        ]
        grid = Grid.grid(expand=True, padding=(0, 2, 0, 0))
        for _ in shown:
            grid.add_column(ratio=1)
        grid.add_row(*(self._text(f"step {step:,}", "bold") for step in shown))
        grid.add_row(*(self._text(answers[step].generated) for step in shown))
        self._said.update(Group(*said, Text(""), grid))
        named = f"step {shown[-1]:,}" if len(shown) == 1 else f"steps {shown[0]:,} to {shown[-1]:,}"
        frame.title(self.answers, text(f"Answers · {named}"))
        frame.facts(self.answers, text(f"{end} of {len(steps)} · ← → other steps · enter scrolls"))

    @property
    def _beside(self) -> int:
        return max(1, min(MOST_BESIDE, self.answers.size.width // COLUMN))

    def _text(self, words: str, style: str = "") -> Text:
        return Text(self._symbols.text(sanitize_text(words, LONGEST)), style=style)

    # Keys -----------------------------------------------------------------------------------------------------------

    def step(self, by: int) -> None:
        """Show the answers of later steps, or of earlier ones."""
        if steps := self.steps:
            place = max(0, self._end(steps) - 1 + by)
            self._step = steps[place] if place < len(steps) - 1 else None
        self._draw_answers()

    def _end(self, steps: list[int]) -> int:
        """Return up to which step answers are shown: where the chosen one has none, up to the one before it."""
        return len(steps) if self._step is None else max(1, bisect_right(steps, self._step))

    def read(self) -> None:
        """Go to the answers, to scroll them."""
        if self.prompt is not None:
            self.answers.focus()

    def on_table_moved(self, event: Table.Moved) -> None:
        event.stop()
        self.answers.forget()  # another prompt: from its top
        self._draw_answers()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self.read()

    def on_resize(self) -> None:
        if self._history is not None:
            self.call_after_refresh(self._draw_answers)
