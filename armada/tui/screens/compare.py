"""Compare runs: their curves in one chart, and the differences between their settings."""

from __future__ import annotations

import dataclasses
import time
from array import array
from typing import TYPE_CHECKING

from textual.widgets import Static

from armada.compare.metrics import in_order
from armada.compare.settings import differing
from armada.costs.price import DOLLARS
from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import bindings
from armada.tui.chart_choices import SMOOTHINGS
from armada.tui.curves import NAN, Curve
from armada.tui.screens.view import View
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.chart import NAMES, Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import Column
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunRow

AGAINST = ("step", "time", "tokens", "cost")
MOST = len(NAMES)
TOKENS = "num_tokens"


class CompareScreen(View):
    """Compares the runs that were marked when it was opened."""

    PLACE = "compare"
    BINDINGS = bindings("compare")
    DEFAULT_CSS = """
    CompareScreen Chart { height: 2fr; }
    CompareScreen ListTable { height: 1fr; min-height: 4; }
    CompareScreen #none { height: 1fr; padding: 1 2; display: none; }
    CompareScreen.empty #none { display: block; }
    CompareScreen.empty Chart, CompareScreen.empty ListTable { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.run_ids: list[str] = []
        self.metric = "loss"
        self.against = "step"
        self.logarithmic = False
        self.smoothing = 0.0
        self._left_out = 0
        self._curves: dict[tuple[str, str], Curve] = {}

    def body(self) -> Iterable[Widget]:
        marked = self.board.marked
        self.run_ids = [row.run.run_id for row in marked[:MOST]]
        self._left_out = len(marked) - len(self.run_ids)
        yield Static("No runs are marked. Press 1, mark some with space, then c.", id="none", markup=False)
        self.chart = Chart(self.board.symbols)
        self.chart.add_class(frame.FRAME)
        yield self.chart
        room = tuple(Column(NAMES[place], 8, grow=1) for place in range(len(self.run_ids)))
        self.table = ListTable((Column("DIFFERS IN", 22, grow=1, most=50), *room), self.board.symbols)
        self.table.add_class(frame.FRAME)
        frame.title(self.table, "Settings that differ")
        yield self.table

    def on_mount(self) -> None:
        self.set_class(not self.run_ids, "empty")
        super().on_mount()
        self.table.focus()

    def wants(self) -> Subscription:
        ids = frozenset(self.run_ids)
        names = {self.metric} | ({TOKENS} if self.against == "tokens" else set())
        return Subscription(ids, ids, frozenset((run_id, name) for run_id in ids for name in names))

    @property
    def rows(self) -> list[RunRow]:
        by_id = {row.run.run_id: row for row in self.snapshot.runs}
        return [by_id[run_id] for run_id in self.run_ids if run_id in by_id]

    def concerned(self) -> list[RunRow]:
        return self.rows

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        for update in updates:
            key = (update.run_id, update.name)
            if update.fresh is not None:
                self._curves[key] = update.fresh
            elif key in self._curves:
                self._curves[key].extend(update.added)
        lines = [line for row in self.rows if (line := self._line(row)) is not None]
        smooth = f" · smoothed {self.smoothing}" if self.smoothing else ""
        left_out = f" · {self._left_out} of the marked runs left out" if self._left_out else ""
        title = f"{sanitize_line(self.metric, 60)} against {self.against}{smooth}{left_out}"
        unread = [key for key in self.wants().curves if key not in self._curves]
        title += f" · reading {counted(len(unread), 'curve')} …" if unread else ""
        empty = "no points of this metric" + (": it needs the host's price" if self.against == "cost" else " yet")
        empty = "reading …" if unread else empty
        unit = (self._currency or DOLLARS) if self.against == "cost" else self.against
        others = sum(rate is not None and rate[1] != unit for rate in self._rates()) if self.against == "cost" else 0
        title += f" · {counted(others, 'run')} in another currency left out" if others else ""
        self.chart.show(title, lines, log=self.logarithmic, unit=unit, empty=empty)
        self._draw_settings()

    def _rates(self) -> list[tuple[float, str] | None]:
        return [row.rate(time.time()) for row in self.rows]

    @property
    def _currency(self) -> str | None:
        """That of the first run with a price: two currencies share no axis."""
        return next((rate[1] for rate in self._rates() if rate is not None), None)

    def _line(self, row: RunRow) -> Line | None:
        curve = self._curves.get((row.run.run_id, self.metric))
        if curve is None or not len(curve):
            return None
        levels = curve.shown(log=self.logarithmic, smoothing=self.smoothing)
        name = f"{row.name} {row.run.run_id[-6:]}"
        doubt = curve.doubt(log=self.logarithmic)
        if self.against == "step":
            return Line(name, curve.steps, levels, doubt=doubt)
        start = row.run.started_at or curve.times[0]
        if self.against == "tokens":
            return self._by_tokens(row, curve, Line(name, (), levels, doubt=doubt))
        rate = row.rate(time.time())
        if self.against == "cost" and (rate is None or rate[1] != self._currency):
            return None
        factor = 1.0 if self.against == "time" or rate is None else rate[0] / 3600
        return Line(name, _rising((moment - start) * factor for moment in curve.times), levels, doubt=doubt)

    def _by_tokens(self, row: RunRow, curve: Curve, line: Line) -> Line | None:
        tokens = self._curves.get((row.run.run_id, TOKENS))
        if tokens is None or not len(tokens):
            return None
        at = dict(zip(tokens.steps, tokens.raw.values, strict=True))
        return dataclasses.replace(line, xs=_rising(at.get(step, NAN) for step in curve.steps))

    def _draw_settings(self) -> None:
        details = [self.snapshot.details.get(run_id) for run_id in self.run_ids]
        known = [detail for detail in details if detail is not None]
        if len(known) != len(self.run_ids):
            self.table.show_items([Item("none", ((("reading …", "dim"),), *(((("", "plain"),),) * len(self.run_ids))))])
            return
        names = tuple(((sanitize_line(row.name, 60), "strong"),) for row in self.rows)
        items = []
        if len(names) == len(self.run_ids):  # names often begin alike, ids differ at their ends
            ids = tuple(((row.run.run_id[-6:], "dim"),) for row in self.rows)
            items = [Item("name", ((("run", "dim"),), *names)), Item("id", ((("id", "dim"),), *ids))]
        for setting, values in differing([detail.spec for detail in known]):
            cells = (((setting, "plain"),), *(((value, "plain"),) for value in values))
            items.append(Item(f"set {setting}", cells))
        self.table.show_items(items)

    # Keys -----------------------------------------------------------------------------------------------------------

    def _step_metric(self, by: int) -> None:
        names = {name for detail in self.snapshot.details.values() for name in detail.metrics}
        order = in_order(sorted(names)) or [self.metric]
        place = order.index(self.metric) if self.metric in order else 0
        self.metric = order[(place + by) % len(order)]
        self.take()

    def action_metric(self) -> None:
        self._step_metric(1)

    def action_metric_before(self) -> None:
        self._step_metric(-1)

    def action_against(self) -> None:
        self.against = AGAINST[(AGAINST.index(self.against) + 1) % len(AGAINST)]
        self.chart.reset()
        self.take()

    def action_log_scale(self) -> None:
        self.logarithmic = not self.logarithmic
        self.draw()

    def action_smooth(self) -> None:
        self.smoothing = SMOOTHINGS[(SMOOTHINGS.index(self.smoothing) + 1) % len(SMOOTHINGS)]
        self.draw()

    def action_zoom(self, factor: float) -> None:
        self.chart.zoom(factor)

    def action_pan(self, share: float) -> None:
        self.chart.pan(share)

    def action_cross(self, by: int) -> None:
        self.chart.put_cross(self.chart.step_cross(by))

    def action_whole(self) -> None:
        self.chart.reset()
        self.chart.put_cross(None)


def _rising(values: Iterable[float]) -> array[float]:
    """Return the values, never decreasing: where a clock ran backwards, or a count is missing, the former value is repeated."""
    made, last = array("d"), 0.0
    for value in values:
        last = max(last, value)
        made.append(last)
    return made
