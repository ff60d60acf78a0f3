"""Show charts of one run: one, two, four or as many metrics as fit, and the figures of a single one beside it."""

from __future__ import annotations

import math
import time
from textwrap import wrap
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.containers import Grid, Horizontal
from textual.message import Message
from textual.widgets import Static

from armada.compare.metrics import TOKENS, goal_of, in_order
from armada.foundation.sanitize import sanitize_line
from armada.store.best_metric import stated_best
from armada.store.metrics import MOST_SERIES
from armada.tui import left_out, ticks
from armada.tui.chart_choices import WALL, ChartChoices
from armada.tui.curves import Curve, nearest
from armada.tui.filtering import matching
from armada.tui.wall_layout import Layout, arrange, fitting
from armada.tui.widgets import chart_axes, frame
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.curve_marks import marks_of, resumes
from armada.tui.widgets.panel import Panel
from armada.tui.x_axis import Placed, XAxis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from textual.app import ComposeResult

    from armada.compare.metrics import Goal
    from armada.foundation.metric_goals import BestBy
    from armada.tui.app import Dashboard
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunDetail, RunRow
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.chart_plane import Crossed, Looked
    from armada.tui.widgets.panel import Spans

BESIDE = 100
"""From so many columns on, the figures stand beside a single chart."""

LAYOUTS = {1: Layout(1, 1), 2: Layout(1, 2), 4: Layout(2, 2)}
SHORTEST, LONGEST = 16, 60
"""Characters of a name in a title: there is room for so many, and no more are shown."""
NOTED = 3
"""Lines under the charts, at most."""
FRAMED = 6
"""Columns of a title that its frame takes."""


class Widened(Message, namespace="chart_wall"):
    """Another number of charts fits now: their curves are needed."""


