"""Five steps for newcomers, shown when the dashboard opens an empty home for the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Static

from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols

TITLES = ("What armada does", "Add a host", "Try the quickstart", "Watch it", "Bring it home")
WHAT = """It starts fine-tunings on your hosts: this machine, boxes that you rent, Slurm and HTCondor clusters. \
It watches them, and brings every checkpoint home, verified.

Runs do not need this dashboard. You can close it at any time: they continue."""
HOST = """Press 3 for Hosts, then a. Paste the line that your provider shows, such as

    ssh -p 50022 root@203.0.113.7

Compare the key that is shown, then confirm. This machine is the host local; it is there already."""
TRY = """Press n on Runs, type quickstart, Tab, local. The plan appears; ^l launches it.

It trains a tiny model here, in about a minute. The first launch also builds its environment."""
WATCH = """On Runs, the first line says what runs, what needs you, and what it costs. Enter opens a run: its curves, \
log and checkpoints.

: takes any command of armada and fills in what is under the cursor: :why explains a failure. ? lists all keys."""
HOME = """The daemon fetches each new checkpoint and verifies every file. 4 shows what is home and what waits.

Before you destroy a box, press r on it (screen 3): it says what would be lost."""
STEPS = tuple(zip(TITLES, (WHAT, HOST, TRY, WATCH, HOME), strict=True))


class Tour(Dialog[None]):
    """One step at a time. Escape leaves it.

    Args:
        symbols: The symbols that the terminal can show.
    """

    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("escape,q", "close", "leave"),
        Binding("enter,space,right,j,n,down", "step(1)", "next"),
        Binding("left,k,p,up,backspace", "step(-1)", "back"),
    ]
    DEFAULT_CSS = """
    Tour { align: center middle; }
    Tour Vertical { width: 90%; max-width: 76; height: auto; max-height: 95%; }
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self._symbols = symbols
        self._place = 0

    def compose(self) -> ComposeResult:
        self.text = Static()
        self.box = frame.dialog("")
        with self.box:
            yield self.text

    def on_mount(self) -> None:
        self._show()

    def _show(self) -> None:
        title, words = STEPS[self._place]
        last = self._place == len(STEPS) - 1
        text = self._symbols.text
        frame.title(self.box, text(f"{self._place + 1} of {len(STEPS)} · {title}"))
        keys = frame.keys(("enter", "ends it" if last else "continues"), (text("←"), "back"), ("esc", "leaves"))
        frame.facts(self.box, keys)
        self.text.update(Text.assemble(text(words), (text("\n\n:tour shows this again"), "dim")))

    def action_step(self, by: int) -> None:
        if self._place + by >= len(STEPS):
            self.action_close()
            return
        self._place = max(0, self._place + by)
        self._show()

    def action_close(self) -> None:
        self.dismiss(None)
