"""By which metric runs are compared: their own, or one that the keys m and M and the filter choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.compare.metrics import in_order
from armada.foundation.sanitize import sanitize_line
from armada.store.best_metric import stated_best
from armada.tui import left_out
from armada.tui.filtering import matching
from armada.tui.screens import compare_text as pages
from armada.tui.screens.view import View
from armada.tui.widgets.field import Field

if TYPE_CHECKING:
    from textual.widget import Widget
    from textual.widgets import Input

    from armada.foundation.metric_goals import BestBy
    from armada.tui.chart_choices import ChartChoices
    from armada.tui.snapshot import RunRow

FILTERED = ("curves", "parallel", "scatter", "pareto")
"""The pages that show the metric."""
HINT = "letters of the metrics, or ^start end$ a|b; Enter keeps, esc clears"


class MetricChoice(View):
    """The actions of the keys m, M and /."""

    choices: ChartChoices
    shown: str

    def __init__(self) -> None:
        super().__init__()
        self._best_by: dict[str, BestBy | None] = {}
        self._is_chosen = False
        self.find = Field(id="find", placeholder=HINT, disabled=True)

    @property
    def rows(self) -> list[RunRow]:
        raise NotImplementedError

    @property
    def home_of_focus(self) -> Widget:
        """What has the focus while nothing is typed."""
        raise NotImplementedError

    def action_tab(self, tab: str) -> None:
        raise NotImplementedError

    # The runs' own --------------------------------------------------------------------------------------------------

    @property
    def are_stated(self) -> bool:
        """Whether it is known of each run what it says that it is the best by."""
        return all(self._is_stated(row) for row in self.rows)

    def _is_stated(self, row: RunRow) -> bool:
        told = self.snapshot.bests if row.run.sweep else self.snapshot.details
        return row.id in self._best_by or row.id in told

    @property
    def is_settled(self) -> bool:
        """Whether it is known by which metric the runs are compared."""
        return self.choices.is_picked or self._is_chosen

    def stated(self, run_id: str) -> BestBy | None:
        """Return what a run's sweep says that it is the best by, or else its experiment; neither ever changes."""
        row = self.snapshot.row(run_id)
        if run_id not in self._best_by and row is not None and self._is_stated(row):
            seen = self.snapshot
            found = seen.bests[run_id].stated if row.run.sweep else stated_best(seen.details[run_id].spec)
            self._best_by[run_id] = found
        return self._best_by.get(run_id)

    def choose_own_metric(self) -> None:
        """Compare by the runs' own metric, unless the user picked one that they have. It stays while the screen is open."""
        if not self.rows:
            return  # a screen that is made ahead
        if self.choices.is_picked and self.known and self.choices.metric not in self.known:
            self.choices.is_picked = False  # it was picked for other runs
        if self.is_settled or not self.are_stated:
            return
        details = [self.snapshot.details[row.id] for row in self.rows]
        stated = [self.stated(each.run_id) for each in details]
        own = pages.own_metric(stated, [each.metrics for each in details])
        order = matching(self.known, self.choices.wanted) if self.choices.wanted else []
        self.choices.metric = own if own in order or not order else order[0]
        self._is_chosen = True

    # The user's -----------------------------------------------------------------------------------------------------

    @property
    def known(self) -> list[str]:
        """The metrics that the runs have."""
        return in_order({name for detail in self.snapshot.details.values() for name in detail.metrics})

    @property
    def filter_words(self) -> str:
        """What the filter does, for the titles; empty without one."""
        if not self.choices.wanted:
            return ""
        known, words = self.known, sanitize_line(self.choices.wanted, 60)
        found = matching(known, self.choices.wanted)
        return f" · {left_out.matched(words, len(found), len(known), self._not_kept)}"

    @property
    def unmatched(self) -> str:
        """That no metric matches the filter; empty if one does."""
        known, words = self.known, self.choices.wanted
        if not words or not known or matching(known, words):
            return ""
        return left_out.unmatched(sanitize_line(words, 60), len(known), self._not_kept)

    @property
    def _not_kept(self) -> list[str]:
        """The metrics that no run has a curve of, as far as they are known."""
        return sorted({name for each in self.snapshot.details.values() for name in each.left_out} - {*self.known})

    def step_metric(self, by: int) -> None:
        """Take the next metric that the filter shows."""
        order = matching(self.known, self.choices.wanted)
        if order:
            place = order.index(self.choices.metric) if self.choices.metric in order else -by
            self.choices.pick(order[(place + by) % len(order)])
            self.take()

    def action_filter(self) -> None:
        """Filter the metrics. On another page, the first key press only opens the curves."""
        if self.shown not in FILTERED:
            self.action_tab("curves")
            return
        self.find.value = self.choices.wanted
        self.find.disabled = False
        self.find.add_class("open")
        self.set_focus(self.find)  # at once: what is typed next is meant for it

    def _filter_metrics(self, words: str) -> None:
        """Keep the metrics that have these words, letters or regular expressions; the one that is shown stays, if it has."""
        self.choices.wanted = words
        order = matching(self.known, words)
        if order and self.choices.metric not in order:
            self.choices.pick(order[0])
        self.take()

    def close_filter(self) -> bool:
        """Close the field and take the filter away, for Escape; return whether there was one."""
        was_open = self.find.has_class("open")
        if was_open:
            self._close_field()
        if not was_open and not (self.choices.wanted and self.shown in FILTERED):
            return False
        self._filter_metrics("")
        return True

    def _close_field(self) -> None:
        self.find.remove_class("open")
        self.find.disabled = True
        self.set_focus(self.home_of_focus)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self.find and self.find.has_class("open"):
            self._filter_metrics(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.find:
            self._close_field()
