"""Make the values of `armada.api` from those of the store and of the services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.api.values import Checkpoint, Comparison, HostPlan, Operation, Run, RunMetrics, Setting, SyncResult
from armada.foundation.sanitize import sanitize_line, sanitize_text

if TYPE_CHECKING:
    from armada.compare.gather import Comparison as Gathered
    from armada.compare.summary import RunSummary
    from armada.launch.comparison.compare import Compared
    from armada.store.checkpoints import Checkpoint as StoredCheckpoint
    from armada.store.operations import Operation as StoredOperation
    from armada.store.runs import Run as StoredRun
    from armada.sync.runs.report import SyncOutcome


def run_of(stored: StoredRun) -> Run:
    """Return a run of the store as a value."""
    loss = stored.loss if stored.loss_not_finite is None else float(stored.loss_not_finite)
    return Run(
        run_id=stored.run_id,
        name=sanitize_line(stored.name),
        host=stored.host,
        task=sanitize_line(stored.task),
        state=sanitize_line(stored.state),
        reason=_line(stored.reason),
        message=_line(stored.message),
        ended=stored.ended and not stored.is_guess,
        step=stored.step,
        total_steps=stored.total_steps,
        loss=loss,
        tokens_per_s=stored.tokens_per_s,
        exit_code=stored.exit_code,
        group=_line(stored.group),
        tags=tuple(map(sanitize_line, stored.tags)),
        created_at=stored.created_at,
        started_at=stored.started_at,
        ended_at=stored.ended_at,
        observed_at=stored.observed_at,
        unreachable_since=stored.unreachable_since,
    )


def checkpoint_of(stored: StoredCheckpoint) -> Checkpoint:
    """Return a checkpoint of the store as a value. A damaged copy at home has no path."""
    path = stored.home_path if stored.is_good_home else None
    return Checkpoint(stored.run_id, stored.step, stored.digest, stored.size_bytes, path, stored.on_host)


def operation_of(stored: StoredOperation, *, is_alive: bool) -> Operation:
    """Return a recorded operation as a value. A running one whose process is gone was interrupted."""
    return Operation(
        kind=sanitize_line(stored.kind),
        run_id=stored.run_id,
        host=stored.host,
        command=tuple(sanitize_line(word) for word in ("armada", *stored.argv[1:])),
        by=_line(stored.by),
        state="interrupted" if stored.state == "running" and not is_alive else stored.state,
        message=_line(stored.message),
        started_at=stored.started_at,
        ended_at=stored.ended_at,
    )


def plan_of(compared: Compared) -> HostPlan:
    """Return the plan for one host as a value."""
    plan, estimate = compared.plan, compared.estimate
    seconds = estimate.seconds.middle if estimate is not None and estimate.seconds is not None else None
    wait = estimate.wait.seconds if estimate is not None else None
    return HostPlan(
        host=compared.host.name,
        outcome=compared.outcome,
        problems=tuple(sanitize_line(each, 2000) for each in compared.refusals),
        warnings=tuple(
            sanitize_line(f"{check.code} {check.message}", 2000)
            for check in (plan.checks if plan is not None else ())
            if check.outcome == "warn"
        ),
        gpus=plan.gpus if plan is not None else None,
        profile=plan.profile.name if plan is not None and plan.profile is not None else None,
        hours=seconds / 3600.0 if seconds is not None else None,
        cost=estimate.cost.middle if estimate is not None and estimate.cost is not None else None,
        wait_s=wait,
    )


def comparison_of(gathered: Gathered) -> Comparison:
    """Return a comparison as a value."""
    settings = tuple(Setting(each.key, tuple(map(_sanitized, each.masked))) for each in gathered.settings)
    return Comparison(tuple(map(_compared_run, gathered.runs)), settings)


def _sanitized(value: Any) -> Any:
    """Return a setting whose texts have no control characters, at any depth."""
    if isinstance(value, str):
        return sanitize_text(value)  # with its line ends, as a template has them
    if isinstance(value, list | tuple):
        return [_sanitized(item) for item in value]
    if isinstance(value, dict):
        return {_sanitized(str(key)): _sanitized(item) for key, item in value.items()}
    return value


def _compared_run(summary: RunSummary) -> RunMetrics:
    last = {sanitize_line(name, 200): _number(metric.found.last[1]) for name, metric in summary.metrics.items()}
    best = {
        sanitize_line(name, 200): _number(metric.best[1])
        for name, metric in summary.metrics.items()
        if metric.best is not None
    }
    return RunMetrics(run_of(summary.run), last, best, summary.seconds, summary.cost, summary.tokens)


def sync_of(outcome: SyncOutcome) -> SyncResult:
    """Return the result of one run's sync as a value."""
    problems = tuple(sanitize_line(each.error, 2000) for each in outcome.troubles)
    kept = tuple(map(sanitize_line, outcome.outputs.kept))
    return SyncResult(
        outcome.run_id, tuple(outcome.published), tuple(outcome.pending), problems, final=outcome.final, kept=kept
    )


def _line(text: str | None) -> str | None:
    return sanitize_line(text) if text is not None else None


def _number(value: float | None) -> float:
    """The store has NULL for NaN."""
    return float("nan") if value is None else value
