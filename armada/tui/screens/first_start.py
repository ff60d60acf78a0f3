"""What Runs says before the first launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.records.left_folders import FINDS_AGAIN, left_folders
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.paths import HomePaths

_KEY, _NAME = "bold $text-accent", "bold"
WORDS: tuple[str | tuple[str, str], ...] = (
    "\nNothing has been launched yet. To begin:\n\n  ",
    ("n", _KEY),
    "          launch an experiment; ",
    ("quickstart", _NAME),
    " on the host ",
    ("local", _NAME),
    "\n             trains a tiny model here, in about a minute\n  ",
    ("3", _KEY),
    ", then ",
    ("a", _KEY),
    "  add a GPU box\n\nThe same in a terminal:\n\n  ",
    ("armada launch --host local quickstart --follow", _NAME),
    "\n  ",
    ("armada hosts add NAME user@address:port", _NAME),
    "\n\n",
    ("?", _KEY),
    " lists all keys, ",
    ("q", _KEY),
    " leaves.\n",
)
LONGEST = 500
OFFERS = frozenset({"launch"})
"""The actions of Runs that have something to act on."""


class FirstStart(Container):
    """A frame in the middle of the screen."""

    DEFAULT_CSS = """
    FirstStart { display: none; height: 1fr; align: center middle; }
    FirstStart Static { width: 72; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; }
    """

    def compose(self) -> ComposeResult:
        self.words = Static(Content.assemble(*WORDS), classes=frame.FRAME)
        frame.title(self.words, "Welcome")
        yield self.words

    def look(self, home: HomePaths) -> None:
        """Say what there is of runs that the store does not have: then it is not the first start."""
        if (left := left_folders(home)) is None:
            return
        frame.title(self.words, "No runs")
        words = f"\n{sanitize_line(left, LONGEST)}.\n\nIn a terminal: "
        self.words.update(Content.assemble(words, (FINDS_AGAIN, _NAME), ".\n"))
