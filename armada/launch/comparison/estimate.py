"""Estimate a planned run: speed, hours, cost, disk, and when its host could start it."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.tasks.bundled import BundledTraining
from armada.launch.checks.host import DiskNeed, count_disk
from armada.launch.comparison.recorded import find_earlier, measured_speeds, recorded_steps, workload_of_plan
from armada.launch.estimates.duration import Work, estimate_cost, estimate_duration, tokens_per_row
from armada.launch.estimates.parameters import count_parameters
from armada.launch.estimates.ranges import Range
from armada.launch.estimates.speed import TINY_PARAMETERS, estimate_speed
from armada.store import runs
from armada.units import counted, span

if TYPE_CHECKING:
    from armada.launch.checks.subject import Trained
    from armada.launch.estimates.duration import Duration
    from armada.launch.estimates.speed import Speed
    from armada.launch.plans.plan import Plan
    from armada.paths import HomePaths
    from armada.store.database import Database

EARLIER = 1.25
"""Factor of the range where the same experiment, with the same code and data, ran before on such a host."""

_LONGEST_WAIT_S = 366 * 86_400.0
_BYTES_PER_TRAINED = 12
"""A checkpoint has a trained weight and AdamW's two moments, in 32 bits."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a run would wait for its host. `seconds` is None if nobody knows."""

    seconds: float | None
    said: str


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run on one host is expected to be.

    Attributes:
        speed: Of a training.
        duration: Of a training, in parts.
        seconds: From the start to the end; None if it cannot be estimated.
        said: Where that is from, or why there is none.
        cost: In the currency of `rate`: the run's share of the box; None without a price or without hours.
        rate: What an hour costs, and the currency; None without a price.
        disk: What is needed on the host.
    """

    wait: Wait
    said: str
    seconds: Range | None = None
    speed: Speed | None = None
    duration: Duration | None = None
    cost: Range | None = None
    rate: tuple[float, str] | None = None
    disk: DiskNeed | None = None

    @property
    def until_end_s(self) -> Range | None:
        """Seconds from now until the run has ended; None if the wait or the hours are unknown."""
        if self.seconds is None or self.wait.seconds is None:
            return None
        return Range.total((self.seconds, Range.exactly(self.wait.seconds)))


def estimate_plan(plan: Plan, database: Database, home: HomePaths) -> RunEstimate:
    """Estimate a planned run from its plan and from recorded runs. Asks no host."""
    speed, duration, seconds, said = _estimate_time(plan, database, home)
    tariff = plan.host.tariff(len(plan.facts.gpus))
    rate = tariff.run_rate(plan.gpus, time.time()) if tariff is not None else None
    return RunEstimate(
        wait=estimate_wait(plan, database),
        said=said,
        seconds=seconds,
        speed=speed,
        duration=duration,
        cost=estimate_cost(seconds, rate[0]) if seconds is not None and rate is not None else None,
        rate=rate,
        disk=count_disk(plan.subject) if plan.subject is not None else None,
    )


def _estimate_time(
    plan: Plan, database: Database, home: HomePaths
) -> tuple[Speed | None, Duration | None, Range | None, str]:
    workload = workload_of_plan(plan)
    trained = plan.subject.trained if plan.subject is not None else None
    if workload is None or trained is None or not isinstance(plan.experiment, BundledTraining):
        earlier = find_earlier(database, home, plan)
        if earlier is None:
            return None, None, None, "no such run was recorded"
        if not earlier.is_same:
            return None, None, None, f"run {earlier.run_id} of this experiment had other code or data"
        return None, None, Range.around(earlier.took_s, EARLIER), f"run {earlier.run_id}, the same experiment"
    work = _work(plan, plan.experiment, trained)
    if work.max_steps is None and (counted_before := recorded_steps(database, plan)) is not None:
        work = dataclasses.replace(work, max_steps=counted_before[1])
    length = tokens_per_row(work).middle
    peak = plan.profile.peak_flops if plan.profile is not None else None
    measured = measured_speeds(database, home, workload)
    speed = estimate_speed(workload, measured, peak_flops=peak, length=length)
    if speed is None:
        return None, None, None, _why_no_speed(plan, trained, peak)
    duration = estimate_duration(work, speed)
    if duration is None:
        return speed, None, None, f"the number of steps is counted on the host; speed: {speed.said}"
    return speed, duration, duration.total_s, speed.said


def _work(plan: Plan, settings: BundledTraining, trained: Trained) -> Work:
    subject = plan.subject
    weights = plan.memory.trained if plan.memory is not None else 0
    size = _BYTES_PER_TRAINED * weights or (subject.checkpoint_bytes / 6 if subject is not None else 0)
    return Work(
        samples=settings.train.global_batch_size,
        length=settings.train.max_length,
        max_steps=settings.train.max_steps,
        epochs=settings.train.epochs,
        rows=trained.rows,
        row_bytes=trained.row_bytes,
        packing=bool(settings.train_section().get("packing", settings.train.packing)),
        eval_rows=trained.eval_rows,
        eval_every=settings.train.eval_every_steps,
        save_every=settings.checkpoint.every_steps,
        save_bytes=size,
        sent_bytes=sum(content.size_bytes for content in plan.missing),
        fetched_bytes=(subject.fetched_bytes if subject is not None else 0) + trained.answer.missing_bytes,
        builds=plan.environment is not None and not plan.environment.ready,
    )


def _why_no_speed(plan: Plan, trained: Trained, peak: float | None) -> str:
    """Say why nothing can be estimated."""
    none = "no run of this model was recorded on such a host"
    if not plan.gpus:
        return f"{none}, and the speed of CPUs is only known from runs"
    if trained.facts.shape is None:
        return f"{none}, and the model's size is unknown: {trained.facts.problem}"
    if count_parameters(trained.facts.shape) < TINY_PARAMETERS:
        return f"{none}, and a model below {TINY_PARAMETERS // 10**6}M parameters says nothing about a GPU's speed"
    profile = plan.profile
    if peak is None and profile is not None:
        why = "trains in fp32" if profile.train.precision == "fp32" else "has no gpus.peak_tflops"
        return f"{none}, and profile {profile.name} {why}"
    return none


def estimate_wait(plan: Plan, database: Database) -> Wait:
    """Estimate when the host could start the run, from what it said of its GPUs and its batch system."""
    if plan.host.batch is not None:
        answer = plan.subject.scheduler if plan.subject is not None else None
        if answer is None or answer.starts_in_s is None:
            return Wait(None, f"{plan.host.scheduler} gives no time")
        soon = answer.starts_in_s < 60
        return Wait(
            answer.starts_in_s, f"{plan.host.scheduler}: starts {'now' if soon else f'in {span(answer.starts_in_s)}'}"
        )
    if not plan.gpus:
        return Wait(0.0, "CPUs alone")
    busy = [gpu for gpu in plan.facts.gpus if gpu.processes]
    waiting = len(plan.facts.queue.waiting)
    free = len(plan.facts.gpus) - len(busy)
    said = f"{free} of {counted(len(plan.facts.gpus), 'GPU')} free"
    if waiting:
        return Wait(None, f"{said}, {counted(waiting, 'run')} waiting")
    if free >= plan.gpus:
        return Wait(0.0, said)
    active = runs.every(database, host=plan.host.name, active=True)
    left = {run.run_id: run.eta_s for run in active if run.eta_s is not None and 0 <= run.eta_s < _LONGEST_WAIT_S}
    ends = [max(left.get(user.run_id or "", math.inf) for user in gpu.processes) for gpu in busy]
    soonest = sorted(ends)[: plan.gpus - free]
    if len(soonest) < plan.gpus - free or soonest[-1] == math.inf:
        return Wait(None, f"{said}; who uses the others does not say for how long")
    return Wait(soonest[-1], f"{said}, the others in {span(soonest[-1])}")
