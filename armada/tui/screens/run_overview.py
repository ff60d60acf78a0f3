"""The overview of a run: facts, times of a step, GPUs, checkpoints, curve and log, on one screen of any size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget

from armada.foundation.sanitize import sanitize_line
from armada.tui.curves import Curve, no_values
from armada.tui.gpu_strips import gpus_of
from armada.tui.overview_places import OWN, Needs, place
from armada.tui.screens import overview_text, run_text
from armada.tui.widgets import frame
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.curve_marks import marks_of, resumes
from armada.tui.widgets.fact_lines import Fact, FactLines
from armada.tui.widgets.gpu_panel import GpuPanel, host_of
from armada.tui.widgets.log_tail import LogTail
from armada.tui.widgets.panel import Panel
from armada.tui.widgets.text_scroll import TextScroll
from armada.tui.x_axis import Placed

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.geometry import Size
    from textual.layout import ArrangeResult

    from armada.store.queries.step_times import StepTimes
    from armada.tui.app import Dashboard
    from armada.tui.overview_places import Places
    from armada.tui.snapshot import RunDetail, RunRow
    from armada.tui.symbols import Symbols


class _Placing(Layout):
    """Puts each part where `overview_places` says; one without a place is not shown."""

    name = "overview"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        del greedy
        parent.pre_layout(self)
        places = cast("Overview", parent).arranged(size)
        found = [(child, places[child.id]) for child in children if child.id in places]
        return [WidgetPlacement(region, region.offset * 0, child.styles.margin, child) for child, region in found]


class _Times(Panel):
    """The parts of a step."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(symbols, "A step", id="times")
        self._times: StepTimes | None = None

    def show_times(self, times: StepTimes | None) -> None:
        """Show the parts, each with a bar."""
        found = self._times = times if times is not None and times.total_s > 0 else None
        self.show(overview_text.times_lines(found, self.symbols, self.size.width))
        frame.title(self, "A step" if found is None else f"A step takes {found.total_s / found.steps:.3g} s")

    def on_resize(self) -> None:
        """Fill the new size at once."""
        self.show_times(self._times)


