"""What a run's host costs: what your files say now, else what they said when the run was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from armada.records.launch_record import read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    record = read_record(home, run.run_id)
    return record.tariff if record is not None else None


def with_launches(home: HomePaths, runs: Iterable[Launched], tariffs: Mapping[str, Tariff]) -> dict[str, Tariff]:
    """Return what hosts cost, by name; for those without a price in your files, what the first of the runs tells."""
    found = dict(tariffs)
    for run in runs:
        if run.host not in found and (tariff := tariff_of(home, run, tariffs)) is not None:
            found[run.host] = tariff
    return found
