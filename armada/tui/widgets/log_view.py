"""Show a log: follow its end, or move to any position."""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import work
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from armada.foundation.sanitize import sanitize_line
from armada.tui.ansi import pieces
from armada.tui.bindings import bindings
from armada.tui.line_numbers import LineNumbers
from armada.tui.log_colours import NAMES, css_of, paint
from armada.tui.log_file import LINE_BYTES, LogFile, LogLine
from armada.tui.log_matches import Matches
from armada.tui.log_places import find_place
from armada.tui.severity import Severities
from armada.tui.wrapped_lines import beginning, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.style import Style
    from textual import events
    from textual.binding import BindingType
    from textual.notifications import SeverityLevel

    from armada.tui.log_places import Place
    from armada.tui.symbols import Symbols

    _Find = Callable[[Callable[[], bool]], int | None]
    """Finds a place in a log until it is told to give up."""

LONGEST_WORD = 24
"""How much of the searched word the description of the place has."""


def _plain(line: LogLine) -> str:
    return "".join(piece.text for piece in pieces(line.raw, LINE_BYTES))


def _lines(first: int, last: int) -> str:
    return f"lines {first:,}–{last:,}" if last > first else f"line {first:,}"


class LogView(Widget, can_focus=True):
    """Draws the visible lines, and keeps only their offsets.

    Args:
        symbols: The symbols that the terminal can show.
        id: As for every widget.
        classes: As for every widget.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("lists"), *bindings("text")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log--{name}" for name in ("dim", "found", "match", *NAMES)}
    DEFAULT_CSS = f"""
    LogView {{ height: 1fr; background: $background; color: $foreground; }}
    LogView > .log--found {{ background: $accent; color: $background; text-style: bold; }}
    LogView > .log--match {{ color: $text-accent; text-style: bold underline; }}
    {css_of("LogView")}
    """

    class Looked(Message):
        """Another part of the file is visible, or the file has grown."""

    class Sought(Message):
        """A search in a file has ended, with or without a matching line."""

        def __init__(self, path: Path, what: str, offset: int | None, *, is_match: bool, is_only: bool = False) -> None:
            super().__init__()
            self.path = path
            self.what = what
            self.offset = offset
            self.is_match = is_match
            self.is_only = is_only
            """Nothing else matches than the line where the search began."""

    class Counted(Message):
        """The lines with the searched word are counted."""

        def __init__(self, matches: Matches) -> None:
            super().__init__()
            self.matches = matches

    def __init__(self, symbols: Symbols, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.symbols = symbols
        self._begin()

    def _begin(self) -> None:
        self.file: LogFile | None = None
        self.empty = ""
        self.following = True
        self.grows = True
        """More lines may come. The end of a log that is complete is not followed."""
        self.wrapping = False
        self.numbers = LineNumbers()
        """The numbers beside the lines."""
        self.hangs = False
        """The pieces of a wrapped line begin where its words do."""
        self.fills = True
        """A match near the end leaves the last page in sight; else it is the first visible line."""
        self.word = ""
        self._top = 0
        self._left = 0
        self._margin = 0
        """Columns before the lines, for their numbers."""
        self._lines: list[LogLine] = []
        self._strips: list[Strip] = []
        self._trouble = ""
        """Why the file cannot be read; empty if it can."""
        self._drawn: list[LogLine] = []
        """The line that each strip shows, or a piece of it."""
        self._stamp: object = None
        self._matches: Matches | None = None
        self._found: int | None = None
        """The line that the search has found last."""
        self._aim: int | None = None
        """The line that was jumped to last."""

    def forget(self) -> None:
        """Be as a new one: the next file that is shown is another run's."""
        self.workers.cancel_group(self, "seek")
        self.workers.cancel_group(self, "count")
        self._begin()

    def show(self, file: LogFile | None, *, empty: str, continues: bool = False) -> None:
        """Show this file from now on; `empty` is shown while there is none, and the place stays if it `continues` the last."""
        same = (file.path if file else None) == (self.file.path if self.file else None)
        filters = same and file is not None and self.file is not None and file.rank != self.file.rank
        self.file, self.empty = self.file if same and not filters else file, empty  # the old one knows what it has read
        if not same:
            self._stamp = None  # another file may be as long
            if not continues:
                self._top, self._left, self.following = 0, 0, True
        if filters and self.word:
            self._count()
        self.follow()

    def follow(self) -> None:
        """Check whether the file has grown or was replaced."""
        stamp = (
            (self.file.size, self.file.rank) if self.file else None,
            self.size,
            self._top,
            self._left,
            self.following,
            self.wrapping,
            self.numbers,
            self.empty,
            self.word,
        )
        if stamp == self._stamp and not self._trouble:
            return
        if self.file is not None and self._top > self.file.size:
            self.following = True  # the file was started again
        self._stamp = stamp
        self._read()

    def _read(self) -> None:
        height = max(1, self.size.height)
        if self.file is None:
            self._lines = []
        elif self.following:
            self._top = self.file.tail(height)
            self._lines = self.file.forward(self._top, height)
        else:
            self._lines = self.file.forward(self._top, height)
        self._trouble = self.file.trouble if self.file is not None and not self._lines else ""
        self._strips = self._draw(self.size.width)
        visible = slice(-height, None) if self.following else slice(height)
        self._strips, self._drawn = self._strips[visible], self._drawn[visible]
        if self.following and self._drawn:
            self._top = self._drawn[0].start  # a wrapped line takes several rows
        self.refresh()
        self.post_message(self.Looked())

    @property
    def place(self) -> str:
        """Describe what of the file is visible, the most important first: a narrow frame cuts the end."""
        if self.file is None:
            return ""
        if self._trouble:
            return "cannot be read"
        end = self._drawn[-1].next if self._drawn else 0
        number = self.numbers.of(self.file, self._drawn)
        parts = (
            self._place_of_match(),
            self._movement(f"{end / max(1, self.file.size):.0%}"),
            "" if self.file.rank is None else f"only rank {self.file.rank}",
            "" if number is None else _lines(number, number + len({line.start for line in self._drawn}) - 1),
            f"from column {self._left + 1}" if self._left and not self.wrapping else "",
            f"{self.file.size:,} bytes",
        )
        return " · ".join(part for part in parts if part)

    def _movement(self, share: str) -> str:
        """Say whether the view moves with the end of the file; a complete file has nothing to follow."""
        if self.following:
            return "following" if self.grows else "at the end"
        return f"paused at {share}" if self.grows else f"at {share}"

    def _place_of_match(self) -> str:
        if not self.word or self.file is None:
            return ""
        words = f"search “{sanitize_line(self.word, LONGEST_WORD)}”"
        if self._matches is None or not self._matches.of(self.file, self.word):
            return words
        return f"{words} {self._matches.describe(self._found)}"

    # Drawing --------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._stamp = None

    def on_resize(self) -> None:
        if self.file is not None and self.fills and not self.following and self._aim is None:
            self._top = min(self._top, self._first_of_page(self.file, self.file.size))  # a higher screen has more lines
        was_in_sight = self._is_found_in_sight
        self.follow()
        if was_in_sight and not self._is_found_in_sight and self._found is not None:  # a lower one ends above the match
            self.following, self._top = False, self._found
            self.follow()

    @property
    def _is_found_in_sight(self) -> bool:
        return self._found is not None and any(line.start == self._found for line in self._drawn)

    def render_line(self, y: int) -> Strip:
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, self.rich_style)

    def _draw(self, width: int) -> list[Strip]:
        style = self.rich_style
        dim = style + self.get_component_rich_style("log--dim")
        self._drawn = []
        if not self._lines:
            words = f"the log cannot be read: {self._trouble}" if self._trouble else self.empty
            lines = self.symbols.text(words).splitlines()
            return [Strip([Segment(f"  {line}", dim)]).adjust_cell_length(width, style) for line in lines]
        strips: list[Strip] = []
        severities, coloured = self._severities(), self._colours()
        margins = self._margins(width, dim)
        room = width - self._margin
        for line, margin in zip(self._lines, margins, strict=True):
            strip = Strip(self._segments(line, severities, coloured))
            pieces = self._wrapped(strip, room) if self.wrapping else [self._cut(strip, room, dim)]
            for piece in pieces:
                beside = margin if piece is pieces[0] else Strip.blank(self._margin, style)
                strips.append(Strip.join([beside, piece]).adjust_cell_length(width, style))
            self._drawn += [line] * len(pieces)
        return strips

    def _margins(self, width: int, style: Style) -> list[Strip]:
        """Return what stands before each line: its number, if it is known and there is room; and take the room for it."""
        texts = self.numbers.texts(self.file, self._lines, width)
        self._margin = len(texts[0])
        return [Strip([Segment(text, style)] if text else [], len(text)) for text in texts]

    def _wrapped(self, strip: Strip, width: int) -> list[Strip]:
        """Return the rows of a line, none wider than the screen."""
        if strip.cell_length <= width or width <= 0:
            return [strip]
        indent = beginning(strip.text, width) if self.hangs else 0
        first, *others = [strip.crop(start, end) for start, end in wrapped(strip.text, width, indent)]
        return [
            first,
            *(Strip.join([Strip.blank(indent, self.rich_style), each]) if indent else each for each in others),
        ]

    def _first_of_page(self, file: LogFile, end: int) -> int:
        """Return the start of the first line from which all lines up to an offset fit on the screen; at least one line."""
        height = max(1, self.size.height)
        first = file.backward(end, height)
        if not self.wrapping:
            return first
        left, coloured = height, self._colours()
        lines = [line for line in file.forward(first, height) if line.start < end]
        for line in reversed(lines):
            segments = self._segments(line, Severities(), coloured)
            left -= len(self._wrapped(Strip(segments), self.size.width - self._margin))
            if left < 0 and line is not lines[-1]:
                break
            first = line.start
        return first

    def _cut(self, strip: Strip, width: int, style: Style) -> Strip:
        """Cut a line that is not wrapped to the width, with a mark at each end that continues."""
        mark, end = Strip([Segment(self.symbols.cut, style)], 1), self._left + width
        before, after = 0 < self._left < strip.cell_length, strip.cell_length > end
        inner = strip.crop(self._left + before, end - after if after else None)
        return Strip.join([*([mark] if before else []), inner, *([mark] if after else [])])

    def _severities(self) -> Severities:
        """Return what marks the visible lines: those before them may have begun a traceback."""
        severities = Severities()
        if self.file is not None and self._lines:
            for line in self.file.lines_before(self._lines[0].start):
                severities.mark(line)
        return severities

    def _colours(self) -> dict[str, Style]:
        style = self.rich_style
        names = (*NAMES, "found", "match")
        return {name: style + self.get_component_rich_style(f"log--{name}") for name in names}

    def _segments(self, line: LogLine, severities: Severities, coloured: Mapping[str, Style]) -> list[Segment]:
        """Return a line in its colours: the job's own if it has some, else by its severity; what was searched over both."""
        style, variables = self.rich_style, self.app.theme_variables
        text, spans = paint(line.raw, LINE_BYTES, severities, coloured, style, variables)
        if line.start == self._aim:
            spans.append((0, len(text), coloured["match"]))
        spans += self._matched(text, coloured["found" if line.start == self._found else "match"])
        edges = sorted({0, *(edge for start, end, _ in spans for edge in (start, end))})
        segments = []
        for start, end in pairwise(edges):
            own = next((each[2] for each in reversed(spans) if each[0] <= start < each[1]), style)
            segments.append(Segment(self.symbols.text(text[start:end]), own))
        return segments or [Segment("", style)]

    def _matched(self, text: str, style: Style) -> list[tuple[int, int, Style]]:
        """Return where the searched word stands in a line."""
        word, found = self.word, []
        text = text.lower() if word == word.lower() else text
        at = text.find(word) if word else -1
        while at >= 0:
            found.append((at, at + len(word), style))
            at = text.find(word, at + len(word))
        return found

    # Moving ---------------------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        if self.file is None:
            return
        if by < 0:
            if self._top == 0 and (not self.following or self._first_of_page(self.file, self.file.size) == 0):
                return  # the whole file is in sight, and its end goes on being followed
            self.following = False
            self._top = self.file.backward(self._top, -by)
        elif not self.following:
            lines = self.file.forward(self._top, by + 1)
            self._top = lines[-1].start if lines else self._top
            self.following = self._top >= self._first_of_page(self.file, self.file.size)
        self.follow()

    def action_page(self, direction: int) -> None:
        by = self.size.height - 1
        if self.wrapping:
            by = len(self._page_before() if direction < 0 else {line.start for line in self._drawn}) - 1
        self.action_move(direction * max(1, by))

    def _page_before(self) -> list[LogLine]:
        """Return the lines of a page that ends with the first visible line."""
        if self.file is None or not self._drawn:
            return []
        top = self._drawn[0]
        lines = self.file.forward(self._first_of_page(self.file, top.next), max(1, self.size.height))
        return [line for line in lines if line.start <= top.start]

    def action_sideways(self, direction: int) -> None:
        """Scroll horizontally along long lines, by half a screen."""
        self._left = max(0, min(LINE_BYTES, self._left + direction * max(1, self.size.width // 2)))
        self.follow()

    def action_edge(self, direction: int) -> None:
        """Go to the first line, or to the last one and follow it."""
        self.action_first() if direction < 0 else self.action_last()

    def action_first(self) -> None:
        self.following, self._top = False, 0
        self.follow()

    def action_last(self) -> None:
        self.following, self._stamp = True, None
        self.follow()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.action_move(-3)
        event.stop()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.action_move(3)
        event.stop()

    def toggle_wrap(self) -> None:
        self.wrapping = not self.wrapping
        self.follow()

    def toggle_numbers(self) -> None:
        self.numbers = self.numbers.toggled(self.size.width)
        self.follow()
        why = self.numbers.why_none(self.file, self._lines) if self.numbers.wanted else ""
        if why:
            self.notify(self.symbols.text(why), severity="warning", markup=False)

    @property
    def picture(self) -> str:
        """Return the visible lines, whole and sanitized; the last of them may be visible in part only."""
        visible = dict.fromkeys(self._drawn[: max(1, self.size.height)])
        return "\n".join(_plain(line).rstrip() for line in visible)

    # Searching positions: in a thread, since gigabytes take seconds --------------------------------------------------

    def search(self, word: str) -> None:
        """Go to the last line with the word."""
        self.word, self._found, self._stamp = word, None, None
        if (file := self.file) is not None:
            self._seek(file.path, f"“{word}”", lambda given_up: file.find_back(word, file.size, given_up))

    def search_from_top(self) -> None:
        """Go to the first line with the word, from the top of the visible part."""
        file, word, top = self.file, self.word, self._top
        if file is not None and word:
            self._seek(file.path, f"“{word}”", lambda given_up: file.find_forward(word, top - 1, given_up))

    def search_on(self, *, back: bool) -> None:
        """Go to the next line with the word, starting at the match in sight, else at the top of the visible part."""
        file, word, top, match = self.file, self.word, self._top, self._found
        is_on = self._is_found_in_sight
        if match is not None and is_on:
            top = match
        if file is None or not word:
            return

        def find(given_up: Callable[[], bool], *, back: bool = back) -> int | None:
            return (file.find_back if back else file.find_forward)(word, top, given_up)

        where = "towards the beginning" if back else "towards the end"
        other: _Find | None = partial(find, back=not back) if is_on else None
        self._seek(file.path, f"“{word}” {where}", find, other=other)

    def jump(self, place: Place, typed: str) -> None:
        """Go to a place, as it was typed."""
        if (file := self.file) is not None:
            self._seek(file.path, typed, lambda given_up: find_place(file, place, given_up), is_match=False)

    @work(thread=True, exclusive=True, group="seek", exit_on_error=False)
    def _seek(self, path: Path, what: str, find: _Find, *, is_match: bool = True, other: _Find | None = None) -> None:
        """Find a place; `other` finds another match in the other direction, if the search begins at one."""
        worker, is_only = get_current_worker(), False
        try:
            found = find(lambda: worker.is_cancelled)
            is_only = found is None and other is not None and other(lambda: worker.is_cancelled) is None
        except OSError as error:
            found, what = None, f"{what} ({error.strerror})"
        if not worker.is_cancelled:
            self.post_message(self.Sought(path, what, found, is_match=is_match, is_only=is_only))

    def on_log_view_sought(self, event: Sought) -> None:
        event.stop()
        if self.file is None or self.file.path != event.path:
            return  # another file is shown by now
        if event.offset is not None:
            self.following, self._top = False, event.offset
            self._aim = None if event.is_match else event.offset
            if event.is_match:
                self._found = event.offset
                if self.fills:
                    self._top = min(event.offset, self._first_of_page(self.file, self.file.size))
                self._count()
        else:
            words = f"not found in the copy at home: {sanitize_line(event.what, 100)}"
            if event.is_only:
                words = f"this is the only match in the copy at home: “{sanitize_line(self.word, 100)}”"
            severity: SeverityLevel = "information" if event.is_only else "warning"
            self.notify(self.symbols.text(words), severity=severity, markup=False)
        self._stamp = None
        self.follow()

    @work(thread=True, exclusive=True, group="count", exit_on_error=False)
    def _count(self) -> None:
        """Count the lines with the word, for `3 of 21`."""
        worker, file, word = get_current_worker(), self.file, self.word
        if file is None or not word:
            return
        matches = self._matches
        if matches is None or not matches.of(file, word):
            matches = Matches(file, word)
        with contextlib.suppress(OSError):
            matches.extend(lambda: worker.is_cancelled)
            if not worker.is_cancelled:
                self.post_message(self.Counted(matches))

    def on_log_view_counted(self, event: Counted) -> None:
        event.stop()
        self._matches = event.matches
        self.post_message(self.Looked())
