"""Parallel coordinates: an axis for each setting and for the metric, a line for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from armada.tui import ticks
from armada.tui.curves import NAN, Levels
from armada.tui.widgets.braille import EMPTY, Canvas, Window, draw
from armada.tui.widgets.plot import BLANK, Cell, Drawn, Plot, put
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.scales import Scale

NARROWEST = 14
"""Columns for an axis and its labels."""
LABEL = 13
"""Columns for a label, with the blanks that keep it apart from letters and curves."""


class Parallel(Plot):
    """Axes side by side; the run under the cursor is lit, the others are dimmed."""

    axes: tuple[Scale, ...] = ()
    runs: tuple[Drawn, ...] = ()

    def show(self, axes: Sequence[Scale], runs: Sequence[Drawn], empty: str) -> None:
        """Show runs on axes; of more axes than fit, the last one and the first ones are drawn."""
        if (tuple(axes), tuple(runs), empty) != (self.axes, self.runs, self.empty):
            self.axes, self.runs, self.empty = tuple(axes), tuple(runs), empty
            self.redraw()

    def fitting(self, width: int) -> tuple[Scale, ...]:
        """Return the axes that fit into a width."""
        most = max(1, width // NARROWEST)
        return self.axes if len(self.axes) <= most else (*self.axes[: most - 1], self.axes[-1])

    def left_out(self, width: int) -> str:
        """Return how many settings do not fit into a width, for a title; "" if all do."""
        left = len(self.axes) - len(self.fitting(width))
        does = "does" if left == 1 else "do"
        return f" · {left:,} of {counted(len(self.axes) - 1, 'setting')} {does} not fit" if left else ""

    def cells(self, width: int, height: int) -> list[list[Cell]]:
        axes, rows = self.fitting(width), height - 1
        if not axes or not self.runs or rows < 2 or width < 4:
            return []
        room = max(1, width - NARROWEST if len(axes) > 1 else width)
        columns = [round(place * (room - 1) / max(1, len(axes) - 1)) for place in range(len(axes))]
        canvas = self._canvas(axes, columns, width, rows)
        lines: list[list[Cell]] = [[BLANK] * width]
        for row in range(rows):
            line: list[Cell] = []
            for text, owner in canvas.row(row, utf8=self.symbols.utf8):
                line += [(each, "" if owner == EMPTY else self._style_of(owner, each)) for each in text]
            lines.append(line)
        bar = "│" if self.symbols.utf8 else "|"
        for number, (axis, column) in enumerate(zip(axes, columns, strict=True)):
            last = number == len(axes) - 1
            wide = (columns[number + 1] if not last else width) - column - 2
            put(lines[0], column, self._titled(axis.title, wide), "title" if not last else "accent")
            for line in lines[1:]:
                if line[column] == BLANK:
                    line[column] = (bar, "grid")
            taken: set[int] = set()
            rows_of = [1 + ticks.row_of(1 - share, rows) for share, _ in axis.marks]
            for place in _places(axis, rows_of):
                row, label = rows_of[place], axis.marks[place][1]
                if row not in taken:
                    taken |= {row - 1, row, row + 1}
                    room = min(wide, max(LABEL, wide // 2)) - 2
                    put(lines[row], column + 1, f" {_cut(self.symbols.text(label), room)} ", "dim")
        return lines

    def _canvas(self, axes: Sequence[Scale], columns: Sequence[int], width: int, rows: int) -> Canvas:
        canvas, window = Canvas(width, rows), Window(0.0, width * 2 - 1.0, 0.0, 1.0)
        order = sorted(range(len(self.runs)), key=lambda place: self.runs[place].lit)
        for place in order:
            shares = [axis.shares[place] for axis in axes]
            xs = [column * 2.0 for column in columns]
            draw(canvas, xs, Levels(NAN if share is None else share for share in shares), window, place)
        for place in reversed(order):  # the letter of the lit run has the first choice
            known = [
                (x, share)
                for x, share in zip(columns, (a.shares[place] for a in axes), strict=True)
                if share is not None
            ]
            if known:
                canvas.letter(
                    known[-1][0] * 2, round((1 - known[-1][1]) * (rows * 4 - 1)), self.runs[place].sign, place
                )
        return canvas

    def _titled(self, title: str, room: int) -> str:
        """Return the title of an axis; where it does not fit, the last part of the setting's key says most."""
        shown = self.symbols.text(title)
        shown = shown if cell_len(shown) <= room else shown.rpartition(".")[2]
        return self.symbols.shortened(shown, room)

    def _style_of(self, owner: int, character: str) -> str:
        """Return the style of a cell of a run: its letter always has its colour, beside its line too."""
        run = self.runs[owner]
        return run.style if run.lit or character == run.sign else "grid"


def _places(axis: Scale, rows: Sequence[int]) -> range:
    """Return the places of the ticks that stay."""
    if axis.kind != "linear" or axis.is_exact or axis.bounds is None:
        return range(len(rows))
    low, high = axis.bounds
    return ticks.evenly(rows, [low + share * (high - low) for share, _ in axis.marks], apart=2)


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(0, room))
