"""Show charts of one run: one, two or four metrics at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Grid

from armada.compare.metrics import in_order
from armada.foundation.sanitize import sanitize_line
from armada.tui.curves import Curve
from armada.tui.widgets import frame
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from armada.tui.curves import CurveUpdate
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.chart_plane import Crossed, Looked

SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
PANELS = (1, 2, 4)


class ChartWall(Grid):
    """Panels show neighbouring metrics; zoom, scale and smoothing are common to all."""

    DEFAULT_CSS = """
    ChartWall { grid-size: 1; }
    ChartWall.panels2 { grid-size: 1 2; }
    ChartWall.panels4 { grid-size: 2 2; }
    ChartWall Chart { display: none; height: 1fr; }
    ChartWall Chart.shown { display: block; }
    """

    def __init__(self, symbols: Symbols, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.symbols = symbols
        self.metrics: list[str] = ["loss"]
        self.panels = 1
        self.logarithmic = False
        self.smoothing = 0.0
        self._first = 0
        self._run_ended = False
        self.curves: dict[str, Curve] = {}

    def compose(self) -> ComposeResult:
        for _ in range(max(PANELS)):
            chart = Chart(self.symbols)
            chart.add_class(frame.FRAME)
            yield chart

    def on_mount(self) -> None:
        self._draw()

    @property
    def wanted(self) -> list[str]:
        """Return the names of the visible metrics."""
        count = min(self.panels, len(self.metrics))
        return [self.metrics[(self._first + place) % len(self.metrics)] for place in range(count)]

    def take(self, run_id: str, names: Sequence[str], updates: Sequence[CurveUpdate], *, ended: bool) -> None:
        """Take the names of the metrics, the updates of their curves, and whether the run has ended."""
        ordered = in_order(names) or ["loss"]
        changed = ordered != self.metrics or ended != self._run_ended
        self._run_ended = ended
        if ordered != self.metrics:
            current = self.metrics[self._first]
            self.metrics = ordered
            self._first = ordered.index(current) if current in ordered else 0
        for update in updates:
            if update.run_id != run_id:
                continue
            changed = True
            if update.fresh is not None:
                self.curves[update.name] = update.fresh
            elif update.name in self.curves:
                self.curves[update.name].extend(update.added)
        if changed:
            self._draw()

    def _draw(self) -> None:
        for count in PANELS:
            self.set_class(self.panels == count, f"panels{count}")
        wanted = self.wanted
        for place, chart in enumerate(self.query(Chart)):
            chart.set_class(place < len(wanted), "shown")
            if place >= len(wanted):
                continue
            name = wanted[place]
            curve = self.curves.get(name)
            smooth = f" · smoothed {self.smoothing}" if self.smoothing else ""
            at = f"{self.metrics.index(name) + 1} of {len(self.metrics)}"
            lines = []
            if curve is not None and len(curve):
                levels = curve.shown(log=self.logarithmic, smoothing=self.smoothing)
                lines = [Line(sanitize_line(name, 60), curve.steps, levels, doubt=curve.doubt(log=self.logarithmic))]
            title = f"{sanitize_line(name, 60)} ({at}){smooth}"
            none = "no points of this metric" + (
                "" if self._run_ended else " yet: the next check of the host brings them"
            )
            chart.show(title, lines, log=self.logarithmic, empty=none if curve is not None else "reading …")

    # Actions --------------------------------------------------------------------------------------------------------

    def step_metric(self, by: int) -> None:
        self._first = (self._first + by) % len(self.metrics)
        self._draw()

    def next_panels(self) -> None:
        self.panels = PANELS[(PANELS.index(self.panels) + 1) % len(PANELS)]
        self._draw()

    def toggle_log(self) -> None:
        self.logarithmic = not self.logarithmic
        self._draw()

    def next_smoothing(self) -> None:
        self.smoothing = SMOOTHINGS[(SMOOTHINGS.index(self.smoothing) + 1) % len(SMOOTHINGS)]
        self._draw()

    def zoom(self, factor: float) -> None:
        for chart in self.query(Chart):
            chart.zoom(factor)

    def pan(self, share: float) -> None:
        for chart in self.query(Chart):
            chart.pan(share)

    def reset(self) -> None:
        for chart in self.query(Chart):
            chart.reset()
            chart.put_cross(None)

    def on_chart_looked(self, event: Looked) -> None:
        """Apply the range that the mouse selected in one chart to all of them."""
        for chart in self.query(Chart):
            if chart is not event.chart:
                chart.look(event.chart.chosen)

    def on_chart_crossed(self, event: Crossed) -> None:
        """Put the crosshair at the same place in all charts."""
        for chart in self.query(Chart):
            chart.put_cross(event.chart.cross)

    def step_cross(self, by: int) -> None:
        """Move the crosshair by so many columns of the first chart."""
        charts = list(self.query(Chart))
        place = charts[0].step_cross(by)
        for chart in charts:
            chart.put_cross(place)
