"""What Runs says before the first launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from armada.tui.widgets import frame

if TYPE_CHECKING:
    from textual.app import ComposeResult

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
OFFERS = frozenset({"launch"})
"""The actions of Runs that have something to act on."""


class FirstStart(Container):
    """A frame in the middle of the screen."""

    DEFAULT_CSS = """
    FirstStart { display: none; height: 1fr; align: center middle; }
    FirstStart Static { width: 72; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; }
    """

    def compose(self) -> ComposeResult:
        words = Static(Content.assemble(*WORDS), classes=frame.FRAME)
        frame.title(words, "Welcome")
        yield words
