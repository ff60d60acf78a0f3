"""The command line (`:`): type any command of armada; what is selected is filled in and shown before Enter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.tui import remembered
from armada.tui.commands.completion import Candidate, complete, replaced
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.candidates import AROUND, candidate_lines
from armada.tui.widgets.field import Field

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.commander import Commander
    from armada.tui.commands.typed import Typed, Words

SHOWN = 8
"""Candidates above the line."""
KEYS = (("tab", "completes"), ("↑ ↓", "history"), ("^r", "searches it"), ("enter", "starts"), ("esc", "closes"))
HINT = "a command of armada; what is marked or under the cursor is filled in"
LOW = 16
"""Lines of a terminal below which the line has no frame."""


def cut(command: str, room: int) -> str:
    """Leave out the last words of a command that has no room, and say how many: those of four runs are not three."""
    words = command.split(" ")
    for kept in range(len(words), 0, -1):
        said = " ".join(words[:kept]) + (f" … and {len(words) - kept} more" if kept < len(words) else "")
        if cell_len(said) <= room:
            return said
    return command


class CommandField(Field):
    """Obeys the keys of the line in the order in which all came: a slow link brings `stop demo`, Tab and Enter at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", "complete"),
        Binding("shift+tab", "complete(-1)", "complete backwards"),
        Binding("up", "step(-1)", "older"),
        Binding("down", "step(1)", "newer"),
        Binding("ctrl+r", "search", "search the history"),
    ]

    def action_complete(self, by: int) -> None:
        cast("CommandLine", self.screen).complete(by)

    def action_step(self, by: int) -> None:
        cast("CommandLine", self.screen).step(by)

    def action_search(self) -> None:
        cast("CommandLine", self.screen).search()


