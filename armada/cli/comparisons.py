"""Print a comparison of hosts: hosts side by side, as many as the terminal is wide, and what is to be said of each below."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from typing import TYPE_CHECKING

from armada.cli.estimates import cost_text, disk_text, estimate_json, speed_text, time_text
from armada.cli.plans import checks_json, memory_json
from armada.cli.printing import error_fields
from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.memory import find_gpu_memory
from armada.units import amount, counted, memory_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.cli.progress import Reporter
    from armada.launch.comparison.choice import Choice
    from armada.launch.comparison.compare import Compared
    from armada.launch.plans.plan import Plan

_LABEL = 9
_NARROWEST, _WIDEST = 22, 36
_GAP = 2
_WAITING = frozenset({"pending", "idle"})
"""Slurm's word and HTCondor's."""


def show_comparison(reporter: Reporter, found: Sequence[Compared], columns: int | None = None) -> None:
    """Print hosts side by side.

    Args:
        reporter: Prints lines.
        found: The hosts.
        columns: Width of the terminal; asked by default.
    """
    columns = columns or shutil.get_terminal_size().columns
    together = max(1, (columns - _LABEL) // (_NARROWEST + _GAP))
    for start in range(0, len(found), together):
        band = found[start : start + together]
        width = min(_WIDEST, (columns - _LABEL) // len(band) - _GAP)
        for line in _band(band, max(_NARROWEST, width)):
            reporter.line(line)
        reporter.line()
    for each in found:
        _say_notes(reporter, each)


def _band(band: Sequence[Compared], width: int) -> Iterator[str]:
    cells = [_cells(each) for each in band]
    labels = dict.fromkeys(label for column in cells for label in column)
    for label in labels:
        wrapped = [textwrap.wrap(column.get(label, ""), width) for column in cells]
        for number in range(max(1, *(len(lines) for lines in wrapped))):
            words = [(lines[number] if number < len(lines) else "").ljust(width + _GAP) for lines in wrapped]
            yield ((label if number == 0 else "").ljust(_LABEL) + "".join(words)).rstrip()


def _cells(found: Compared) -> dict[str, str]:
    """The rows of one host by their labels."""
    cells = {"host": found.host.name, "launch": _verdict(found)}
    plan, estimate = found.plan, found.estimate
    if plan is None or estimate is None:
        return cells
    cells["GPUs"] = _gpus(plan)
    if plan.profile is not None:
        cells["profile"] = plan.profile.name
    if plan.batch is not None:
        batch = plan.batch
        cells["batch"] = f"{batch.global_} = micro {batch.micro} × acc. {batch.accumulation} × {batch.processes}"
    if plan.memory is not None:
        cells["memory"] = _memory(plan)
    if estimate.speed is not None:
        cells["speed"] = speed_text(estimate)
    cells |= {"time": time_text(estimate.seconds), "cost": cost_text(estimate, found.host)}
    cells |= {"queue": _queue(found), "disk": disk_text(estimate, plan.facts.disk.free_bytes)}
    cells["to send"] = _to_send(plan)
    return cells


def _verdict(found: Compared) -> str:
    if found.outcome == "unreachable":
        return "unreachable"
    if found.plan is None or found.error is not None:
        return "refused"
    failed = [check.code for check in found.plan.checks if check.outcome == "fail"]
    warnings = sum(check.outcome == "warn" for check in found.plan.checks)
    if failed:
        return f"refused: {', '.join(failed)}"
    return "possible" + (f", {counted(warnings, 'warning')}" if warnings else "")


def _gpus(plan: Plan) -> str:
    if not plan.gpus:
        return f"none; {counted(plan.facts.cpu_count, 'core')}" if plan.host.batch is None else "none"
    name = plan.profile.gpus.model if plan.profile is not None else None
    if plan.host.batch is None and plan.facts.gpus:
        name = plan.facts.gpus[0].name
    return f"{plan.gpus} × {sanitize_line(name or 'GPU', 60).removeprefix('NVIDIA ')}"


def _queue(found: Compared) -> str:
    """When it would start, and what a cluster has free."""
    said = [sanitize_line(found.estimate.wait.said, 200)] if found.estimate is not None else []
    if found.queue is not None and not found.queue.error:
        wanted = getattr(found.host.batch, "partition", None)
        parts = [part for part in found.queue.partitions if wanted in (None, part.name)]
        kind, free, whole = "core", sum(part.cpus_free for part in parts), sum(part.cpus for part in parts)
        if found.plan is not None and found.plan.gpus:
            kind, free, whole = "GPU", sum(part.gpus_free for part in parts), sum(part.gpus for part in parts)
        said += [f"{free} of {counted(whole, kind)} free"] if whole else []
        waiting = sum(count for state, count in found.queue.mine.items() if state.lower() in _WAITING)
        said += [f"{counted(waiting, 'job')} of yours waiting"] if waiting else []
    return ", ".join(said)


def _memory(plan: Plan) -> str:
    estimate, subject = plan.memory, plan.subject
    if estimate is None:
        return ""
    has = find_gpu_memory(subject)[0] if subject is not None and plan.gpus else None
    whole = f" of {memory_amount(has)}" if has is not None else ""
    ends = f"{memory_amount(estimate.low_bytes)} to {memory_amount(estimate.high_bytes)}"
    return f"{memory_amount(estimate.total_bytes)}{whole} ({ends})"


def _to_send(plan: Plan) -> str:
    sizes: dict[str, int] = {}
    for content in plan.missing:
        sizes[content.kind] = sizes.get(content.kind, 0) + content.size_bytes
    words = [f"{kind} {amount(size)}" for kind, size in sizes.items()]
    fetched = (plan.subject.fetched_bytes if plan.subject is not None else 0) or _downloads(plan)
    words += [f"model {amount(fetched)} (from the hub)"] if fetched else []
    words += ["environment (built there)"] if plan.environment is not None and not plan.environment.ready else []
    words += ["container (pulled there)"] if plan.container is not None and not plan.container.ready else []
    files = sum(file.link is None for file in plan.job_files.found)
    words += [counted(files, "file") + " of `files:`"] if files else []
    return ", ".join(words) or "nothing"


def _downloads(plan: Plan) -> int:
    trained = plan.subject.trained if plan.subject is not None else None
    return trained.answer.missing_bytes if trained is not None else 0


def _say_notes(reporter: Reporter, found: Compared) -> None:
    """Print what does not fit into a column: where the estimate is from, what is wrong, the command."""
    name, plan = found.host.name, found.plan
    reporter.line(name)
    if found.error is not None:
        reporter.stage("", f"✗ {sanitize_line(found.error.message, 1000)}")
        if found.error.hint:
            reporter.stage("", f"  → {sanitize_line(found.error.hint, 1000)}")
    if plan is None:
        return
    if found.estimate is not None:
        reporter.stage("estimate", f"from {found.estimate.said}" if found.estimate.seconds else found.estimate.said)
    for check in plan.checks:
        if check.outcome != "ok":
            mark = "⚠" if check.outcome == "warn" else "✗"
            reporter.stage("", f"{mark} {check.code} {check.message}" + (f" → {check.hint}" if check.hint else ""))
    if plan.host.provision:
        reporter.stage("tasks", "first, if new: " + " · ".join(call.title for call in plan.host.provision))
    reporter.stage("command", sanitize_line(shlex.join(plan.spec.job.argv), 390))


def say_choice(reporter: Reporter, choice: Choice) -> None:
    """Print which host was chosen and why, then why each of the others was not."""
    if choice.winner is not None:
        reporter.stage("chosen", f"{choice.winner}, {choice.why}")
    for name, why in choice.losers.items():
        reporter.stage("not", f"{name}: {sanitize_line(why, 350)}")


def comparison_json(found: Sequence[Compared]) -> list[dict[str, object]]:
    """Each host as `armada plan --json` prints it."""
    return [_as_json(each) for each in found]


def _as_json(found: Compared) -> dict[str, object]:
    plan, estimate = found.plan, found.estimate
    told: dict[str, object] = {
        "name": found.host.name,
        "outcome": found.outcome,
        "error": error_fields(found.error) if found.error is not None else None,
        "exit_code": found.exit_code,
    }
    if plan is None or estimate is None:
        return told
    batch = plan.batch
    named = ("global_", "micro", "accumulation", "processes")
    return told | {
        "profile": plan.profile.name if plan.profile is not None else None,
        "gpus": plan.gpus,
        "gpu": sanitize_line(plan.facts.gpus[0].name, 80) if plan.facts.gpus and plan.host.batch is None else None,
        "command": list(plan.spec.job.argv),
        "batch": {key.rstrip("_"): getattr(batch, key) for key in named} if batch is not None else None,
        "memory": memory_json(plan),
        "estimate": estimate_json(plan, estimate),
        "queue": found.queue.model_dump(mode="json", exclude_unset=True) if found.queue is not None else None,
        "send": [{"kind": each.kind, "sha": each.sha, "size_bytes": each.size_bytes} for each in plan.missing],
        "send_bytes": sum(each.size_bytes for each in plan.missing),
        "environment_ready": plan.environment.ready if plan.environment is not None else None,
        "checks": checks_json(plan),
    }
