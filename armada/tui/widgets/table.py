"""A table that draws only visible lines. Textual's DataTable redraws its whole viewport for one changed cell (47 ms, measured)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from armada.tui import heat
from armada.tui.bindings import bindings
from armada.tui.widgets.column_rooms import places_shown, rooms_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from textual import events
    from textual.timer import Timer

    from armada.tui.symbols import Symbols

Span = tuple[str, str]
"""Sanitized text and the name of a style: plain, dim, faint, good, bad, warn, accent, strong, key, load-1 to load-5."""
Cells = tuple[tuple[Span, ...], ...]

LINES_KEPT = 500
REST_S = 0.05
STYLES = (
    "plain",
    "dim",
    "faint",
    "key",
    "good",
    "bad",
    "warn",
    "accent",
    "strong",
    "head",
    "cursor",
    "heading",
    *heat.STYLES,
)


class Column(NamedTuple):
    """A column. If the table is too narrow, the one with the highest `rank` is left out first.

    What is left makes columns first as wide as their `wants`. `grow` then shares it, up to `most`; the rest makes columns
    wider up to their `widest`.
    """

    title: str
    width: int
    right: bool = False
    grow: int = 0
    most: int = 1000
    rank: int = 0
    widest: int = 0
    wants: int = 0


class Entry(NamedTuple):
    """A line: a `row` can have the cursor, `more` belongs to the row above it, `heading` is above rows."""

    key: str
    source: object
    kind: Literal["row", "more", "heading"] = "row"


class Table(ScrollView, can_focus=True):
    """Lines under a header; subclasses define their cells.

    Args:
        columns: From left to right.
        symbols: The symbols that the terminal can show.
        id: As for every widget.
        classes: As for every widget; one that is added later styles the widget once more.
    """

    BINDINGS = bindings("lists")
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"table--{name}" for name in STYLES}
    DEFAULT_CSS = """
    Table { background: $background; color: $foreground; overflow-x: hidden; scrollbar-size-vertical: 1; }
    Table > .table--dim { color: $text-muted; }
    Table > .table--faint { color: $frame; }
    Table > .table--key { color: $text-accent; text-style: bold; }
    Table > .table--good { color: $text-success; }
    Table > .table--bad { color: $text-error; }
    Table > .table--warn { color: $text-warning; }
    Table > .table--accent { color: $text-accent; }
    Table > .table--strong { text-style: bold; }
    Table > .table--head { color: $text-muted; }
    Table > .table--cursor { background: $boost; text-style: bold; }
    Table:focus > .table--cursor { background: $accent 20%; }
    Table > .table--heading { color: $text-primary; text-style: bold; }
    """ + heat.css_of("Table", "table")

    class Moved(Message):
        """The cursor moved to another row."""

        def __init__(self, table: Table, key: str | None) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            return self.table

    class Rested(Moved):
        """The cursor has stayed where it is for a moment: time to read and draw what is slower than the cursor."""

    class Headed(Message):
        """The title of a column was clicked."""

        def __init__(self, table: Table, place: int) -> None:
            super().__init__()
            self.table = table
            self.place = place
            """The column's place among all columns: several may have the same title."""

        @property
        def control(self) -> Table:
            return self.table

    class Chosen(Moved):
        """A row was clicked twice."""

    def __init__(
        self,
        columns: Sequence[Column],
        symbols: Symbols,
        *,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.columns = tuple(columns)
        self.symbols = symbols
        self.marked: set[str] = set()
        self.entries: list[Entry] = []
        self.cursor: str | None = None
        self._empty, self._height = "", 0
        self._lines: dict[str, int] = {}
        self._cache: dict[tuple[str, str], tuple[object, Strip]] = {}
        self._styles: dict[str, Style] = {}
        self._layout: tuple[int, list[tuple[int, int]]] = (-1, [])
        self._drawn_room: int | None = None
        self._unused: frozenset[int] = frozenset()
        """Places of columns that yield their room."""

    def cells(self, entry: Entry) -> Cells:
        """Return a line's cells: one group of spans per column, or a single one across all for `more` and `heading`."""
        raise NotImplementedError

    def set_columns(self, columns: Sequence[Column], unused: Collection[int] = ()) -> None:
        """Replace the columns; the lines stay. Those at the `unused` places yield their room."""
        self.columns, self._unused = tuple(columns), frozenset(unused)
        self._layout = (-1, [])
        self._cache.clear()
        self.refresh()

    # Content ------------------------------------------------------------------------------------------------------

    @property
    def empty(self) -> str:
        """The text shown while there are no lines; sanitized, and it names the next key."""
        return self._empty

    @empty.setter
    def empty(self, words: str) -> None:
        if words != self._empty:
            self._empty = words
            self.refresh()

    def show(self, entries: list[Entry]) -> None:
        """Show new lines; the cursor stays on its row, and in sight if it was, or near its former place."""
        before, was_in_sight = self._lines.get(self.cursor or "", 0), self._is_cursor_in_sight
        same = len(entries) == len(self.entries) and all(
            new.key == old.key and new.kind == old.kind for new, old in zip(entries, self.entries, strict=True)
        )
        self.entries = entries
        if same:
            self.refresh_changed()
            return
        self._lines = {entry.key: line for line, entry in enumerate(entries) if entry.kind == "row"}
        self._measure()
        if self.cursor not in self._lines:
            near = self._row_near(min(before, len(entries) - 1), 1) if entries else None
            self._set_cursor(near)
        if was_in_sight:
            self.reveal()
        else:
            self._begin_with(self.scroll_offset.y, self._lines.get(self.cursor or "", 0))
        self.refresh()

    def _measure(self) -> None:
        """Let the table scroll until a row begins at its top: then some lines under its end are empty."""
        first = max(0, len(self.entries) - max(1, self.size.height - 1))
        begins = (line for line in range(first, len(self.entries)) if self.entries[line].kind != "more")
        size = Size(0, len(self.entries) + 1 + next(begins, first) - first)
        if self.virtual_size != size:
            self.virtual_size = size

    def replace(self, sources: Mapping[str, object]) -> None:
        """Replace the sources of rows that stay in place."""
        for key, source in sources.items():
            line = self._lines.get(key)
            while line is not None and line < len(self.entries) and self.entries[line].key == key:
                self.entries[line] = self.entries[line]._replace(source=source)
                line += 1
        self.refresh_changed()

    def refresh_changed(self) -> None:
        """Redraw the visible lines that have changed: ages grow without new data."""
        top, room = self.scroll_offset.y, self._room
        for y in range(1, self.size.height):
            line = top + y - 1
            if line >= len(self.entries):
                break
            entry = self.entries[line]
            known = self._cache.get((entry.key, entry.kind))
            if known is None or known[0] != self._signature(entry, room):
                self.refresh(Region(0, y, room, 1))

    @property
    def row_count(self) -> int:
        return len(self._lines)

    @property
    def visible_keys(self) -> list[str]:
        top = self.scroll_offset.y
        return [entry.key for entry in self.entries[top : top + self.size.height] if entry.kind == "row"]

    def toggle_mark(self, key: str) -> None:
        self.marked ^= {self.mark_of(key)}
        self._refresh_row(key)

    def mark_of(self, key: str) -> str:
        """Return what stands in `marked` for a row."""
        return key

    def is_marked(self, key: str) -> bool:
        return self.mark_of(key) in self.marked

    def forget(self) -> None:
        """Be as a new one: no lines, no cursor, nothing marked."""
        self.marked, self.cursor = set(), None
        self.show([])
        self._cache.clear()

    # Drawing --------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        self._styles.clear()
        self._cache.clear()
        super().notify_style_update()

    def style_of(self, name: str) -> Style:
        if not self._styles:
            base = self.rich_style
            self._styles = {each: base + self.get_component_rich_style(f"table--{each}") for each in STYLES}
        return self._styles[name]

    @property
    def _room(self) -> int:
        """How many columns can be seen: `size` has the one of the scrollbar, too."""
        return self.scrollable_content_region.width if self._drawn_room is None else self._drawn_room

    def _signature(self, entry: Entry, room: int) -> tuple[Cells, int, bool, bool]:
        """Return what a line's look depends on, the first of it its cells."""
        self._drawn_room = room  # cells ask for it again and again, and Textual computes it anew
        try:
            return (self.cells(entry), room, entry.key == self.cursor, self.is_marked(entry.key))
        finally:
            self._drawn_room = None

    def render_line(self, y: int) -> Strip:
        width = self._room
        if y == 0:
            titles = tuple(((column.title, "head"),) for column in self.columns)
            return self._strip(titles, width, head=True)
        line = self.scroll_offset.y + y - 1
        if y == 1 and not self.entries and self.empty:
            return Strip([Segment(f"  {self.empty}", self.style_of("dim"))]).adjust_cell_length(
                width, self.style_of("plain")
            )
        if line >= len(self.entries):
            return Strip.blank(width, self.rich_style)
        entry = self.entries[line]
        signature = self._signature(entry, width)
        known = self._cache.get((entry.key, entry.kind))
        if known is not None and known[0] == signature:
            return known[1]
        strip = self._draw(entry, signature[0], width)
        if len(self._cache) >= LINES_KEPT:
            self._cache.clear()
        self._cache[entry.key, entry.kind] = (signature, strip)
        return strip

    def _draw(self, entry: Entry, cells: Cells, width: int) -> Strip:
        under = entry.key == self.cursor and entry.kind == "row"
        if entry.kind == "row":
            return self._strip(cells, width, under=under, marked=self.is_marked(entry.key))
        spans = cells[0]
        goes_on = bool(spans) and spans[0][0].isspace()  # it is the rest of the line above
        indent = f"    {' ' if goes_on else self.symbols.guide} " if entry.kind == "more" else ""
        segments, room = [Segment(indent, self.style_of("faint"))], width - len(indent)
        for text, name in spans:
            shown = text if cell_len(text) <= room else self._cut(text, room)
            segments.append(Segment(shown, self.style_of(name)))
            room = max(0, room - cell_len(text))
        return Strip(segments).adjust_cell_length(width, self.style_of("plain"))

    def _strip(
        self, cells: Cells, width: int, *, head: bool = False, under: bool = False, marked: bool = False
    ) -> Strip:
        plain = self.style_of("plain")
        # Spaces go to what stands before them: each further segment costs in every later step, and on a slow link.
        texts = [(self.symbols.cursor if under else " ") + (self.symbols.marked if marked else " ")]
        styles = [self.style_of("accent")]
        filled = 2
        for index, room in self._fit(width):
            column = self.columns[index]
            spans = cells[index]
            used = sum(cell_len(text) for text, _ in spans)
            if column.right and used < room:
                texts[-1] += " " * (room - used)
            left = room
            for text, name in spans:
                size = cell_len(text)
                if left <= 0 or (left < room and size > left):
                    break  # leave out what does not fit, rather than cutting it
                shown = text if size <= left else self._cut(text, left)
                style = self.style_of("head" if head else name)
                if style is styles[-1]:
                    texts[-1] += shown
                elif shown:
                    texts.append(shown)
                    styles.append(style)
                left -= min(size, left)
            texts[-1] += " " * (1 if column.right and used < room else left + 1)
            filled += room + 1
        strip = Strip(map(Segment, texts, styles), filled).adjust_cell_length(width, plain)
        if not under:
            return strip
        over = Style(bgcolor=self.get_component_rich_style("table--cursor").bgcolor, bold=True)
        return Strip([Segment(text, (style or plain) + over) for text, style, _ in strip], width)

    def _cut(self, text: str, width: int) -> str:
        """Cut a text that is longer than its column, with a mark."""
        if width <= 1:
            return set_cell_size(text, max(0, width))
        return self.symbols.shortened(text, width)

    def _fit(self, width: int) -> list[tuple[int, int]]:
        """Return which columns fit, and the width of each."""
        if self._layout[0] == width:
            return self._layout[1]
        self._layout = (width, list(rooms_of(self.columns, width, self._columns_for(width)).items()))
        return self._layout[1]

    def _columns_for(self, width: int) -> list[int]:
        return places_shown(self.columns, width, self._unused)

    def on_resize(self) -> None:
        self._cache.clear()
        was_in_sight, self._height = self._is_cursor_in_sight or not self._height, self.size.height
        self._measure()
        if was_in_sight:
            self.reveal()  # a smaller window must not leave the cursor below its edge
        if self.show_vertical_scrollbar:  # Textual leaves it where it was when it was hidden
            self.vertical_scrollbar.position = self.scroll_y

    def on_focus(self) -> None:
        self._cache.clear()  # the cursor then looks different
        self._refresh_row(self.cursor)

    on_blur = on_focus

    def _refresh_row(self, key: str | None) -> None:
        if key is not None and (line := self._lines.get(key)) is not None:
            after = self.entries[line + 1 : line + 2]
            high = 2 if after and after[0].kind == "more" else 1  # what hangs under it may differ, too
            y = line - self.scroll_offset.y + 1
            if 1 <= y < self.size.height:
                self.refresh(Region(0, y, self._room, min(high, self.size.height - y)))

    # Moving ---------------------------------------------------------------------------------------------------------

    def _row_near(self, line: int, step: int) -> str | None:
        """Return the row at a line, else the next one in the direction, else the one before."""
        for direction in (step, -step):
            at = line
            while 0 <= at < len(self.entries):
                if self.entries[at].kind == "row":
                    return self.entries[at].key
                at += direction
        return None

    def _row_at(self, line: int) -> str | None:
        """Return the row that a line belongs to; None for the lines of a heading."""
        while line > 0 and self.entries[line].kind == "more":
            line -= 1
        return self.entries[line].key if self.entries[line].kind == "row" else None

    def _set_cursor(self, key: str | None) -> None:
        if key == self.cursor:
            self.reveal()  # the wheel may have moved it out of sight
            return
        old, self.cursor = self.cursor, key
        self._refresh_row(old)
        self._refresh_row(key)
        if key is not None:
            self._reveal(self._lines[key])
        self.post_message(self.Moved(self, key))
        self._rest.reset()

    @cached_property
    def _rest(self) -> Timer:
        return self.set_interval(REST_S, self._say_rested, pause=True)

    def _say_rested(self) -> None:
        self._rest.pause()
        self.post_message(self.Rested(self, self.cursor))

    def _reveal(self, line: int) -> None:
        """Scroll to a row and the lines under it; the first line in sight begins a row."""
        room = max(1, self.size.height - 1)
        top, end = self.scroll_offset.y, self._end_of(line)
        if line < top:
            self.scroll_to(y=0 if line <= 1 else line, animate=False, immediate=True, force=True)
        else:
            self._begin_with(min(line, end - room + 1) if end >= top + room else top, line)

    def _begin_with(self, first: int, line: int) -> None:
        """Scroll so that the first line in sight is `first`, or the next one, up to the cursor's, that begins a row."""
        while first < line and self.entries[first].kind == "more":
            first += 1
        if first != self.scroll_offset.y:
            self.scroll_to(y=first, animate=False, immediate=True, force=True)

    def _end_of(self, line: int) -> int:
        """Return the last line that belongs to a row."""
        while line + 1 < len(self.entries) and self.entries[line + 1].kind == "more":
            line += 1
        return line

    @property
    def _is_cursor_in_sight(self) -> bool:
        line, top = self._lines.get(self.cursor or ""), self.scroll_offset.y
        return line is not None and top <= line < top + self._height - 1

    def reveal(self) -> None:
        """Scroll to the cursor, where its row has moved to."""
        if (line := self._lines.get(self.cursor or "")) is not None:
            self._reveal(line)

    def shows(self, key: str) -> bool:
        """Return whether there is a row with this key."""
        return key in self._lines

    def place(self, key: str) -> None:
        """Put the cursor on a row, where it is shown."""
        if key in self._lines:
            self._set_cursor(key)

    def action_move(self, by: int) -> None:
        if self.entries:
            line = self._lines.get(self.cursor or "", 0) + by
            self._set_cursor(self._row_near(max(0, min(len(self.entries) - 1, line)), 1 if by > 0 else -1))

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_edge(self, direction: int) -> None:
        self.action_move(direction * len(self.entries))

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is None:
            return  # on the frame
        if inside.y == 0:
            left = 2
            for index, room in self._fit(self._room):
                if left <= inside.x < left + room + 1:
                    self.post_message(self.Headed(self, index))
                left += room + 1
            return
        line = self.scroll_offset.y + inside.y - 1
        if 0 <= line < len(self.entries) and (key := self._row_at(line)) is not None:
            self._set_cursor(key)
            if event.chain >= 2:
                self.post_message(self.Chosen(self, key))