class CommandLine(Dialog[None]):
    """One line at the bottom, with what completes it above.

    Args:
        commander: Knows the commands and carries them out.
        text: The first text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", priority=True),
    ]
    DEFAULT_CSS = """
    CommandLine { background: transparent; align: left bottom; }
    CommandLine Vertical { height: auto; background: $panel; }
    CommandLine .dialog { padding: 0; }
    CommandLine Static { height: auto; padding: 0 1; }
    CommandLine #found { text-wrap: nowrap; }
    CommandLine #meant { height: 1; }
    CommandLine Input { height: 1; border: none; padding: 0 1; background: $boost; }
    CommandLine Input:focus { border: none; background: $accent 20%; }
    """

    def __init__(self, commander: Commander, text: str = "") -> None:
        super().__init__()
        self._commander = commander
        self._text = text
        self._candidates: list[Candidate] = []
        self._chosen = -1
        self._start = 0
        self._before = ""
        """The text that Tab completes: it stays while Tab goes through the candidates."""
        self._seen = text
        """The text that this screen knows of; another one was typed."""
        self._history: list[str] = []
        self._place = 0
        self._draft = ""
        self._sought: str | None = None
        self._waits = False
        """Enter was pressed before the commands were read."""

    @property
    def board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def compose(self) -> ComposeResult:
        self.found = Static(id="found")
        self.meant = Static(id="meant")
        self.field = CommandField(
            self._text, placeholder="show, why, stop, tag --add=…", id="command", select_on_focus=False
        )
        if self.app.size.height < LOW:
            box = Vertical()
        else:
            text = self.board.symbols.text
            box = frame.dialog("Command", *((text(key), words) for key, words in KEYS))
        with box:
            yield self.found
            yield self.meant
            yield self.field

    def on_mount(self) -> None:
        self._history = remembered.commands(self.board.home)
        self._place = len(self._history)
        self.set_focus(self.field)  # at once, not after the keys that wait
        self._commander.find_experiments()
        self._commander.fetch(self._fetched)
        self._look()

    def _fetched(self) -> None:
        if not self.is_mounted:
            return
        self._look()
        if self._waits:
            self._waits = False
            self._enter()

    # Drawing --------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._draw_found()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._notice()

    def _notice(self) -> None:
        """Look at the text, if it was typed."""
        if self.field.value != self._seen:
            self._sought = None
            self._place = len(self._history)
            self._look()

    def _look(self) -> None:
        """Complete the text, and say what it means."""
        text = self.field.value
        self._before = self._seen = text
        self._chosen, self._candidates = -1, []
        if (registry := self._commander.registry) is not None:
            names = self._commander.known.names(self.board.snapshot)
            self._start, self._candidates = complete(text, registry, names)
        self._draw_found()
        self._say_meant()

    def _draw_found(self) -> None:
        room = max(1, min(SHOWN, self.size.height - 6))
        lines = candidate_lines(self._candidates, self._chosen, room, self.board.symbols, self.size.width - AROUND)
        self.found.display = bool(lines)
        words = Text("\n").join(lines)
        words.no_wrap = True
        self.found.update(words)

    def _say_meant(self, *, is_entered: bool = False) -> None:
        """Say what Enter starts, or what is wrong; half a word with candidates is not wrong yet."""
        text = self.field.value
        try:
            typed, started = self._commander.understood(text)
        except ArmadaError as error:
            if self._candidates and not is_entered:
                self._say(HINT, "dim")
                return
            words = sanitize_line(f"{error.message}{f' ({error.hint})' if error.hint else ''}", 500)
            self._say(words, "dim" if self._commander.registry is None else "bold")
            return
        if typed is None:
            self._say(HINT, "dim")
            return
        shown = self._commander.shown(typed, started[0])
        more = f"   and {len(started) - 1} more" if len(started) > 1 else ""
        room = self.meant.content_size.width - len("→ ") - len(more)
        self._say(f"→ {cut(sanitize_line(shown, 1000), room)}{more}", "")

    def _say(self, words: str, style: str) -> None:
        self.meant.update(Text(self.board.symbols.text(words), style=style, no_wrap=True, overflow="ellipsis"))

    def _put(self, text: str) -> None:
        """Replace the text."""
        self.field.value = self._seen = text
        self.field.cursor_position = len(text)

    # Keys -----------------------------------------------------------------------------------------------------------

    def complete(self, by: int) -> None:
        """Take the next candidate; the only one is taken for good."""
        self._notice()
        if not self._candidates:
            return
        if len(self._candidates) == 1:
            self._put(replaced(self._before, self._start, self._candidates[0]))
            self._look()
            return
        self._chosen = (
            (self._chosen + by) % len(self._candidates) if self._chosen >= 0 or by > 0 else len(self._candidates) - 1
        )
        self._put(replaced(self._before, self._start, self._candidates[self._chosen]))
        self._draw_found()
        self._say_meant()

    def step(self, by: int) -> None:
        """Go to an older or newer command of the history."""
        self._notice()
        if self._place == len(self._history):
            self._draft = self.field.value
        place = self._place + by
        if 0 <= place <= len(self._history):
            self._place = place
            self._put(self._history[place] if place < len(self._history) else self._draft)
            self._look()

    def search(self) -> None:
        """Go to the next older command with the typed text in it."""
        self._notice()
        if self._sought is None:
            self._sought, self._place = self.field.value, len(self._history)
        sought = self._sought.lower()
        for place in range(self._place - 1, -1, -1):
            if sought in self._history[place].lower() and self._history[place] != self.field.value:
                self._place = place
                self._put(self._history[place])
                self._look()
                return
        self._say(f"no older command has {sanitize_line(self._sought, 60)!r} in it", "bold")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._enter()

    def _enter(self) -> None:
        text = self.field.value.strip()
        if not text:
            self.dismiss(None)
            return
        if self._commander.registry is None and self._commander.trouble is None:
            self._waits = True
            return
        try:
            typed, started = self._commander.understood(text)
        except ArmadaError:
            self._say_meant(is_entered=True)
            return
        if typed is not None:
            if not self.board.read_only:
                remembered.keep_command(self.board.home, text)
            self._leave_and(typed, started)

    def _leave_and(self, typed: Typed, started: list[Words]) -> None:
        self.dismiss(None)
        self.board.call_later(self._commander.carry_out, typed, started)

    def action_leave(self) -> None:
        self.dismiss(None)
