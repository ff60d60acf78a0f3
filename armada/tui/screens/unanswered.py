"""Show what home knows of a host that cannot be asked what it holds, and what you can do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.list_window import SHOWN, ListWindow
from armada.tui.widgets import frame
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from armada.tui.app import Dashboard
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols

MORE = "There may be more on it. Do not destroy it before it has answered."
KEYS = (("c", "check it"), ("d", "doctor"), ("!", "shell"), ("n, esc", "leave"))


class Unanswered(ListWindow[str | None]):
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
    ANSWERS = frozenset(("c", "d", "exclamation_mark", "n", "q", "enter"))
    """As those of a question."""

    def __init__(self, host: str, why: str, rows: Iterable[RunRow], symbols: Symbols) -> None:
        text = symbols.text
        known = list(_at_risk(rows))
        head = (
            "As far as home knows, this would be lost with it:"
            if known
            else "Home knows of nothing that is only there."
        )
        lines = [head, *(f"{symbols.states['failed']} {line}" for line in known[:SHOWN])]
        lines += [f"and {len(known) - SHOWN:,} more"] if len(known) > SHOWN else []
        super().__init__(
            f"{symbols.attention} {text(f'It is unknown what {sanitize_line(host, 60)} holds')}",
            Text(text("\n".join(lines))),
            MORE,
            frame.keys(*KEYS),
            why=text(sanitize_line(why, 400)),
            kind="asks",
        )

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
