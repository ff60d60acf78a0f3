"""Summarize a run for a comparison: its metrics, steps, time, cost and GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.compare.metrics import TOKENS, goal_of
from armada.costs.amounts import Amounts, total
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import positive
from armada.store import runs
from armada.store.best_metric import stated_best
from armada.store.queries.metric_summaries import summarize
from armada.store.queries.uses import read_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.compare.metrics import Goal
    from armada.costs.report import Use
    from armada.costs.tariff import Tariff
    from armada.store.database import Database
    from armada.store.queries.metric_summaries import MetricSummary
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class RunMetric:
    """A metric of a run.

    Attributes:
        goal: Whether its best value is the lowest or the highest; None: its name does not say so.
    """

    name: str
    goal: Goal | None
    found: MetricSummary

    @property
    def best(self) -> tuple[int, float | None] | None:
        """Step and value of the best point; None if there is none."""
        return {"min": self.found.lowest, "max": self.found.highest, None: None}[self.goal]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a comparison shows of a run; None for what is not known.

    Attributes:
        tokens: Trained on so far.
        seconds: How long it ran, without the time between its attempts.
        use: When it ran, and the GPUs that it held.
        tariff: What its host costs; None without a price.
        costs: What it cost, its share of the box; None without a price.
    """

    run: Run
    spec: Mapping[str, Any]
    metrics: Mapping[str, RunMetric]
    tokens: int | None
    seconds: float | None
    use: Use
    tariff: Tariff | None
    costs: Amounts | None
    gpus: str | None

    @property
    def cost(self) -> float | None:
        """The cost where it is in one currency."""
        return self.costs.single[0] if self.costs is not None and self.costs.single is not None else None

    @property
    def short_id(self) -> str:
        """The end of the id, by which runs of one name differ."""
        return self.run.run_id[-6:]


@dataclass(frozen=True, slots=True)
class Tariffs:
    """What hosts cost.

    Attributes:
        hosts: Of the configured hosts.
        recorded: At a run's launch, by run id; they count for hosts that have no price any more.
    """

    hosts: Mapping[str, Tariff]
    recorded: Mapping[str, Tariff]

    def of(self, run: Run) -> Tariff | None:
        """Return what a run's host costs; None if it is not known."""
        return self.hosts.get(run.host) or self.recorded.get(run.run_id)


def summarize_run(
    database: Database,
    run: Run,
    names: Sequence[str],
    *,
    tariffs: Tariffs,
    gpu_names: Sequence[str] = (),
    now: float,
) -> RunSummary:
    """Summarize one run.

    Args:
        database: The store.
        run: The run.
        names: The metrics to summarize.
        tariffs: Of hosts.
        gpu_names: The names of the GPUs of its host.
        now: Unix time.
    """
    spec = runs.spec(database, run.run_id)
    found = {name: summary for name in names if (summary := summarize(database, run.run_id, name)) is not None}
    tokens = summarize(database, run.run_id, TOKENS)
    use = read_use(database, run, now)
    tariff = tariffs.of(run)
    best = stated_best(spec)
    told = {} if best is None else {best.name: best.goal}
    last = tokens.last[1] if tokens is not None else None
    return RunSummary(
        run=run,
        spec=spec,
        metrics={name: RunMetric(name, told.get(name) or goal_of(name), summary) for name, summary in found.items()},
        tokens=int(last) if last is not None and math.isfinite(last) and last >= 0 else None,
        seconds=use.lasted_s if use.spans else None,
        use=use,
        tariff=tariff,
        costs=use.cost(tariff) if use.spans and tariff is not None else None,
        gpus=describe_gpus(spec.get("gpus"), gpu_names),
    )


def cost_together(found: Iterable[RunSummary]) -> Amounts | None:
    """What runs cost together: an hour of a box counts once, however many of them share it. None without prices."""
    shared: dict[tuple[str, Tariff | None], list[Use]] = {}
    for summary in found:
        shared.setdefault((summary.run.host, summary.tariff), []).append(summary.use)
    parts = [
        tariff.cost_together([(use.held, use.spans) for use in uses])
        if tariff is not None
        else Amounts({}, math.fsum(use.lasted_s for use in uses))
        for (_, tariff), uses in shared.items()
    ]
    together = total(parts)
    return together if together.is_known else None


def describe_gpus(count: object, names: Sequence[str]) -> str | None:
    """Return `2 × NVIDIA A100`, or None if no GPU was used."""
    number = positive(count)
    if not number:
        return None
    kinds = sorted({sanitize_line(name, 60) for name in names})
    return f"{number} × {' or '.join(kinds)}" if kinds else f"{number}"