class ChartWall(Horizontal):
    """Panels show neighbouring metrics; horizontal axis, zoom, scale and smoothing are common to all.

    Args:
        symbols: The symbols that the terminal can show.
        choices: What was chosen before; changed by every action.
        id: As for every widget.
    """

    DEFAULT_CSS = """
    ChartWall Grid { grid-size: 1; width: 1fr; }
    ChartWall Chart { display: none; height: 1fr; }
    ChartWall Chart.shown { display: block; }
    ChartWall Panel { display: none; width: 40; }
    ChartWall.beside Panel { display: block; }
    ChartWall Static { display: none; dock: bottom; height: auto; padding: 0 1; color: $text-muted; }
    """

    def __init__(self, symbols: Symbols, choices: ChartChoices | None = None, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.symbols = symbols
        self._room = (0, 0)
        self._said = ""
        """What is under the charts."""
        self.choices = choices or ChartChoices()
        self.note = Static()
        self._begin()

    def _begin(self) -> None:
        self.metrics: list[str] = ["loss"]
        """The metrics that the filter shows."""
        self.curves: dict[str, Curve] = {}
        self._names: tuple[str, ...] = ()
        self._ordered: list[str] = ["loss"]
        self._first = 0
        self._row: RunRow | None = None
        self._resumed: tuple[float, ...] = ()
        self._detail: RunDetail | None = None
        self._stated: tuple[object, BestBy | None] = (None, None)
        self._axis = XAxis()
        self._is_drawn = False

    def compose(self) -> ComposeResult:
        with Grid() as self.grid:
            yield Chart(self.symbols, classes=frame.FRAME)
        self.figures = Panel(self.symbols, "Figures")
        yield self.figures
        yield self.note

    def on_resize(self) -> None:
        before = self.shown
        self._measure()
        self._draw()
        if self.display and self.shown != before:
            self.post_message(Widened())

    def forget(self) -> None:
        """Be as a new one: the next run that is taken is another one. What was chosen stays."""
        self._begin()
        self._say("")
        self.figures.show([])
        for chart in self.query(Chart):
            chart.forget()

    # Content --------------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> list[str]:
        """The names of the visible metrics."""
        count = min(self._most, len(self.metrics))
        return [self.metrics[(self._first + place) % len(self.metrics)] for place in range(count)]

    @property
    def _most(self) -> int:
        """The charts that there is room for."""
        return self.choices.panels or fitting(*self._room)

    @property
    def wanted(self) -> list[str]:
        """The names of the curves that are needed."""
        more = [TOKENS] if self.choices.against == "tokens" else []
        return list(dict.fromkeys([*self.shown, *more]))

    def take(self, row: RunRow, detail: RunDetail | None, updates: Sequence[CurveUpdate]) -> None:
        """Take a run, what is known of it, and the updates of its curves."""
        names = detail.metrics if detail is not None else ()
        resumed = resumes(detail)
        ended = self._row.run.ended if self._row is not None else None
        changed = names != self._names or resumed != self._resumed or row.run.ended != ended
        self._row, self._resumed, self._detail = row, resumed, detail
        self._say(left_out.words(detail.left_out, self._outputs(row)) if detail is not None else "")
        if names != self._names:
            self._names, self._ordered = names, in_order(names) or ["loss"]
            self._choose()
        for update in updates:
            if update.run_id != row.run.run_id:
                continue
            changed = True
            if update.fresh is not None:
                self.curves[update.name] = update.fresh
            elif update.name in self.curves:
                self.curves[update.name].extend(update.added)
        if changed or not self._is_drawn:
            self._draw()

    def _outputs(self, row: RunRow) -> Path:
        return cast("Dashboard", self.app).home.run(row.run.run_id) / "outputs"

    def _say(self, words: str) -> None:
        """Say under the charts what has no curve."""
        if words == self._said:
            return
        self._said = words
        self._measure()
        self._is_drawn = False

    def _measure(self) -> None:
        """Take the room for charts: what is under them has a few lines."""
        wide, high = self.size
        lines = wrap(self.symbols.text(self._said), max(1, wide - 2), break_on_hyphens=False)[:NOTED]
        self.note.display = bool(lines)
        self.note.update(Text("\n".join(lines), no_wrap=True))
        self._room = (wide, max(0, high - len(lines)))

    def _choose(self) -> None:
        """Apply the filter. The metric that was shown stays, if the filter shows it."""
        self.metrics = matching(self._ordered, self.choices.wanted)
        self._first = self.metrics.index(self.choices.metric) if self.choices.metric in self.metrics else 0

    # Drawing --------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        self._is_drawn = self.display
        if not self.display:
            return  # another page is visible
        choices, shown = self.choices, self.shown
        columns = self._lay_out(len(shown))
        self.set_class(len(shown) == 1 and self.size.width >= BESIDE, "beside")
        for place, chart in enumerate(self.query(Chart)):
            chart.set_class(place < max(1, len(shown)), "shown")
            chart.styles.column_span = columns if len(shown) == 1 else 1
            if place < len(shown):
                self._draw_chart(chart, shown[place])
            elif not shown and place == 0:
                others = self._detail.left_out if self._detail is not None else ()
                words = left_out.unmatched(sanitize_line(choices.wanted, 60), len(self._ordered), others)
                chart.show(words, (), empty="/ changes the filter, esc clears it")
        self._share_axis([*self.query(Chart)][: len(shown)])
        self._draw_figures()

    def _share_axis(self, charts: Sequence[Chart]) -> None:
        """Let charts have one x axis, from the first point of all to the last one: a column is the same place in each."""
        found = [own for chart in charts if (own := chart.own) is not None]
        common = (min(low for low, _ in found), max(high for _, high in found)) if found else None
        for chart in charts:
            chart.share(common)

    def _lay_out(self, count: int) -> int:
        """Have so many charts, in columns and rows; return how many columns."""
        columns, rows = LAYOUTS.get(self.choices.panels) or arrange(max(1, count), *self._room)
        self.grid.styles.grid_size_columns, self.grid.styles.grid_size_rows = columns, rows
        charts = self.query(Chart)
        if (missing := count - len(charts)) > 0:
            view, cross = charts.first().chosen, charts.first().cross
            made = [Chart(self.symbols, classes=frame.FRAME) for _ in range(missing)]
            for chart in made:
                chart.look(view)
                chart.put_cross(cross)
            self.grid.mount(*made)
        return columns

    def _draw_chart(self, chart: Chart, name: str) -> None:
        choices, curve = self.choices, self.curves.get(name)
        smooth = f" · smoothed {choices.smoothing}" if choices.smoothing else ""
        by = f" by {choices.against}" if choices.against != "step" else ""
        every = f" of {len(self._ordered):,}" if len(self.metrics) < len(self._ordered) else ""
        full = ", no more are kept" if len(self._ordered) >= MOST_SERIES else ""
        where = f" ({self.metrics.index(name) + 1} of {len(self.metrics):,}{every}{full}){by}{smooth}"
        width = self.size.width // self.grid.styles.grid_size_columns
        plain = sanitize_line(name, max(SHORTEST, min(LONGEST, width - FRAMED - len(where))) if width else LONGEST)
        title = plain + where
        ended = self._row is not None and self._row.run.ended
        none = "no points of this metric" + ("" if ended else " yet: the next check of the host brings them")
        if curve is None or not len(curve):
            chart.show(title, (), log=choices.logarithmic, empty=none if curve is not None else "reading …")
            return
        placed = self._place(name, curve)
        if placed.why:
            chart.show(title, (), log=choices.logarithmic, empty=placed.why)
            return
        levels = curve.shown(log=choices.logarithmic, smoothing=choices.smoothing)
        behind = curve.shown(log=choices.logarithmic, smoothing=0.0) if choices.smoothing else None
        doubt, marks = curve.doubt(log=choices.logarithmic), marks_of(curve, placed, self._resumed)
        measured = curve.raw if choices.logarithmic else None
        line = Line(plain, placed.xs, levels, doubt=doubt, behind=behind, marks=marks, measured=measured)
        line = line._replace(newest=curve.last_place)
        chart.show(title, [line], log=choices.logarithmic, unit=placed.unit)

    def _place(self, name: str, curve: Curve) -> Placed:
        """Return where the points are on the x axis, as it was chosen."""
        against, tokens = self.choices.against, self.curves.get(TOKENS)
        if against == "tokens" and tokens is None:
            return Placed((), "tokens", "reading …" if TOKENS in self._names else f"it needs the metric {TOKENS}")
        if self._row is None:
            return Placed((), against, "reading …")
        return self._axis.place(self._row, name, curve, against, tokens, time.time())

    def _draw_figures(self) -> None:
        """Fill the table beside a single chart."""
        shown = self.shown
        curve = self.curves.get(shown[0]) if shown else None
        if not self.has_class("beside") or curve is None or not len(curve):
            self.figures.show([[("reading …" if shown and curve is None else "no points", "dim")]])
            return
        chart = self.query(Chart).first()
        goal = self._goal(shown[0])
        lines: list[Spans] = []
        lowest, highest = curve.best("min"), curve.best("max")

        def add(name: str, value: float | None, where: str, style: str = "plain") -> None:
            said = "—" if value is None else ticks.figure(value)
            lines.append([(f"{name:<10}", "dim"), (f"{said:<11}", style), (where, "dim")])

        def at(found: tuple[float, float] | None) -> tuple[float | None, str]:
            return (None, "") if found is None else (found[1], f"step {found[0]:,.0f}")

        step = f"step {curve.steps[curve.newest_place]:,.0f}"
        if math.isfinite(curve.newest):
            add("last", curve.newest, step, "strong")
        else:
            word = "NaN" if math.isnan(curve.newest) else str(curve.newest)
            lines.append([(f"{'last':<10}", "dim"), (f"{word:<11}", "bad"), (step, "dim")])
            add("before", *at(curve.last_finite))
        add("lowest", *at(lowest), "accent" if goal == "min" else "plain")
        add("highest", *at(highest), "accent" if goal == "max" else "plain")
        if (cross := chart.cross) is not None and chart.lines:
            line = chart.lines[0]
            value = nearest(line.xs, line.measured or line.behind or line.levels, cross)
            add("at cursor", value, chart_axes.place_text(cross, chart.unit, chart.view), "strong")
        else:
            lines.append([("at cursor ", "dim"), (", or the mouse", "dim")])
        lines += self._notes(curve)
        self.figures.show(lines)

    def _goal(self, name: str) -> Goal | None:
        """Return whether low or high values of a metric are better: as the run says, or else the metric's name."""
        spec = self._detail.spec if self._detail is not None else None
        if spec is not None and spec is not self._stated[0]:
            self._stated = (spec, stated_best(spec))
        stated = self._stated[1]
        return stated.goal if stated is not None and stated.name == name else goal_of(name)

    def _notes(self, curve: Curve) -> list[Spans]:
        lines: list[Spans] = [[(f"{'points':<10}", "dim"), (f"{len(curve):,}", "plain")]]
        if curve.gaps:
            first = curve.steps[curve.gaps[0]]
            lines.append([(f"{'NaN':<10}", "dim"), (f"{curve.not_finite:,}×, first at step {first:,.0f}", "bad")])
        if self.choices.logarithmic and curve.not_positive:
            said = f"{curve.not_positive:,}×, on no log scale"
            lines.append([(f"{'not > 0':<10}", "dim"), (said, "bad")])
        if self._resumed:
            lines.append([(f"{'resumed':<10}", "dim"), (f"{len(self._resumed)}×", "plain")])
        return lines

    # Actions --------------------------------------------------------------------------------------------------------

    def step_metric(self, by: int) -> None:
        """Show the next metric first, or one further away; a wall turns to the next that it has no room for."""
        if self.metrics:
            shown = len(self.shown)
            step = shown if self.choices.panels == WALL and shown < len(self.metrics) else 1
            self._first = (self._first + by * step) % len(self.metrics)
            self.choices.metric = self.metrics[self._first]
        self._draw()

    def filter(self, words: str) -> None:
        """Show only metrics that have these words, letters or regular expressions."""
        self.choices.wanted = words
        self._choose()
        self._draw()

    def next_axis(self) -> None:
        """Take the next horizontal axis: step, time, tokens or cost."""
        self.choices.next_axis()
        self.reset()
        self._draw()

    def next_panels(self) -> None:
        self.choices.next_panels()
        self._draw()

    def toggle_log(self) -> None:
        self.choices.toggle_log()
        self._draw()

    def next_smoothing(self) -> None:
        self.choices.next_smoothing()
        self._draw()

    def zoom(self, factor: float) -> None:
        self._look(lambda chart: chart.zoom(factor))

    def pan(self, share: float) -> None:
        self._look(lambda chart: chart.pan(share))

    def _look(self, change: Callable[[Chart], None]) -> None:
        """Change the visible part of one chart that has points; the others, also hidden ones, follow."""
        if (lead := self._lead) is not None:
            change(lead)
            for chart in self.query(Chart):
                chart.look(lead.chosen)

    @property
    def _lead(self) -> Chart | None:
        """The first visible chart that has points."""
        return next((chart for chart in self.query(Chart) if chart.has_class("shown") and chart.has_points), None)

    def reset(self) -> None:
        for chart in self.query(Chart):
            chart.reset()
        self._put_cross(None)

    def on_chart_looked(self, event: Looked) -> None:
        """Apply the range that the mouse selected in one chart to all of them."""
        for chart in self.query(Chart):
            if chart is not event.chart:
                chart.look(event.chart.chosen)

    def on_chart_crossed(self, event: Crossed) -> None:
        """Put the crosshair at the same place in all charts."""
        self._put_cross(event.chart.cross)

    def step_cross(self, by: int) -> None:
        """Move the crosshair by so many columns of the first chart."""
        self._put_cross(self._lead.step_cross(by) if self._lead is not None else None)

    def _put_cross(self, place: float | None) -> None:
        for chart in self.query(Chart):
            chart.put_cross(place)
        self._draw_figures()
