"""Print a plan, for people and as JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.cli.estimates import estimate_json, say_estimate
from armada.cli.printing import print_json
from armada.config.tasks.bundled import BundledTraining
from armada.config.tasks.script import Script
from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import refuse_failures
from armada.units import amount, counted

if TYPE_CHECKING:
    from armada.cli.progress import Reporter
    from armada.launch.comparison.estimate import RunEstimate
    from armada.launch.plans.plan import Plan


def show_plan(reporter: Reporter, plan: Plan, *, as_json: bool, estimate: RunEstimate | None = None) -> int:
    """Print the result of a dry run.

    Raises:
        PreflightRefused: A check failed.
    """
    if plan.host.provision:
        reporter.stage("tasks", "first, if new: " + " · ".join(call.title for call in plan.host.provision))
    say_plan(reporter, plan, everything=True, estimate=estimate)
    if as_json:
        told = {
            "spec": plan.spec.as_json(),
            "files": plan.files,
            "checks": checks_json(plan),
            "memory": memory_json(plan),
        }
        print_json(told | {"estimate": estimate_json(plan, estimate) if estimate is not None else None})
    refuse_failures(plan.checks, plan.host.name)
    return 0


def checks_json(plan: Plan) -> list[dict[str, str | None]]:
    """The results of a plan's checks."""
    return [{"code": c.code, "outcome": c.outcome, "message": c.message, "hint": c.hint} for c in plan.checks]


def memory_json(plan: Plan) -> dict[str, object] | None:
    """The estimate of a plan's memory; None if there is none."""
    estimate = plan.memory
    if estimate is None:
        return None
    return {
        "total_bytes": estimate.total_bytes,
        "low_bytes": estimate.low_bytes,
        "high_bytes": estimate.high_bytes,
        "moment": estimate.moment,
        "terms": [{"name": term.name, "size_bytes": term.size_bytes} for term in estimate.terms],
    }


def say_plan(reporter: Reporter, plan: Plan, *, everything: bool, estimate: RunEstimate | None = None) -> None:
    """Print a plan and the results of its checks; with `everything` also what is sent, and each file."""
    reporter.stage("plan", " · ".join(_headline(plan)) or f"one command on {plan.host.name}")
    if estimate is not None:
        say_estimate(reporter, plan, estimate)
    _say_checks(reporter, plan, everything=everything)
    if not everything:
        return
    _say_environment(reporter, plan)
    for content in plan.contents:
        there = "to be sent" if content in plan.missing else "already there"
        what = f"{content.kind} {content.sha[:12]} · {counted(len(content.manifest), 'file')} · {amount(content.size_bytes)}"
        reporter.stage("files", f"{what} ({there}) from {content.source}")
    for file in plan.job_files.found:
        there = (
            "already there"
            if file.link
            else "downloaded at home, then sent"
            if file.through_home
            else "to be downloaded"
        )
        size = f" · {amount(file.size_bytes)}" if file.size_bytes is not None else ""
        reporter.stage("files", f"{file.name}{size} ({there}) from {file.written}")
    for name, text in plan.files.items():
        reporter.line(f"\n--- {name}")
        for line in text.splitlines():
            reporter.line("    " + sanitize_line(line, 2000))


def _headline(plan: Plan) -> list[str]:
    return [*_size(plan), *_data(plan), *_price(plan)]


def _price(plan: Plan) -> list[str]:
    tariff = plan.host.tariff()
    price = tariff.price_at(time.time()) if tariff is not None else None
    return [price.text] if price is not None and price.amount else []


def _size(plan: Plan) -> list[str]:
    """What a step is, and on how many GPUs or processes."""
    batch, gpus = plan.batch, counted(plan.gpus, "GPU")
    if batch is not None:
        ranks = gpus if plan.gpus else f"{batch.processes} process{'es' if batch.processes > 1 else ''}"
        samples = "samples a step"
        if isinstance(plan.experiment, BundledTraining) and plan.experiment.samples:
            each = plan.experiment.completions
            prompts = counted(batch.global_ // each, "prompt")
            samples = f"completions a step ({prompts}" + (f" × {each}" if each > 1 else "") + ")"
        step = f"{batch.global_} {samples} = micro {batch.micro} × accumulate {batch.accumulation} × {ranks}"
        return [step, *([plan.profile.train.precision] if plan.profile is not None else [])]
    if isinstance(plan.experiment, Script):
        on = gpus if plan.gpus else f"{plan.spec.processes} on CPUs"
        return [f"{plan.experiment.script} under accelerate", on]
    return [gpus] if plan.gpus else []


def _data(plan: Plan) -> list[str]:
    more = " and more" if plan.counts_on_host else ""
    rows = [f"{plan.dataset_rows:,} rows of data{more}"] if plan.dataset_rows else []
    return rows + (["parquet, saved and hub datasets are counted on the host"] if plan.counts_on_host else [])


def _say_checks(reporter: Reporter, plan: Plan, *, everything: bool) -> None:
    warnings = [check for check in plan.checks if check.outcome == "warn"]
    failures = [check for check in plan.checks if check.outcome == "fail"]
    counts = [f"{len(plan.checks) - len(warnings) - len(failures)} checks passed"]
    counts += [counted(len(warnings), "warning")] if warnings else []
    counts += [f"{len(failures)} failed"] if failures else []
    reporter.stage("preflight", ", ".join(counts))
    for check in plan.checks if everything else (*warnings, *failures):
        mark = {"ok": "✓", "warn": "⚠", "fail": "✗"}[check.outcome]
        reporter.stage("", f"{mark} {check.code} {check.message}" + (f" → {check.hint}" if check.hint else ""))


def _say_environment(reporter: Reporter, plan: Plan) -> None:
    environment, existing = plan.environment, plan.existing
    if existing is not None:
        reporter.stage("environment", f"{sanitize_line(existing.path, 300)} (yours: {existing.said})")
    if (container := plan.container) is not None:
        state = "already there" if container.ready else "to be pulled"
        reporter.stage("environment", f"container {container.image} by {container.runner} ({state})")
    if environment is None:
        return
    origin = " from your requirements" if environment.is_own else ""
    state = f"already there, built{origin}" if environment.ready and origin else "already there"
    if not environment.ready:
        source = plan.host.environments_from
        state = f"to be built{origin}" + (f" on {source}, and sent from there" if source is not None else "")
    reporter.stage("environment", f"{environment.key} ({state})")
    if plan.gpus and environment.flash_attn is not None:
        reporter.stage("attention", f"hub kernel, then flash-attn, then SDPA; {environment.flash_attn.why}")
