"""The charts of several runs beside each other, a metric in each: zoom, crosshair and x axis are common to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Grid
from textual.message import Message

from armada.tui.chart_choices import WALL
from armada.tui.wall_layout import arrange
from armada.tui.widgets import frame
from armada.tui.widgets.chart import Chart

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols
    from armada.tui.widgets.chart_plane import Crossed, Looked

SMALLEST = (50, 8)
"""The columns and lines of the smallest chart of several runs, with its frame: letters stand on their curves."""
MOST = 6
"""Charts at once: each has the curves of up to twenty runs, which are read, kept and drawn."""


class CurveWall(Grid):
    """A first chart, and as many others as are wanted and fit.

    Args:
        symbols: The symbols that the terminal can show.
    """

    DEFAULT_CSS = """
    CurveWall { grid-size: 1; }
    CurveWall Chart { display: none; height: 1fr; }
    CurveWall Chart.shown { display: block; }
    """

    class Fitted(Message):
        """Another number of charts fits now."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self.lead = Chart(symbols, classes=f"{frame.FRAME} shown")
        """The chart that is always there."""
        self._all = [self.lead]
        self._fitting = 1

    def compose(self) -> ComposeResult:
        yield self.lead

    def on_resize(self) -> None:
        before, self._fitting = self._fitting, self._room
        if self._fitting != before:
            self.post_message(self.Fitted())

    @property
    def _room(self) -> int:
        """How many charts there is room for."""
        wide, high = self.size
        return min(MOST, max(1, wide // SMALLEST[0]) * max(1, high // SMALLEST[1]))

    def fitting(self, wanted: int) -> int:
        """Return how many charts are shown if so many are wanted; `WALL` wants all that fit."""
        return min(wanted, self._fitting) if wanted != WALL else self._fitting

    def lay_out(self, count: int) -> list[Chart]:
        """Show so many charts, and return them, the first one first."""
        columns, rows = arrange(count, *self.size) if count > 1 else (1, 1)
        self.styles.grid_size_columns, self.styles.grid_size_rows = columns, rows
        missing = [Chart(self.symbols, classes=frame.FRAME) for _ in range(count - len(self._all))]
        for chart in missing:
            chart.look(self.lead.chosen)
            chart.put_cross(self.lead.cross)
        if missing:
            self._all += missing
            self.mount(*missing)
        for place, chart in enumerate(self._all):
            chart.set_class(place < count, "shown")
        return self._all[:count]

    def share_axis(self, charts: list[Chart]) -> None:
        """Let charts have one x axis, from the first point of all to the last one; one alone has its own."""
        found = [own for chart in charts if (own := chart.own) is not None] if len(charts) > 1 else []
        common = (min(low for low, _ in found), max(high for _, high in found)) if found else None
        for chart in charts:
            chart.share(common)

    # Zoom and crosshair of all charts, also of those that are hidden now ---------------------------------------------

    @property
    def _leading(self) -> Chart:
        """The first visible chart that has points."""
        return next((chart for chart in self._all if chart.has_class("shown") and chart.has_points), self.lead)

    def zoom(self, factor: float) -> None:
        self._leading.zoom(factor)
        self._look_as(self._leading)

    def pan(self, share: float) -> None:
        self._leading.pan(share)
        self._look_as(self._leading)

    def _look_as(self, lead: Chart) -> None:
        for chart in self._all:
            if chart is not lead and chart.chosen != lead.chosen:
                chart.look(lead.chosen)

    def step_cross(self, by: int) -> None:
        """Move the crosshair by so many columns of the first chart."""
        self.put_cross(self._leading.step_cross(by))

    def put_cross(self, place: float | None) -> None:
        """Put the crosshair at the same place in all charts, or take it away."""
        for chart in self._all:
            chart.put_cross(place)

    def reset(self) -> None:
        """Show everything, without a crosshair."""
        for chart in self._all:
            chart.reset()
        self.put_cross(None)

    def on_chart_looked(self, event: Looked) -> None:
        """Apply the range that the mouse selected in one chart to all of them."""
        for chart in self._all:
            if chart is event.chart:
                self._look_as(chart)

    def on_chart_crossed(self, event: Crossed) -> None:
        """Put the crosshair of one chart into all of them; who shows the values there is told, too."""
        self.put_cross(event.chart.cross)
