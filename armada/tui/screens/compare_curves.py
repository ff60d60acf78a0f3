"""The curves of a comparison: of one metric, or of several in charts beside each other; and the keys that change how they are shown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.compare.metrics import TOKENS
from armada.foundation.sanitize import sanitize_line
from armada.tui.filtering import matching
from armada.tui.screens import compare_text as pages
from armada.tui.screens.compare_order import MOST, RunOrder
from armada.tui.screens.compare_text import Compared
from armada.tui.widgets.chart import NAMES
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.curve_marks import marks_of, resumes
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.curves import Curve
    from armada.tui.snapshot import RunRow
    from armada.tui.widgets.chart import Chart
    from armada.tui.widgets.chart_plane import Crossed
    from armada.tui.widgets.curve_wall import CurveWall
    from armada.tui.x_axis import XAxis

BEHIND = 3
"""Of more runs than these, only two have the curve before smoothing behind them: more of them would hide the others."""


class CurvesPage(RunOrder):
    """The charts of the page Curves, and the actions of their keys."""

    wall: CurveWall
    _curves: dict[tuple[str, str], Curve]
    _axis: XAxis

    def _draw_page(self) -> None:
        raise NotImplementedError

    def _draw_figures(self) -> None:
        raise NotImplementedError

    @property
    def metrics_shown(self) -> list[str]:
        """The metrics that have a chart: the chosen one, and those that the key m would choose after it."""
        lead = self.choices.metric
        if self.shown != "curves" or self.choices.panels == 1:
            return [lead]
        order = matching(self.known, self.choices.wanted)
        order = order if lead in order else [lead, *order]
        first = order.index(lead)
        return [*order[first:], *order[:first]][: self.wall.fitting(self.choices.panels)]

    @property
    def metric_words(self) -> str:
        more = len(self.marked) - MOST
        left_out = f" · {more} of the marked runs left out" if more > 0 else ""
        return f"{left_out}{self.filter_words}{self.reading}"

    def _compared(self, row: RunRow, metric: str = "") -> Compared:
        """Return a run with its curve of a metric; by default, of the chosen one."""
        metric = metric or self.choices.metric
        curve, placed = self._curves.get((row.id, metric)), None
        if curve is not None and len(curve):
            tokens = self._curves.get((row.id, TOKENS))
            placed = self._axis.place(row, metric, curve, self.choices.against, tokens, time.time())
        return Compared(row, self.places[row.id], curve, placed, row.id == self.figures.cursor, self.stated(row.id))

    @property
    def _currency(self) -> str | None:
        return pages.most_common(run.placed.unit for run in self.runs if run.placed is not None and not run.placed.why)

    def lines(self, metric: str = "") -> tuple[list[Line], str, str]:
        """Return the curves, their unit, and what is left out; the lit curve comes last, over the others.

        Args:
            metric: Whose curves; by default, those of the chosen one.
        """
        choices = self.choices
        runs = sorted((self._compared(row, metric) for row in self.rows), key=lambda run: run.lit)
        unit = (self._currency or "USD") if choices.against == "cost" else choices.against
        lines, others, reasons, without = [], 0, set(), 0
        unsmoothed = self._unsmoothed(runs)
        for run in runs:
            curve, placed = run.curve, run.placed
            if curve is None or placed is None:
                without += curve is not None
                continue
            if placed.why or (choices.against == "cost" and placed.unit != unit):
                others += not placed.why
                reasons |= {placed.why} - {""}
                continue
            levels = curve.shown(log=choices.logarithmic, smoothing=choices.smoothing)
            behind = curve.shown(log=choices.logarithmic, smoothing=0.0) if run.row.id in unsmoothed else None
            name, doubt = f"{run.row.name} {run.row.id[-6:]}", curve.doubt(log=choices.logarithmic)
            marks = marks_of(curve, placed, resumes(self.snapshot.details.get(run.row.id)))
            drawn = Line(name, placed.xs, levels, NAMES[run.place], doubt, behind, run.place, run.lit, marks)
            measured = curve.raw if choices.logarithmic else None
            lines.append(drawn._replace(measured=measured, newest=curve.last_place))
        notes = f" · {counted(without, 'run')} without it" if without and lines else ""
        notes += f" · {counted(others, 'run')} in another currency left out" if others else ""
        notes += "".join(f" · left out: {each}" for each in sorted(reasons)) if lines else ""
        return lines, unit, notes if lines else ", ".join(sorted(reasons))

    def _unsmoothed(self, runs: Sequence[Compared]) -> frozenset[str]:
        """Return the runs with the curve before smoothing behind them: of many the first one, which may be pinned, and the lit one."""
        first = self.run_ids[:1]
        shown = (run.row.id for run in runs if len(runs) <= BEHIND or run.lit or run.row.id in first)
        return frozenset(shown if self.choices.smoothing else ())

    def _draw_curves(self) -> None:
        metrics = self.metrics_shown
        charts = self.wall.lay_out(len(metrics))
        for chart, metric in zip(charts, metrics, strict=True):
            self._draw_chart(chart, metric, is_lead=chart is self.wall.lead)
        self.wall.share_axis(charts)

    def _draw_chart(self, chart: Chart, metric: str, *, is_lead: bool) -> None:
        """Draw the curves of a metric; the title of the first chart says what holds for all."""
        choices = self.choices
        chart.legend = len(self.run_ids) <= BEHIND
        if is_lead and (unmatched := self.unmatched):
            chart.show(unmatched, (), empty="/ changes the filter, esc clears it")
            return
        lines, unit, notes = self.lines(metric)
        smooth = f" · smoothed {choices.smoothing}" if choices.smoothing else ""
        words = f" against {choices.against}{smooth}{self.metric_words}" if is_lead else smooth
        title = f"{sanitize_line(metric, 60)}{words}{notes if lines else ''}"
        yet = "" if all(run.row.run.ended for run in self.runs) else " yet"
        empty = f"no points of this metric: {notes}" if notes else f"no points of this metric{yet}"
        is_read = not self.reading if is_lead else all((row.id, metric) in self._curves for row in self.rows)
        chart.show(title, lines, log=choices.logarithmic, unit=unit, empty=empty if is_read else "reading …")

    # Keys -----------------------------------------------------------------------------------------------------------

    def on_chart_crossed(self, event: Crossed) -> None:
        del event
        self._draw_figures()

    def on_curve_wall_fitted(self) -> None:
        """Ask for the curves of the charts that fit now."""
        if self.shown == "curves" and self.choices.panels != 1:
            self.take()

    def action_against(self) -> None:
        self.choices.next_axis()
        self.action_whole()
        self.take()

    def action_log_scale(self) -> None:
        self.choices.toggle_log()
        self._draw_page()

    def action_smooth(self) -> None:
        self.choices.next_smoothing()
        self._draw_page()

    def action_zoom(self, factor: float) -> None:
        self.wall.zoom(factor)

    def action_cross(self, by: int) -> None:
        self.wall.step_cross(by)
        self._draw_figures()

    def action_whole(self) -> None:
        self.wall.reset()
        self._draw_figures()

    def action_panels(self) -> None:
        """Show the curves of one metric, or of as many as are wanted and fit."""
        self.choices.next_panels()
        self.take()
