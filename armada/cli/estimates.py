"""Print the estimate of a run, for people and as JSON: time, cost, speed, wait and disk. Plans and comparisons show the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.costs.price import money
from armada.units import amount, span

if TYPE_CHECKING:
    from armada.cli.progress import Reporter
    from armada.config.hosts import Host
    from armada.launch.comparison.estimate import RunEstimate
    from armada.launch.estimates.ranges import Range
    from armada.launch.plans.plan import Plan


def time_text(seconds: Range | None) -> str:
    """`3 h 20 m (2 h 40 m to 4 h 10 m)`."""
    if seconds is None:
        return "not known"
    return f"{span(seconds.middle)} ({span(seconds.low)} to {span(seconds.high)})"


def cost_text(estimate: RunEstimate, host: Host) -> str:
    """`$48.00 ($38.40 to $60.00)`, or why it is not known."""
    if estimate.rate is None:
        return "a price per GPU" if host.prices else "no price"
    cost, (rate, currency) = estimate.cost, estimate.rate
    if cost is None:
        return f"{money(rate, currency)} an hour"
    wide = f" ({money(cost.low, currency)} to {money(cost.high, currency)})" if cost.high > cost.low else ""
    return money(cost.middle, currency) + wide


def speed_text(estimate: RunEstimate) -> str:
    """`12,300 tokens/s (9,900 to 15,300)`; empty for what is no training."""
    if estimate.speed is None:
        return ""
    rate = estimate.speed.tokens_per_s
    return f"{_figure(rate.middle)} tokens/s ({_figure(rate.low)} to {_figure(rate.high)})"


def disk_text(estimate: RunEstimate, free_bytes: int) -> str:
    if estimate.disk is None:
        return ""
    return f"needs {amount(estimate.disk.total_bytes)} of {amount(free_bytes)} free"


def say_estimate(reporter: Reporter, plan: Plan, estimate: RunEstimate) -> None:
    """Print the estimate beside a plan; nothing for a script or command that never ran."""
    if estimate.seconds is None and plan.subject is not None and plan.subject.trained is not None:
        reporter.stage("time", f"not known: {estimate.said}")
    elif estimate.seconds is not None:
        cost = f" · {cost_text(estimate, plan.host)}" if estimate.rate is not None else ""
        reporter.stage("time", f"about {time_text(estimate.seconds)}{cost}; from {estimate.said}")
    _say_budget(reporter, plan, estimate)
    if plan.gpus:
        reporter.stage("queue", estimate.wait.said)


def _say_budget(reporter: Reporter, plan: Plan, estimate: RunEstimate) -> None:
    """Say when the budget stops the run, and what it will not have done by then."""
    budget, duration, checkpoint = plan.spec.budget, estimate.duration, plan.experiment.checkpoint
    if budget is None:
        return
    words = f"stopped after {span(budget.seconds)}: {budget.said}"
    if duration is not None and duration.step_s is not None and checkpoint is not None and checkpoint.every_steps:
        start = duration.parts["start"].low if "start" in duration.parts else 0.0
        first_s = start + checkpoint.every_steps * duration.step_s.low
        if first_s > budget.seconds:
            words = f"⚠ {words}; the first checkpoint takes {span(first_s)} or more"
    if estimate.seconds is not None and estimate.seconds.low > budget.seconds:
        words += f"; all of it takes {span(estimate.seconds.low)} or more"
    reporter.stage("budget", words)


def estimate_json(plan: Plan, estimate: RunEstimate) -> dict[str, object]:
    """The estimate as every command prints it. Seconds, and money of `currency`, the share of the run; null is not known."""
    speed, duration, disk = estimate.speed, estimate.duration, estimate.disk
    return {
        "tokens_per_s": speed.tokens_per_s.as_json() if speed is not None else None,
        "origin": speed.origin if speed is not None else "run" if estimate.seconds is not None else None,
        "said": estimate.said,
        "steps": duration.steps.as_json() if duration is not None and duration.steps is not None else None,
        "step_s": duration.step_s.as_json() if duration is not None and duration.step_s is not None else None,
        "parts_s": {name: part.as_json() for name, part in duration.parts.items()} if duration is not None else None,
        "seconds": estimate.seconds.as_json() if estimate.seconds is not None else None,
        "cost": estimate.cost.as_json() if estimate.cost is not None else None,
        "price_per_hour": estimate.rate[0] if estimate.rate is not None else None,
        "currency": estimate.rate[1] if estimate.rate is not None else None,
        "wait_s": estimate.wait.seconds,
        "wait": estimate.wait.said,
        "disk_needed_bytes": disk.total_bytes if disk is not None else None,
        "disk_free_bytes": plan.facts.disk.free_bytes,
    }


def _figure(value: float) -> str:
    """Three digits are more than an estimate is worth."""
    if value < 100:
        return f"{value:.2g}"
    digits = 10 ** max(0, len(str(int(value))) - 3)
    return f"{round(value / digits) * digits:,}"
