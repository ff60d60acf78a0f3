"""Rows of many lengths, padded to the longest of their batch: with masks as transformers makes them, and without."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.rows import write_rows
from benchmarks.gpu.workbench import Workbench, differ

_STEPS = 10
_DIFFERS = 0.02
_LENGTH, _MICRO, _SHORTEST = 4096, 4, 400
WAYS = ("masked", "not masked")


def sections(bench: Workbench, model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the trainings: those that learn, and those that measure."""
    length, shortest = (64, 8) if bench.tiny else (_LENGTH, _SHORTEST)
    rows = write_rows(bench.folder / "rows.jsonl", 64, shortest, length - 20)
    return {
        "learns": bench.section(model, rows, length=length, steps=_STEPS, micro=_MICRO, attention="sdpa"),
        "speed": bench.measured(model, rows, length=length, micro=_MICRO, attention="sdpa"),
    }


def run(bench: Workbench) -> None:
    from benchmarks.gpu import masked

    ended = {}
    for name, section in sections(bench, {"path": str(bench.model("0.5b"))}).items():
        for way in WAYS:
            script = masked.__file__ if way == "masked" else None
            ended[name, way] = one = bench.train(f"{name}-{way.replace(' ', '-')}", section, script=script)
            figures = {each: one.result[each] for each in ("tokens_per_s",) if each in one.result}
            bench.tell(f"{name}, {way}", one.status, one.message, **figures)
    base, other = (ended["learns", way].loss_list for way in WAYS)
    if base and len(base) == len(other):
        differs = max(differ(mine, theirs) for mine, theirs in zip(other, base, strict=True))
        wrong = f"the losses differ by up to {differs:.1%}" if not differs <= _DIFFERS else ""
        bench.tell("equal losses", FAILED if wrong else PASSED, wrong, differs=differs)
    before, after = (ended["speed", way].result.get("tokens_per_s") for way in WAYS)
    if before and after:
        bench.tell("gain", speedup=after / before)
