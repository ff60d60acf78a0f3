"""Print the estimate of a run, for people and as JSON: time, cost, speed, wait and disk. Plans and comparisons show the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.launch.comparison.choice import money
from armada.units import amount, span

if TYPE_CHECKING:
    from armada.cli.progress import Reporter
    from armada.launch.comparison.estimate import RunEstimate
    from armada.launch.estimates.ranges import Range
    from armada.launch.plans.plan import Plan


def time_text(seconds: Range | None) -> str:
    """`3 h 20 m (2 h 40 m to 4 h 10 m)`."""
    if seconds is None:
        return "not known"
    return f"{span(seconds.middle)} ({span(seconds.low)} to {span(seconds.high)})"


def cost_text(estimate: RunEstimate, price_per_hour: float | None) -> str:
    """`$48.00 ($38.40 to $60.00)`, or why it is not known."""
    if price_per_hour is None:
        return "no price"
    cost = estimate.cost
    if cost is None:
        return f"{money(price_per_hour)} an hour"
    return money(cost.middle) + (f" ({money(cost.low)} to {money(cost.high)})" if cost.high > cost.low else "")


def speed_text(estimate: RunEstimate) -> str:
    """`12,300 tokens/s (9,900 to 15,300)`; empty for what is no training."""
    if estimate.speed is None:
        return ""
    rate = estimate.speed.tokens_per_s
    return f"{_figure(rate.middle)} tokens/s ({_figure(rate.low)} to {_figure(rate.high)})"


def disk_text(estimate: RunEstimate, free_bytes: int) -> str:
    if estimate.disk is None:
        return ""
    return f"{amount(estimate.disk.total_bytes)} of {amount(free_bytes)} free"


def say_estimate(reporter: Reporter, plan: Plan, estimate: RunEstimate) -> None:
    """Print the estimate beside a plan; nothing for a script or command that never ran."""
    price = plan.host.price_per_hour
    if estimate.seconds is None and plan.subject is not None and plan.subject.trained is not None:
        reporter.stage("time", f"not known: {estimate.said}")
    elif estimate.seconds is not None:
        cost = f" · {cost_text(estimate, price)}" if price is not None else ""
        reporter.stage("time", f"about {time_text(estimate.seconds)}{cost}; from {estimate.said}")
    if plan.gpus:
        reporter.stage("queue", estimate.wait.said)


def estimate_json(plan: Plan, estimate: RunEstimate) -> dict[str, object]:
    """The estimate as every command prints it. Seconds, and money of `price_per_hour`; null is not known."""
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
        "price_per_hour": plan.host.price_per_hour,
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
