"""Search in a list or a text: `/` asks for a word, `n` and `N` go to the next match."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.widget import Widget

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from armada.tui.app import Dashboard


class Finding(Widget):
    """The actions of the keys in `bindings("find")`. Subclasses know where the word is."""

    word = ""

    def find_from_here(self, word: str, by: int) -> bool:
        """Go to the next place with a word, in lower case, and start again at the other end; return whether there is one.

        Args:
            word: In lower case.
            by: 1 towards the end, -1 towards the beginning, 0 as 1 but also where the cursor is.
        """
        raise NotImplementedError

    def action_find(self) -> None:
        """Ask for a word, and go to it."""
        note = "n and N then go to the next match and the one before."
        cast("Dashboard", self.app).ask_word("Search", note, self.word, self._find)

    def _find(self, word: str | None) -> None:
        if word is not None:
            self.word = word
            self._go(0)

    def action_find_on(self, by: int) -> None:
        if self.word:
            self._go(by)
        else:
            self.action_find()

    def _go(self, by: int) -> None:
        if not self.find_from_here(self.word.lower(), by):
            symbols = cast("Dashboard", self.app).symbols
            words = symbols.text(f"not found: {sanitize_line(self.word, 100)}")
            self.notify(words, severity="warning", markup=False)


def next_match(texts: list[str], word: str, start: int, by: int) -> int | None:
    """Return the place of the next text with a word, around the end; None if there is none.

    Args:
        texts: All texts.
        word: In lower case.
        start: The place of the cursor.
        by: As for `Finding.find_from_here`.
    """
    step = by or 1
    for far in range(0 if by == 0 else 1, len(texts) + 1):
        at = (start + far * step) % len(texts) if texts else 0
        if texts and word in texts[at].lower():
            return at
    return None
