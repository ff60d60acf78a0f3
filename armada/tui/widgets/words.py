"""A line that is drawn again only if its words differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

if TYPE_CHECKING:
    from rich.text import Text


class Words(Static):
    """A text whose height its style sheet gives: other words need no other room, so nothing else is laid out."""

    _said: Text | None = None

    def say(self, words: Text) -> None:
        """Show a text in place of the one before."""
        if self._said is None or self._said != words:
            self._said = words
            self.update(words, layout=False)
