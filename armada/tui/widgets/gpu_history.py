"""Chart the last minutes, hours or days of a host's GPUs: utilisation, memory, power, temperature."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from textual.containers import Grid

from armada.foundation.sanitize import sanitize_line
from armada.tui.curves import NAN, Levels
from armada.tui.widgets import frame
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.units import exact_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult

    from armada.store.telemetry import Point
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.chart_plane import Crossed

SPANS_S = (900.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)
SIGNS = "0123456789abcdefghijklmnopqrstuvwxyz"
TALL = 32
"""Lines from which four charts are two above two, however wide the screen is."""
GAP_S = 120.0
"""The daemon reads GPUs every ten seconds, and keeps one point a minute after an hour: a longer silence, in proportion, is a gap."""

MEASURES: tuple[tuple[str, Callable[[Point], float | None]], ...] = (
    ("utilisation %", lambda point: point.utilization),
    ("memory GiB", lambda point: None if point.memory_used_bytes is None else point.memory_used_bytes / 2**30),
    ("power W", lambda point: point.power_w),
    ("temperature °C", lambda point: point.temperature_c),
)


class GpuHistory(Grid):
    """A chart per measure, a curve per GPU."""

    DEFAULT_CSS = """
    GpuHistory { grid-size: 2 2; }
    GpuHistory.wide { grid-size: 4 1; }
    GpuHistory Chart { height: 1fr; }
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        for _ in MEASURES:
            yield Chart(self.symbols, classes=frame.FRAME)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= 200 and self.size.height < TALL, "wide")

    def on_chart_crossed(self, event: Crossed) -> None:
        """Put the crosshair at the same moment in all charts."""
        for chart in self.query(Chart):
            chart.put_cross(event.chart.cross)

    def show(self, host: str, span_s: float, points: Mapping[int, tuple[Point, ...]]) -> None:
        """Draw the history, unless it is already drawn."""
        stamp = (host, span_s, {gpu: (len(of_gpu), of_gpu[-1]) for gpu, of_gpu in points.items()})
        if stamp == self._drawn:
            return
        self._drawn = stamp
        for chart, (name, value) in zip(self.query(Chart), MEASURES, strict=True):
            lines = [_line(gpu, of_gpu, value, span_s) for gpu, of_gpu in sorted(points.items())[: len(SIGNS)]]
            title = f"{sanitize_line(host, 30)} · {name}, {exact_span(span_s)}"
            chart.digits = 0  # of eight GPUs, each with its value
            chart.show(title, lines, unit="clock", empty="the daemon records this while it watches the host")


def _line(gpu: int, points: tuple[Point, ...], value: Callable[[Point], float | None], span_s: float) -> Line:
    times, values = array("d"), array("d")
    gap_s = max(GAP_S, span_s / 100)
    for point in points:
        if times and point.time - times[-1] > gap_s:
            times.append(times[-1])
            values.append(NAN)  # no measurement: a line across the gap would be invented
        found = value(point)
        times.append(point.time)
        values.append(NAN if found is None else found)
    return Line("", times, Levels(values), SIGNS[gpu % len(SIGNS)])
