"""How charts are shown: metric, filter, horizontal axis, scale and smoothing.

The dashboard keeps all of it while it runs, and what suits every run for the next start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from armada.tui import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from armada.paths import HomePaths
    from armada.tui.remembered import Charted

Choice = TypeVar("Choice")

AGAINST = ("step", "time", "tokens", "cost")
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
WALL = 0
"""Instead of a number of charts: as many as fit."""
PANELS = (1, 2, 4, WALL)


class ChartChoices:
    """What was chosen on one screen.

    Args:
        last: What was chosen before the dashboard was started; a value that is none, here and now, is the usual one.
        keep: Called with what is chosen, each time that it changes.

    Attributes:
        is_picked: Whether the user picked the metric.
        wanted: The words that filter the names of metrics.
        places: The letter and colour of each run that was compared.
    """

    def __init__(self, last: Charted | None = None, keep: Callable[[Charted], None] | None = None) -> None:
        known = last or remembered.Charted()
        self.metric = "loss"
        self.is_picked = False
        self.wanted = ""
        self.against = _or_first(AGAINST, known.against)
        self.panels = _or_first(PANELS, known.panels)
        self.logarithmic = known.logarithmic
        self.smoothing = _or_first(SMOOTHINGS, known.smoothing)
        self.places: dict[str, int] = {}
        self._keep = keep

    def pick(self, metric: str) -> None:
        """Choose a metric."""
        self.metric, self.is_picked = metric, True

    def next_smoothing(self) -> None:
        """Choose the next smoothing."""
        self.smoothing = _after(SMOOTHINGS, self.smoothing)
        self._changed()

    def next_panels(self) -> None:
        """Choose the next number of charts."""
        self.panels = _after(PANELS, self.panels)
        self._changed()

    def next_axis(self) -> None:
        """Choose the next horizontal axis."""
        self.against = _after(AGAINST, self.against)
        self._changed()

    def toggle_log(self) -> None:
        """Choose a logarithmic scale, or a linear one."""
        self.logarithmic = not self.logarithmic
        self._changed()

    def _changed(self) -> None:
        if self._keep is not None:
            self._keep(remembered.Charted(self.against, self.panels, self.smoothing, self.logarithmic))

    def place_again(self, run_ids: list[str], most: int, fresh: Collection[str]) -> list[int]:
        """Return the letters and colours of runs in a new order, in which the `fresh` ones take theirs anew."""
        self.places = {run_id: place for run_id, place in self.places.items() if run_id not in fresh}
        return self.place_runs(run_ids, most)

    def place_runs(self, run_ids: list[str], most: int) -> list[int]:
        """Return the letter and colour of each run: the one it had before, unless another run here has it.

        Args:
            run_ids: The runs, at most as many as there are letters.
            most: How many letters there are.
        """
        taken: dict[int, str] = {}
        for run_id in run_ids:
            known = self.places.get(run_id)
            if known is not None and known < most:
                taken.setdefault(known, run_id)
        free = iter(place for place in range(most) if place not in taken)
        made = {run_id: place for place, run_id in taken.items()}
        for run_id in run_ids:
            if run_id not in made:
                made[run_id] = next(free)
        self.places |= made
        return [made[run_id] for run_id in run_ids]


def of_home(home: HomePaths, *, writes: bool) -> dict[str, ChartChoices]:
    """Return the choices of each screen with charts as they were remembered.

    Args:
        home: The home whose dashboard remembers them.
        writes: Whether they are remembered; `--read-only` remembers nothing.
    """
    return {screen: _of_screen(home, screen, writes=writes) for screen in ("run", "compare")}


def _of_screen(home: HomePaths, screen: str, *, writes: bool) -> ChartChoices:
    def keep(charted: Charted) -> None:
        if writes:
            remembered.keep_charting(home, screen, charted)

    return ChartChoices(remembered.charting(home, screen), keep)


def _or_first(choices: tuple[Choice, ...], known: Choice) -> Choice:
    return known if known in choices else choices[0]


def _after(choices: tuple[Choice, ...], now: Choice) -> Choice:
    return choices[(choices.index(now) + 1) % len(choices)]
