"""What a plan says to a person, and to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.config.tasks.script import Script
from armada.inert import inert_line
from armada.launch.checks.check import refuse_failures
from armada.units import amount, counted

if TYPE_CHECKING:
    from armada.cli.progress import Reporter
    from armada.launch.plans.plan import Plan


def show_plan(reporter: Reporter, plan: Plan, *, as_json: bool) -> int:
    """Print what a dry run found.

    Raises:
        PreflightRefused: A check failed.
    """
    say_plan(reporter, plan, everything=True)
    if as_json:
        print_json({"spec": plan.spec, "files": plan.files, "checks": _checks(plan)})
    refuse_failures(plan.checks, plan.host.name)
    return 0


def _checks(plan: Plan) -> list[dict[str, str | None]]:
    return [{"code": c.code, "outcome": c.outcome, "message": c.message, "hint": c.hint} for c in plan.checks]


def say_plan(reporter: Reporter, plan: Plan, *, everything: bool) -> None:
    parts = []
    if plan.batch is not None:
        b = plan.batch
        ranks = counted(b.processes, "GPU") if plan.gpus else f"{b.processes} process{'es' if b.processes > 1 else ''}"
        parts.append(f"{b.global_} samples a step = micro {b.micro} × accumulate {b.accumulation} × {ranks}")
    if plan.profile is not None and plan.batch is not None:
        parts.append(plan.profile.train.precision)
    if isinstance(plan.experiment, Script):
        parts.append(f"{plan.experiment.script} under accelerate")
        parts.append(counted(plan.gpus, "GPU") if plan.gpus else f"{plan.spec['processes']} on CPUs")
    elif plan.gpus and plan.batch is None:
        parts.append(counted(plan.gpus, "GPU"))
    if plan.dataset_rows:
        parts.append(f"{plan.dataset_rows:,} rows of data" + (" and more" if plan.counts_on_host else ""))
    if plan.counts_on_host:
        parts.append("parquet, saved and hub datasets are counted on the host")
    if plan.host.price_per_hour:
        parts.append(f"${plan.host.price_per_hour:.2f}/h")
    reporter.stage("plan", " · ".join(parts) or f"one command on {plan.host.name}")
    warnings = [check for check in plan.checks if check.outcome == "warn"]
    failures = [check for check in plan.checks if check.outcome == "fail"]
    passed = len(plan.checks) - len(warnings) - len(failures)
    counts = [f"{passed} checks passed"]
    counts += [counted(len(warnings), "warning")] if warnings else []
    counts += [f"{len(failures)} failed"] if failures else []
    reporter.stage("preflight", ", ".join(counts))
    for check in plan.checks if everything else (*warnings, *failures):
        mark = {"ok": "✓", "warn": "⚠", "fail": "✗"}[check.outcome]
        reporter.stage("", f"{mark} {check.code} {check.message}" + (f" → {check.hint}" if check.hint else ""))
    if everything:
        if plan.environment is not None:
            there = "already there" if plan.environment.ready else "to be built"
            reporter.stage("environment", f"{plan.environment.key} ({there})")
            if plan.gpus and plan.environment.flash_attn is not None:
                reporter.stage(
                    "attention", f"hub kernel, then flash-attn, then SDPA; {plan.environment.flash_attn.why}"
                )
        for content in plan.contents:
            there = "to be sent" if content in plan.missing else "already there"
            what = f"{content.kind} {content.sha[:12]} · {counted(len(content.manifest), 'file')} · {amount(content.size_bytes)}"
            reporter.stage("files", f"{what} ({there}) from {content.source}")
        for name, text in plan.files.items():
            reporter.line(f"\n--- {name}")
            for line in text.splitlines():
                reporter.line("    " + inert_line(line, 2000))
