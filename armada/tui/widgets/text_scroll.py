"""A text that scrolls by the keys of lists, and in which words can be found."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll
from textual.geometry import Region

from armada.tui.bindings import bindings
from armada.tui.widgets.finding import Finding, next_match
from armada.tui.widgets.marked_text import Markable

if TYPE_CHECKING:
    from textual.binding import BindingType


class TextScroll(VerticalScroll, Finding, inherit_bindings=False):
    """Scrolls what is in it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("lists"), *bindings("find")]

    _found: int | None = None
    """The number of the line that was found last: near the end, it cannot be the first one in sight."""

    def forget(self) -> None:
        """Be as a new one: at the top, with no word that was looked for."""
        self.word = ""
        self._mark(None, "")
        self.scroll_to(y=0, animate=False, immediate=True, force=True)

    def action_move(self, by: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 1))

    def action_edge(self, direction: int) -> None:
        self.scroll_to(y=0 if direction < 0 else self.max_scroll_y, animate=False)

    def find_from_here(self, word: str, by: int) -> bool:
        lines = self._lines
        top = min(int(self.scroll_offset.y), max(0, len(lines) - 1))
        in_sight = range(top, min(len(lines), top + self.size.height))
        is_at_match = by != 0 and self._found in in_sight and word in lines[self._found or 0].lower()
        at = next_match(lines, word, self._found or 0 if is_at_match else top, by)
        self._mark(at, word)
        if at is not None:
            self.scroll_to(y=at, animate=False)
        return at is not None

    def _mark(self, at: int | None, word: str) -> None:
        """Mark a line, or none, in the child that has it."""
        self._found, first = at, 0
        for child in self.children:
            if isinstance(child, Markable):
                is_here = at is not None and first <= at < first + child.size.height
                child.mark(at - first if at is not None and is_here else None, word)
            first += child.size.height

    @property
    def _lines(self) -> list[str]:
        """The lines as they are drawn, wrapped."""
        found: list[str] = []
        for child in self.children:
            size = child.size
            found += [strip.text for strip in child.render_lines(Region(0, 0, size.width, size.height))]
        return found
