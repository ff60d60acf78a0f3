"""Liger's kernels: losses equal to those without, and the speed and memory of both."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Workbench, differ

_STEPS = 10
_DIFFERS = 0.02
_LENGTH, _MICRO = 2048, 4
WAYS: dict[str, dict[str, Any]] = {"none": {"train": {"kernels": "none"}}, "liger": {"train": {"kernels": "liger"}}}


def sections(bench: Workbench, model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the trainings by their names: those that learn, and those that measure."""
    rows = bench.rows(_LENGTH)
    found = {}
    for name, changes in WAYS.items():
        found[f"{name}-learns"] = bench.section(model, rows, length=512, steps=_STEPS, micro=2, **changes)
        found[f"{name}-speed"] = bench.measured(model, rows, length=_LENGTH, micro=_MICRO, **changes)
    return found


def run(bench: Workbench) -> None:
    bench.need_gpu("liger")
    bench.need_package("liger_kernel", "liger-kernel")
    ended = {}
    for name, section in sections(bench, {"path": str(bench.model("0.5b"))}).items():
        ended[name] = one = bench.train(name, section)
        figures = {each: one.result[each] for each in ("tokens_per_s", "mfu") if each in one.result}
        bench.tell(name, one.status, one.message, **figures, peak_reserved_bytes=one.peak.get("reserved_bytes"))
    base, other = ended["none-learns"].loss_list, ended["liger-learns"].loss_list
    if base and len(base) == len(other):
        differs = max(differ(mine, theirs) for mine, theirs in zip(other, base, strict=True))
        wrong = f"the losses differ by up to {differs:.1%}" if not differs <= _DIFFERS else ""
        bench.tell("equal losses", FAILED if wrong else PASSED, wrong, differs=differs)
    speeds = [ended[f"{name}-speed"].result.get("tokens_per_s") for name in WAYS]
    if speeds[0] and speeds[1]:
        bench.tell("gain", speedup=speeds[1] / speeds[0])