class Overview(Widget):
    """Its parts say the same as facts where they have no place of their own.

    Args:
        symbols: What the terminal can show.
    """

    DEFAULT_CSS = """
    Overview { height: 1fr; width: 1fr; }
    Overview > * { width: 1fr; height: 1fr; min-height: 1; }
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(id="overview")
        self._default_layout = _Placing()  # type: ignore[assignment]  # Textual says which layout, not that it is one
        self.symbols = symbols
        self.lines = FactLines(symbols)
        self.facts = TextScroll(self.lines, id="facts", classes=frame.FRAME)
        self.times = _Times(symbols)
        self.settings = Panel(symbols, "Settings", id="settings")
        self.plan = Panel(symbols, "Plan", id="plan")
        self.kept = Panel(symbols, "Checkpoints", id="kept")
        self.events = Panel(symbols, "Events", id="happened")
        self.chart = Chart(symbols, id="chart", classes=frame.FRAME)
        self.gpus = GpuPanel(symbols)
        self.tail = LogTail(symbols)
        frame.title(self.facts, "Run")
        self._row: RunRow | None = None
        self._detail: RunDetail | None = None
        self._curve: Curve | None = None
        self._placed: tuple[object, Places] | None = None
        self._arranged: Places | None = None
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        yield from (self.facts, self.times, self.kept, self.events, self.settings, self.plan)
        yield from (self.chart, self.gpus, self.tail)

    # What it shows --------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Be as a new one: no run is shown."""
        self._row = self._detail = self._curve = self._placed = self._drawn = None
        self.lines.show(())
        self.chart.forget()
        for each in (self.facts, self.gpus, self.tail):
            each.forget()
        for panel in (self.kept, self.events, self.settings, self.plan):
            panel.show([])
        frame.facts(self.kept, "")
        self.times.show_times(None)

    def say(self, words: str) -> None:
        """Say why no run is shown."""
        self._row = self._detail = self._curve = None
        frame.title(self.facts, "Run")
        self.lines.show((Fact("", ((words, "plain"),), is_key=True),))
        self._renew()

    @property
    def metric(self) -> str:
        """The name of the metric whose curve is shown: of a run without a loss, its first."""
        return sanitize_line(metric_of(self._detail), 60)

    @property
    def host(self) -> str | None:
        """The host whose GPUs are shown."""
        return self._row.run.host if self._row is not None else None

    def show_run(self, row: RunRow, detail: RunDetail | None, curve: Curve | None) -> None:
        """Show a run; its details and its curve are None while they are not read."""
        board = cast("Dashboard", self.app)
        self._row, self._detail, self._curve = row, detail, curve
        snapshot, symbols = board.snapshot, self.symbols
        none = "" if self.has_curve else self._none
        facts: list[Fact] = overview_text.overview(
            row,
            detail,
            symbols,
            snapshot.syncs.get(row.id),
            host_of(row, snapshot),
            none,
            is_watched=snapshot.has_daemon,
        )
        self.lines.show(facts)
        frame.title(self.facts, symbols.text(f"{row.name} on {row.host}"))
        self.kept.show(run_text.kept_lines(detail, snapshot, symbols))
        frame.facts(self.kept, symbols.text(overview_text.kept_words(row)))
        self.settings.show(run_text.setting_lines(detail))
        self.plan.show([] if self.has_curve else run_text.plan_lines(detail))
        self.events.show(run_text.event_lines(detail, time.time()))
        self._draw_curve(row)
        self.gpus.show_run(row, snapshot)
        self.tail.show_run(row)
        self.times.show_times(detail.times if detail is not None else None)
        self._renew()

    @property
    def has_curve(self) -> bool:
        """Whether there is a curve; one that is not read yet is there if the run has made a step."""
        if self._curve is not None:
            return len(self._curve) > 0
        return self._row is not None and self._row.run.step is not None

    @property
    def _none(self) -> str:
        """Why there is no curve."""
        if self._curve is None:
            return "reading …"
        run = self._row.run if self._row is not None else None
        task, is_any = run.task if run is not None else "", self._detail is not None and bool(self._detail.metrics)
        metric = "metrics" if task == "command" and not is_any else self.metric
        return no_values(metric, ended=run is not None and run.ended, task=task)

    def _draw_curve(self, row: RunRow) -> None:
        curve, name, resumed = self._curve, self.metric, resumes(self._detail)
        made_from = (row.name, name, curve, len(curve) if curve is not None else 0, resumed, row.run.ended)
        if made_from == self._drawn:
            return  # nothing of it is drawn anew each second
        self._drawn = made_from
        lines: tuple[Line, ...] = ()
        if curve is not None and len(curve):
            marks = marks_of(curve, Placed(curve.steps, "step"), resumed)
            lines = (Line(name, curve.steps, curve.raw, doubt=curve.doubt(), marks=marks, newest=curve.last_place),)
        self.chart.show(f"{row.name} · {name}", lines, empty=self._none)

    # Where it shows it ----------------------------------------------------------------------------------------------

    def needs(self) -> Needs:
        """Return how much there is to show."""
        row, detail, snapshot = self._row, self._detail, cast("Dashboard", self.app).snapshot
        lines = self.lines
        if row is None:
            return Needs(lines.lines_at, lines.keys_at, curve=False)
        host = host_of(row, snapshot)
        gpus = gpus_of(host, row.run.gpus or ()) if host is not None and host.record is not None else []
        times = detail.times if detail is not None and detail.times is not None else None
        return Needs(
            lines.lines_at,
            lines.keys_at,
            times=len(overview_text.shares_of(times)) if times is not None and times.total_s > 0 else 0,
            gpus=len(gpus),
            kept=len(detail.checkpoints[-run_text.LISTED :]) if detail is not None else 0,
            log=self.tail.available,
            settings=len(self.settings.lines),
            events=len(self.events.lines),
            plan=len(self.plan.lines),
            curve=self.has_curve,
        )

    def places_at(self, size: Size) -> Places:
        """Return where the parts are."""
        needs, edge = self.needs(), self.facts.gutter.height
        made_from = (size, edge, tuple(self.lines.facts), needs[2:])
        if self._placed is None or self._placed[0] != made_from:
            self._placed = (made_from, place(size.width, size.height, needs, edge))
        return self._placed[1]

    def arranged(self, size: Size) -> Places:
        """Return where the parts are, and remember that they are there."""
        self._arranged = self.places_at(size)
        return self._arranged

    def _renew(self) -> None:
        """Lay the parts out anew if another place suits them better."""
        before, places = self._arranged, self.places_at(self.size)
        self.lines.leave_out({name for name in OWN if name in places})
        if before != places:
            self.facts.refresh(layout=True)  # Textual arranges what is above it anew, not itself

    def on_resize(self) -> None:
        """Fill the new size at once."""
        self.tick()

    def tick(self) -> None:
        """Show what the parts can show in the room that they have now."""
        if self._row is not None:
            self.show_run(self._row, self._detail, self._curve)


def metric_of(detail: RunDetail | None) -> str:
    """Return the metric whose curve says most about a run; see `main_metric`."""
    from armada.compare.metrics import main_metric

    return main_metric(detail.metrics if detail is not None else ())
