"""A scatter plot: a letter for each run, a setting or the cost against a metric, and the Pareto front."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from armada.tui import ticks
from armada.tui.curves import Levels
from armada.tui.widgets.braille import EMPTY, Canvas, Window, draw
from armada.tui.widgets.chart_axes import COLUMNS_PER_TICK, y_axis
from armada.tui.widgets.chart_plane import LABEL
from armada.tui.widgets.plot import Cell, Drawn, Plot, put, text_cells

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from armada.tui.scales import Marks, Scale

FRONT = 250
"""What owns the cells of the front."""


class Scatter(Plot):
    """Runs in a plane; if there is a front, runs that are not on it are dimmed."""

    x: Scale | None = None
    y: Scale | None = None
    runs: tuple[Drawn, ...] = ()
    front: frozenset[int] | None = None

    def show(
        self, x: Scale | None, y: Scale | None, runs: Sequence[Drawn], empty: str, front: Collection[int] | None = None
    ) -> None:
        """Show runs.

        Args:
            x: The horizontal axis.
            y: The vertical axis.
            runs: One for each place on the axes.
            empty: Why nothing is shown, sanitized.
            front: The runs on the Pareto front; None: no front is drawn.
        """
        made = (x, y, tuple(runs), empty, None if front is None else frozenset(front))
        if made != (self.x, self.y, self.runs, self.empty, self.front):
            self.x, self.y, self.runs, self.empty, self.front = made
            self.redraw()

    @property
    def points(self) -> dict[int, tuple[float, float]]:
        """The runs that have both values, and where they are, from 0 to 1."""
        if self.x is None or self.y is None:
            return {}
        pairs = enumerate(zip(self.x.shares, self.y.shares, strict=True))
        return {place: (x, y) for place, (x, y) in pairs if x is not None and y is not None}

    def cells(self, width: int, height: int) -> list[list[Cell]]:
        points, room, rows = self.points, width - LABEL - 2, height - 3
        if self.x is None or self.y is None or not points or room < 8 or rows < 2:
            return []
        points, labels = self._upright(self.y, points, rows)
        y_title, x_title = (
            self.symbols.text(axis.title + (" (log)" if axis.kind == "log" else "")) for axis in (self.y, self.x)
        )
        lines = [text_cells(f" {y_title}", "title", width)]
        canvas = self._canvas(points, room, rows)
        for row in range(rows):
            line = text_cells(f"{labels.get(row, ''):>{LABEL - 1}} ", "dim", LABEL)
            for text, owner in canvas.row(row, utf8=self.symbols.utf8):
                if owner == EMPTY:
                    line += [(self.symbols.grid, "grid") if row in labels else (" ", "")] * len(text)
                else:
                    style = "accent" if owner == FRONT else self._style_of(owner)
                    line += [(character, style) for character in text]
            lines.append(line)
        return [*lines, self._foot(room, width), text_cells(f"{x_title:>{width - 2}}", "title", width)]

    def _upright(
        self, axis: Scale, points: dict[int, tuple[float, float]], rows: int
    ) -> tuple[dict[int, tuple[float, float]], dict[int, str]]:
        """Return where the runs are, and the rows of the ticks with their labels; numbers have them as in a chart."""
        if (bounds := axis.bounds) is None:
            return points, self._row_labels(axis, rows)
        low, high = bounds
        window, marks = y_axis(Window(0.0, 1.0, low, high), rows, log=axis.kind == "log")
        tall = window.y1 - window.y0
        moved = {place: (x, (low + y * (high - low) - window.y0) / tall) for place, (x, y) in points.items()}
        return moved, {row: self.symbols.text(label)[: LABEL - 1] for row, label in marks.items()}

    def _row_labels(self, axis: Scale, rows: int) -> dict[int, str]:
        """Return the rows of the ticks, with their labels. Where they are too near, each second or third one stays."""
        places = [ticks.row_of(1 - share, rows) for share, _ in axis.marks]
        kept = ticks.evenly(places) if axis.kind == "linear" and not axis.is_exact else range(len(places))
        shown = kept
        for stride in range(1, len(kept) + 1):
            shown = kept[::stride]
            if all(abs(places[after] - places[before]) > 1 for before, after in pairwise(shown)):
                break
        return {places[place]: self.symbols.text(axis.marks[place][1])[: LABEL - 1] for place in shown}

    def _canvas(self, points: dict[int, tuple[float, float]], room: int, rows: int) -> Canvas:
        canvas = Canvas(room, rows)
        if self.front:
            along = sorted(points[place] for place in self.front if place in points)
            draw(canvas, [x for x, _ in along], Levels(y for _, y in along), Window(0.0, 1.0, 0.0, 1.0), FRONT)
        for place in sorted(points, key=lambda each: not self.runs[each].lit):
            x, y = points[place]
            canvas.letter(round(x * (room * 2 - 1)), round((1 - y) * (rows * 4 - 1)), self.runs[place].sign, place)
        return canvas

    def _style_of(self, place: int) -> str:
        run = self.runs[place]
        return run.style if run.lit or self.front is None or place in self.front else "dim"

    def _foot(self, room: int, width: int) -> list[Cell]:
        foot: list[Cell] = [(" ", "")] * width
        ends = LABEL
        for share, label in self._fitting(room):
            shown = self.symbols.text(label)[:14]
            start = max(LABEL, min(LABEL + room - len(shown), LABEL + round(share * (room - 1)) - len(shown) // 2))
            if start >= ends:
                put(foot, start, shown, "dim")
                ends = start + len(shown) + 2
        return foot

    def _fitting(self, room: int) -> Marks:
        """Return as many ticks of the horizontal axis as have room beside each other."""
        if self.x is None:
            return ()
        for marks in reversed(self.x.finer):
            widest = max((len(label) for _, label in marks), default=0)
            least = max(COLUMNS_PER_TICK, widest + 4)
            if all((after - before) * (room - 1) >= least for (before, _), (after, _) in pairwise(marks)):
                return marks
        return self.x.marks
