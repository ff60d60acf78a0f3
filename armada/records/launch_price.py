"""What a run's host costs: what your files say now, else what they said when the run was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from armada.records.launch_record import read_price

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from armada.costs.tariff import Tariff
    from armada.paths import HomePaths


class Launched(Protocol):
    """A run, as the store has it."""

    @property
    def run_id(self) -> str: ...

    @property
    def host(self) -> str: ...


def tariff_of(home: HomePaths, run: Launched, tariffs: Mapping[str, Tariff]) -> Tariff | None:
    """Return what a run's host costs; None if no price is known.

    Args:
        home: Whose records of launches are read.
        run: The run.
        tariffs: What the hosts of your files cost, by name.
    """
    if (tariff := tariffs.get(run.host)) is not None:
        return tariff
    record = read_price(home, run.run_id)
    return record.tariff if record is not None else None


class Prices:
    """What the hosts of many runs cost: the record of a launch is read once for each host that was removed.

    Args:
        home: Whose records of launches are read.
        tariffs: What the hosts of your files cost, by name.
        configured: The names of these hosts, also of those without a price; None if a file is wrong: then none counts as removed.
    """

    def __init__(self, home: HomePaths, tariffs: Mapping[str, Tariff], configured: Collection[str] | None) -> None:
        self._home = home
        self._configured = configured
        self._known: dict[str, Tariff | None] = dict(tariffs)

    def of(self, run: Launched) -> Tariff | None:
        """Return what a run's host costs, or cost when the first of its runs that was asked for was launched."""
        if run.host in self._known:
            return self._known[run.host]
        if self._configured is None or run.host in self._configured:
            return None
        record = read_price(self._home, run.run_id)
        if record is not None:  # a run of another home has none: the next one is asked
            self._known[run.host] = record.tariff
        return self._known.get(run.host)

    def by_host(self, runs: Iterable[Launched]) -> dict[str, Tariff]:
        """Return what the hosts of runs cost, by name; those without a price are left out."""
        found = {run.host: self.of(run) for run in runs}
        return {name: tariff for name, tariff in found.items() if tariff is not None}
