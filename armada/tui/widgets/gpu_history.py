"""Chart the last minutes, hours or days of a host's GPUs: utilisation, memory, power, temperature."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from textual.containers import Grid
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.curves import NAN, Levels
from armada.tui.gpu_strips import HOT_C
from armada.tui.widgets import frame
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.gpu_chart import EDGES, FEW, GpuChart
from armada.units import exact_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult

    from armada.store.telemetry import Point
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.chart_plane import Crossed

SPANS_S = (900.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)
SIGNS = "0123456789abcdefghijklmnopqrstuvwxyz"
WIDE, TALL = 200, 32
"""From so many columns on, and with fewer lines, four charts of curves are side by side."""
NARROWEST = 76
"""In fewer columns, four charts side by side have no room."""
FRAME_LINES, TITLE_EDGES = 2, 6
"""The lines of a chart's frame, and the columns of its title that are the frame's."""
GAP_S = 120.0
"""The daemon reads GPUs every ten seconds, and keeps one point a minute after an hour: a longer silence, in proportion, is a gap."""


POWER_W = 300.0
"""A full strip of power is no less than these watts: hosts do not tell their limits, and an idle GPU must not look busy."""


class Measure(NamedTuple):
    """What is charted of GPUs, and the values of an empty strip and of a full one.

    Without `high`, the highest value that was seen is a full strip, and at least `least`.
    """

    name: str
    read: Callable[[Point], float | None]
    low: float = 0.0
    high: float | None = None
    least: float = 1.0


MEASURES = (
    Measure("utilisation %", lambda point: point.utilization, high=100.0),
    Measure("memory GiB", lambda point: None if point.memory_used_bytes is None else point.memory_used_bytes / 2**30),
    Measure("power W", lambda point: point.power_w, least=POWER_W),
    Measure("temperature °C", lambda point: point.temperature_c, low=20.0, high=HOT_C),
)
MEMORY = 1
"""The place of the measure whose highest value is known."""


class Shown(NamedTuple):
    """What is drawn."""

    host: str
    span_s: float
    points: Mapping[int, tuple[Point, ...]]
    memory_gib: float
    gpus: int | None
    """How many the host has; None if that is not known."""

    @property
    def has_none(self) -> bool:
        """Whether the host has no GPU, and had none."""
        return self.gpus == 0 and not self.points


class GpuHistory(Grid):
    """A chart per measure; a curve or a strip per GPU. Of a host without GPUs only that it has none."""

    DEFAULT_CSS = """
    GpuHistory { grid-size: 2 2; }
    GpuHistory.wide { grid-size: 4 1; }
    GpuHistory GpuChart { height: 1fr; }
    GpuHistory Static { display: none; color: $text-muted; padding: 0 2; }
    GpuHistory.none { grid-size: 1 1; }
    GpuHistory.none GpuChart { display: none; }
    GpuHistory.none Static { display: block; }
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self._none = Static(markup=False)
        self._shown: Shown | None = None
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        for _ in MEASURES:
            yield GpuChart(self.symbols, classes=frame.FRAME)
        yield self._none

    def on_resize(self) -> None:
        if self._shown is not None:
            self._draw(self._shown)

    def on_chart_crossed(self, event: Crossed) -> None:
        """Put the crosshair at the same moment in all charts."""
        for chart in self.query(GpuChart):
            chart.put_cross(event.chart.cross)

    def show(
        self,
        host: str,
        span_s: float,
        points: Mapping[int, tuple[Point, ...]] | None,
        memory_bytes: float | None = None,
        gpus: int | None = None,
    ) -> None:
        """Draw the history, unless it is already drawn.

        Args:
            host: The host.
            span_s: How many seconds are shown.
            points: The measurements of each GPU; None if they were not read yet: what is drawn of the same host stays.
            memory_bytes: The memory of a GPU, if it is known.
            gpus: How many the host has, if that is known: their charts are laid out before they are read.
        """
        before = self._shown
        if points is None and before is not None and (host, span_s) == (before.host, before.span_s):
            return
        self._shown = Shown(host, span_s, points or {}, (memory_bytes or 0.0) / 2**30, gpus)
        self._draw(self._shown)

    def _draw(self, shown: Shown) -> None:
        newest = {gpu: (len(of_gpu), of_gpu[-1]) for gpu, of_gpu in shown.points.items()}
        stamp = (shown.host, shown.span_s, shown.memory_gib, newest, shown.has_none, self.size)
        if stamp == self._drawn:
            return
        self._drawn = stamp
        self.set_class(self._is_wide(len(newest) or shown.gpus or 0), "wide")
        self.set_class(shown.has_none, "none")
        if shown.has_none:
            self._none.update(self.symbols.text(f"{sanitize_line(shown.host, 60)} has no GPU"))
            return
        gpus = sorted(shown.points.items())[: len(SIGNS)]
        names, titles = tuple(str(gpu) for gpu, _ in gpus), self._titles(shown)
        for place, (chart, measure) in enumerate(zip(self.query(GpuChart), MEASURES, strict=True)):
            lines = [_line(gpu, of_gpu, measure.read, shown.span_s) for gpu, of_gpu in gpus]
            seen = (extremes[1] for line in lines if (extremes := line.levels.extremes(0, len(line.levels))))
            high = measure.high or max(*seen, shown.memory_gib if place == MEMORY else 0.0, measure.least)
            chart.digits = 0  # of eight GPUs, each with its value
            frame.facts(chart, exact_span(shown.span_s) if titles[place] == measure.name else "")
            none = "the daemon records this while it watches the host"
            chart.show_gpus(titles[place], lines, names, (measure.low, high), none)

    def _is_wide(self, gpus: int) -> bool:
        """Whether four charts are side by side: on a wide screen, and where each GPU has a strip."""
        wide, high = self.size
        if not high:  # before the first layout
            return gpus > FEW
        if FEW < gpus <= high - FRAME_LINES - EDGES and wide >= NARROWEST:
            return True
        return wide >= WIDE and high < TALL

    def _titles(self, shown: Shown) -> list[str]:
        """Return the longest titles that all charts have room for."""
        room = self.size.width // (4 if self.has_class("wide") else 2) - TITLE_EDGES
        measures = [measure.name for measure in MEASURES]
        spanned = [f"{name}, {exact_span(shown.span_s)}" for name in measures]
        forms = ([f"{sanitize_line(shown.host, 30)} · {each}" for each in spanned], spanned)
        fits = (form for form in forms if not self.size.width or all(cell_len(each) <= room for each in form))
        return next(fits, measures)


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
