"""Convert an experiment's budget to the time that it pays for on a host, and check that it reaches a checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.budget import Budget
from armada.costs.price import money
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.protocol.spec import BudgetSection
from armada.units import span

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.config.tasks.experiment import Experiment
    from armada.launch.checks.subject import Subject

_LEAST_RATE = 1e-9
"""Below this price an hour is as good as free."""


@dataclass(frozen=True, slots=True)
class Unpayable:
    """Why a budget cannot be converted, and what to do."""

    why: str
    hint: str


def budget_of(settings: Experiment, host: Host, gpus: int, box_gpus: int) -> BudgetSection | Unpayable | None:
    """Return for how long a run's budget pays; None if nothing stops the run.

    Args:
        settings: The experiment.
        host: Where it runs.
        gpus: How many GPUs it holds.
        box_gpus: How many GPUs the host has.
    """
    budget = settings.budget
    if not isinstance(budget, Budget):
        return None
    limits: list[tuple[float, str]] = []
    if budget.hours is not None:
        limits.append((budget.hours * 3600, f"{budget.hours:g} h"))
    if budget.most is not None:
        tariff = host.tariff(box_gpus or None)
        rate = tariff.run_rate(gpus, time.time()) if tariff is not None else None
        if rate is None:
            known = tariff is not None and tariff.price_at(time.time()) is not None
            of = (
                f"the price of {host.name} is per GPU, and this run holds none"
                if known
                else f"no price of {host.name} is known"
            )
            why = f"`budget.cost` cannot be kept: {of}"
            return Unpayable(why, f"armada hosts set {host.name} --price '12.40 EUR'; or budget: {{hours: 5}}")
        (amount, currency), (per_hour, paid) = budget.most, rate
        if currency not in (None, paid):
            why = f"`budget.cost` is in {currency}, and the price of {host.name} is in {paid}: they are not compared"
            return Unpayable(why, f"give the budget in {paid}, or as budget: {{hours: 5}}")
        if per_hour > _LEAST_RATE:
            limits.append((amount / per_hour * 3600, f"{money(amount, paid)} at {money(per_hour, paid)}/h"))
    if not limits:
        return None
    seconds, said = min(limits)
    return BudgetSection(seconds=seconds, said=said)


def paid_for(subject: Subject) -> BudgetSection | Unpayable | None:
    """Return for how long a planned run's budget pays; None if nothing stops the run."""
    return budget_of(subject.experiment, subject.host, subject.gpus, len(subject.facts.gpus))


def check_budget(subject: Subject) -> Answer | None:
    """Check that a budget can be kept, and that the first checkpoint is saved before it is spent."""
    found = paid_for(subject)
    if found is None:
        return None
    if isinstance(found, Unpayable):
        return fail(found.why, found.hint)
    lasts = f"the budget ({found.said}) pays for {span(found.seconds)}"
    grace_s = subject.experiment.stop_grace_s
    if found.seconds <= 2 * grace_s:
        hint = "raise `budget`, or lower `stop_grace_s`"
        return warn(f"{lasts}, and stopping alone may take `stop_grace_s`, {span(grace_s)}", hint)
    checkpoint = subject.experiment.checkpoint
    first_s = checkpoint.every_minutes * 60 if checkpoint is not None and checkpoint.every_minutes is not None else None
    if first_s is not None and first_s >= found.seconds:
        return warn(
            f"{lasts}, and the first checkpoint is saved after {span(first_s)}: only what is saved at the stop is kept",
            "raise `budget`, or lower `checkpoint.every_minutes`",
        )
    if checkpoint is None:
        return warn(f"{lasts}, and the run saves no checkpoints: what it has done by then is lost", "add `checkpoint:`")
    return ok(lasts)
