"""When runs were on their hosts: one span for each attempt, as home saw them begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.costs.report import Use
from armada.costs.tariff import is_possible, ran
from armada.store import transitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.costs.tariff import Span
    from armada.store.database import Database
    from armada.store.runs import Run


def ran_until(run: Run, now: float) -> float:
    """Return when a run's newest attempt ended: of one that was lost without a record of its end, when it last was alive."""
    if not run.ended or run.ended_at:
        return run.ended_at if run.ended and run.ended_at else now
    alive_at = run.alive_at or run.observed_at or now
    if run.started_at is not None and not is_possible(run.started_at, run.created_at, now):
        return run.started_at + max(0.0, alive_at - run.created_at)  # both by the host's clock, as ends are
    return alive_at


def ran_spans(run: Run, seen: Sequence[tuple[float, str, str | None, str | None]], now: float) -> tuple[Span, ...]:
    """Return when a run was running, over all of its attempts; nothing if it never started.

    Args:
        run: The run; its newest attempt is what the host said of it.
        seen: Its transitions. Of earlier attempts home knows when it saw them begin and end.
        now: Unix time: a run that has not ended, also one whose host does not answer, is counted until then.
    """
    if run.started_at is None:
        return ()
    newest = ran(run.started_at, ran_until(run, now), run.created_at, now)
    if run.attempt <= 1 and run.submission <= 1:
        return (newest,)
    earlier: list[Span] = []
    since: float | None = None
    for moment, state, _, _ in seen:
        if moment >= run.started_at:
            break
        if since is not None and state != "running":
            earlier.append((since, moment))
            since = None
        elif since is None and state == "running":
            since = moment
    if since is not None:
        earlier.append((since, run.started_at))
    return (*earlier, newest)


def read_use(database: Database, run: Run, now: float) -> Use:
    """Return when a run was on its host, and with how many GPUs."""
    resumed = run.attempt > 1 or run.submission > 1
    spans = ran_spans(run, transitions.of_run(database, run.run_id) if resumed else (), now)
    return Use(run.run_id, run.host, len(run.gpus), spans, not run.ended and run.unreachable_since is not None)


def read_uses(database: Database, found: Iterable[Run], now: float) -> list[Use]:
    """Return the same of several runs, in their order."""
    return [read_use(database, run, now) for run in found]
