"""Summarize a run for a comparison: its metrics, steps, time, cost and GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.compare.metrics import TOKENS, goal_of
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import positive
from armada.store import runs, transitions
from armada.store.queries.metric_summaries import summarize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.compare.metrics import Goal
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
        cost: In the money of the host's price.
    """

    run: Run
    spec: Mapping[str, Any]
    metrics: Mapping[str, RunMetric]
    tokens: int | None
    seconds: float | None
    cost: float | None
    gpus: str | None

    @property
    def short_id(self) -> str:
        """The end of the id, by which runs of one name differ."""
        return self.run.run_id[-6:]


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per hour.

    Attributes:
        hosts: Of the configured hosts.
        recorded: At a run's launch, by run id; they count for hosts that have no price any more.
    """

    hosts: Mapping[str, float | None]
    recorded: Mapping[str, float | None]

    def of(self, run: Run) -> float | None:
        """Return the price of a run's host; None if it is not known."""
        price = self.hosts.get(run.host)
        return price if price is not None else self.recorded.get(run.run_id)


def summarize_run(
    database: Database,
    run: Run,
    names: Sequence[str],
    *,
    prices: Prices,
    gpu_names: Sequence[str] = (),
    now: float,
) -> RunSummary:
    """Summarize one run.

    Args:
        database: The store.
        run: The run.
        names: The metrics to summarize.
        prices: Of hosts.
        gpu_names: The names of the GPUs of its host.
        now: Unix time.
    """
    spec = runs.spec(database, run.run_id)
    found = {name: summary for name in names if (summary := summarize(database, run.run_id, name)) is not None}
    tokens = summarize(database, run.run_id, TOKENS)
    seconds = ran_for_s(run, transitions.of_run(database, run.run_id), now)
    price = prices.of(run)
    last = tokens.last[1] if tokens is not None else None
    return RunSummary(
        run=run,
        spec=spec,
        metrics={name: RunMetric(name, goal_of(name), summary) for name, summary in found.items()},
        tokens=int(last) if last is not None and math.isfinite(last) and last >= 0 else None,
        seconds=seconds,
        cost=seconds / 3600 * price if seconds is not None and price is not None else None,
        gpus=describe_gpus(spec.get("gpus"), gpu_names),
    )


def ran_for_s(run: Run, transitions: Sequence[tuple[float, str, str | None, str | None]], now: float) -> float | None:
    """Return how many seconds a run was running, over all of its attempts; None if it never started."""
    if run.started_at is None:
        return None
    end = run.ended_at if run.ended and run.ended_at is not None else (run.observed_at or now if run.ended else now)
    newest = max(0.0, end - run.started_at)
    if run.attempt <= 1 and run.submission <= 1:
        return newest
    # Of earlier attempts home knows when it saw them begin and end.
    total, since = 0.0, None
    for moment, state, _, _ in transitions:
        if moment >= run.started_at:
            break
        if since is not None and state != "running":
            total, since = total + max(0.0, moment - since), None
        elif since is None and state == "running":
            since = moment
    return newest + total + (max(0.0, run.started_at - since) if since is not None else 0.0)


def describe_gpus(count: object, names: Sequence[str]) -> str | None:
    """Return `2 × NVIDIA A100`, or None if no GPU was used."""
    number = positive(count)
    if not number:
        return None
    kinds = sorted({sanitize_line(name, 60) for name in names})
    return f"{number} × {' or '.join(kinds)}" if kinds else f"{number}"
