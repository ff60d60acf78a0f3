"""How charts are shown: metric, filter, horizontal axis, scale and smoothing. The dashboard keeps it while it runs."""

from __future__ import annotations

from typing import TypeVar

Choice = TypeVar("Choice")

SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
PANELS = (1, 2, 4)


class ChartChoices:
    """What was chosen on one screen.

    Attributes:
        wanted: The words that filter the names of metrics.
        places: The letter and colour of each run that was compared.
    """

    def __init__(self) -> None:
        self.metric = "loss"
        self.wanted = ""
        self.against = "step"
        self.panels = 1
        self.logarithmic = False
        self.smoothing = 0.0
        self.places: dict[str, int] = {}

    def next_smoothing(self) -> None:
        """Choose the next smoothing."""
        self.smoothing = _after(SMOOTHINGS, self.smoothing)

    def next_panels(self) -> None:
        """Choose the next number of charts."""
        self.panels = _after(PANELS, self.panels)

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


def _after(choices: tuple[Choice, ...], now: Choice) -> Choice:
    return choices[(choices.index(now) + 1) % len(choices)]
