"""Which runs are compared, in which order, and by which letters: the first one is what others are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui.screens import compare_text as pages
from armada.tui.screens.compare_metric import MetricChoice
from armada.tui.screens.runs_choices import RunsChoices
from armada.tui.widgets.chart import NAMES

if TYPE_CHECKING:
    from armada.tui.app import Dashboard
    from armada.tui.screens.compare_text import Compared
    from armada.tui.widgets.run_figures import RunFigures

MOST = len(NAMES)


def pins_of(board: Dashboard) -> frozenset[str]:
    """Return the runs that the user pinned on Runs."""
    first = board.screen_stack[0]
    return first.pins.ids if isinstance(first, RunsChoices) else frozenset()


def marked_on(board: Dashboard) -> tuple[str, ...]:
    """Return the runs that are marked, the pinned ones first: their order by a metric may change at any time."""
    pins = pins_of(board)
    return tuple(sorted((row.id for row in board.marked), key=lambda run_id: (run_id not in pins, run_id)))


class RunOrder(MetricChoice):
    """The marked runs, and the action of the key P."""

    figures: RunFigures

    def __init__(self) -> None:
        super().__init__()
        self.run_ids: list[str] = []
        """The runs; the first one is what others are compared with."""
        self.marked: tuple[str, ...] = ()
        """All that were marked when the screen was opened; see `marked_on`."""
        self.places: dict[str, int] = {}
        """The letter and colour of each run."""
        self._is_ordered = False
        self._pinned: frozenset[str] = frozenset()
        """Those that the user pinned on Runs."""
        self._fresh: frozenset[str] = frozenset()
        """Those that were never compared before: nobody knows a letter of theirs."""

    @property
    def runs(self) -> list[Compared]:
        raise NotImplementedError

    @property
    def lit(self) -> Compared | None:
        raise NotImplementedError

    @property
    def is_read(self) -> bool:
        raise NotImplementedError

    @property
    def reading(self) -> str:
        raise NotImplementedError

    def take_marked(self) -> None:
        """Take the runs that are marked now."""
        self.marked, self._pinned = marked_on(self.board), pins_of(self.board)
        self.run_ids = [row.id for row in self.board.marked[:MOST]]
        self._fresh = frozenset(self.run_ids) - self.choices.places.keys()
        self._is_ordered = self._is_chosen = False
        self.places = dict(zip(self.run_ids, self.choices.place_runs(self.run_ids, MOST), strict=True))

    def order_runs(self) -> bool:
        """Put the best run first, once everything is read; return whether the cursor goes there: it was on the first run."""
        if self._is_ordered or self.reading or not (self.rows and self.is_settled and self.is_read and self.are_stated):
            return False
        self._is_ordered = True
        is_first = self.figures.cursor in (None, self.run_ids[0])
        self.run_ids = pages.best_first(self.runs, self.choices.metric, self._pinned)
        places = self.choices.place_again(self.run_ids, MOST, self._fresh)
        self.places = dict(zip(self.run_ids, places, strict=True))
        return is_first

    def action_pin(self) -> None:
        """Put the run under the cursor first."""
        if (lit := self.lit) is not None:
            self._is_ordered = True
            self.run_ids.remove(lit.row.id)
            self.run_ids.insert(0, lit.row.id)
            self.draw()
