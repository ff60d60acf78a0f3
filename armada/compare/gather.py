"""Gather what home knows of several runs, for a comparison or a report."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from armada.compare.metrics import chosen_metrics
from armada.compare.settings import differences
from armada.compare.summary import Tariffs, summarize_run
from armada.errors import NotFound
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.records.launch_record import read_record
from armada.store import hosts as host_records
from armada.store import metrics, runs
from armada.store.best_metric import stated_best
from armada.store.queries.tariffs import read_tariffs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.compare.settings import Difference
    from armada.compare.summary import RunSummary
    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.records.launch_record import LaunchRecord
    from armada.store.database import Database
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs and what they differ in.

    Attributes:
        records: What was recorded of each launch; None if nothing was.
        metrics: The names of the metrics that are shown.
        settings: That differ, or all if everything was asked for.
    """

    runs: tuple[RunSummary, ...]
    records: tuple[LaunchRecord | None, ...]
    metrics: tuple[str, ...]
    settings: tuple[Difference, ...]


def gather(
    database: Database,
    home: HomePaths,
    hosts: Mapping[str, Host],
    chosen: Sequence[Run],
    *,
    names: Sequence[str] = (),
    everything: bool = False,
    now: float,
) -> Comparison:
    """Summarize runs and compare their settings.

    Args:
        database: The store.
        home: Home's folders.
        hosts: The configured hosts.
        chosen: The runs.
        names: The metrics to show; none: the losses and what else has a best value.
        everything: Also list settings that are equal in all.
        now: Unix time.

    Raises:
        NotFound: No run has a metric of one of the names.
    """
    shown = check_metrics(database, chosen, names) or _default_metrics(database, chosen)
    records = tuple(read_record(home, run.run_id) for run in chosen)
    recorded = {
        run.run_id: record.tariff
        for run, record in zip(chosen, records, strict=True)
        if record is not None and record.tariff is not None
    }
    tariffs = Tariffs(read_tariffs(database, hosts), recorded)
    summaries = tuple(
        summarize_run(database, run, shown, tariffs=tariffs, gpu_names=_gpu_names(database, run, record), now=now)
        for run, record in zip(chosen, records, strict=True)
    )
    settings = tuple(differences([summary.spec for summary in summaries], everything=everything))
    return Comparison(summaries, records, shown, settings)


def check_metrics(database: Database, chosen: Sequence[Run], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of metrics without repetitions.

    Raises:
        NotFound: No run has a metric of one of the names.
    """
    known = sorted(_known_metrics(database, chosen)) if names else []
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            listed = ", ".join(sanitize_line(each, 60) for each in known[:30]) or "none of them has metrics"
            hint = f"{f'did you mean {near[0]}? ' if near else ''}known: {listed}"
            raise NotFound(f"none of the runs has a metric {sanitize_line(name, 60)!r}", hint=hint)
    return tuple(dict.fromkeys(names))


def _default_metrics(database: Database, chosen: Sequence[Run]) -> tuple[str, ...]:
    """Choose the metrics to show: what the runs say their best is the best by, then by the metrics' names."""
    known = _known_metrics(database, chosen)
    stated = [stated_best(runs.spec(database, run.run_id)) for run in chosen]
    first = [best.name for best in stated if best is not None and best.name in known]
    return tuple(dict.fromkeys([*first, *chosen_metrics(known)]))


def _known_metrics(database: Database, chosen: Sequence[Run]) -> set[str]:
    return {name for run in chosen for name in metrics.names(database, run.run_id)}


def _gpu_names(database: Database, run: Run, record: LaunchRecord | None) -> list[str]:
    """The names recorded at the launch, else those of the host as last seen."""
    if record is not None and record.gpus:
        return list(record.gpus)
    host = host_records.find(database, run.host)
    listed = mapping(host.facts if host is not None else None).get("gpus")
    names = [mapping(gpu).get("name") for gpu in listed] if isinstance(listed, list) else []
    return [name for name in names if isinstance(name, str)]
