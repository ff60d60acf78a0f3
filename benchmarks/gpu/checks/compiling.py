"""`train.compile`: the speed with and without, after the warm-up, and how long the warm-up takes."""

from __future__ import annotations

import shutil
from typing import Any

from benchmarks.gpu.catalogue import PASSED
from benchmarks.gpu.workbench import Skipped, Workbench

_LENGTH, _MICRO, _WARMUP_STEPS = 2048, 4, 5


def sections(bench: Workbench, model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the trainings by their names."""
    length, micro = (64, 2) if bench.tiny else (_LENGTH, _MICRO)
    return {
        name: bench.measured(
            model,
            bench.rows(length),
            length=length,
            micro=micro,
            warmup_steps=_WARMUP_STEPS,
            train={"compile": compiles},
        )
        for name, compiles in (("not compiled", False), ("compiled", True))
    }


def run(bench: Workbench) -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        raise Skipped("there is no C compiler, which torch.compile needs")
    speeds = {}
    for name, section in sections(bench, {"path": str(bench.model("0.5b"))}).items():
        ended = bench.train(name.replace(" ", "-"), section)
        speeds[name] = ended.result.get("tokens_per_s")
        kept = {each: ended.result.get(each) for each in ("tokens_per_s", "mfu", "warmup_s", "spread")}
        bench.tell(name, ended.status, ended.message, **kept, peak_reserved_bytes=ended.peak.get("reserved_bytes"))
    before, after = speeds["not compiled"], speeds["compiled"]
    if before and after:
        bench.tell("gain", PASSED, speedup=after / before)
