"""Show what home knows of a host that cannot be asked what it holds, and what you can do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols

SHOWN = 500
MORE = "There may be more on it. Do not destroy it before it has answered."
KEYS = (("c", "check it"), ("d", "doctor"), ("!", "shell"), ("n, esc", "leave"))


class Unanswered(Dialog[str | None]):
    """Returns `check`, `doctor`, `shell` or None.

    Args:
        host: The host's name.
        why: Why it could not be asked.
        rows: The runs that are on it, as home knows them.
        symbols: The symbols that the terminal can show.
    """

    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("c", "answer('check')", "check"),
        Binding("d", "answer('doctor')", "doctor"),
        Binding("exclamation_mark", "answer('shell')", "shell"),
        Binding("n,escape,q,enter", "answer('')", "leave"),
    ]
    DEFAULT_CSS = """
    Unanswered { align: center middle; }
    Unanswered Vertical { width: 90%; max-width: 110; height: auto; max-height: 95%; }
    Unanswered .part { margin: 1 0 0 0; }
    Unanswered VerticalScroll { height: auto; max-height: 50vh; }
    Unanswered Static { height: auto; }
    """

    def __init__(self, host: str, why: str, rows: Iterable[RunRow], symbols: Symbols) -> None:
        super().__init__()
        text = symbols.text
        self._title = f"{symbols.attention} {text(f'It is unknown what {sanitize_line(host, 60)} holds')}"
        self._why = Text(text(sanitize_line(why, 400)))
        known = list(_at_risk(rows))
        head = (
            "As far as home knows, this would be lost with it:"
            if known
            else "Home knows of nothing that is only there."
        )
        lines = [head, *(f"{symbols.states['failed']} {line}" for line in known[:SHOWN])]
        lines += [f"and {len(known) - SHOWN:,} more"] if len(known) > SHOWN else []
        self._list = Text(text("\n".join(lines)))
        self._note = Text(MORE, style="dim")

    def compose(self) -> ComposeResult:
        box = frame.dialog(self._title, *KEYS, kind="asks")
        with box:
            if cell_len(self._title) > min(110, self.app.size.width * 9 // 10) - 6:  # longer than the edge
                yield Static(Text(self._title, style="bold"))
            yield Static(self._why)
            with VerticalScroll(classes="part"):
                yield Static(self._list)
            yield Static(self._note, classes="part")

    def action_answer(self, verb: str) -> None:
        self.dismiss(verb or None)


def _at_risk(rows: Iterable[RunRow]) -> Iterator[str]:
    """Say of each run what of it would be lost, the one with most checkpoints first."""
    for row in sorted(rows, key=lambda row: (-row.kept.only_host, row.id)):
        kept = row.kept
        parts = [f"{counted(kept.only_host, 'checkpoint')} only there" if kept.only_host else ""]
        parts += [f"{kept.damaged} damaged at home" if kept.damaged else ""]
        parts += ["" if row.run.ended else "it had not ended when it was last seen"]
        if said := ", ".join(part for part in parts if part):
            yield f"{sanitize_line(row.id, 60)}: {said}"


def show_unanswered(board: Dashboard, name: str, why: str) -> None:
    """Show what home knows of a host that could not be asked, and do what the user chooses."""

    def go(verb: str | None) -> None:
        from armada.tui.screens.output import diagnose
        from armada.tui.screens.outside import open_shell

        if verb == "check":
            board.operate(f"check {name}", ["hosts", "check", name])
        elif verb == "doctor":
            diagnose(board, name)
        elif verb == "shell":
            open_shell(board, ["ssh", name])

    rows = [row for row in board.snapshot.runs if row.run.host == name]
    board.push_screen(Unanswered(name, why, rows, board.symbols), go)
