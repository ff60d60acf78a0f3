"""`armada bench --host local` of an experiment, and `armada bench local` of the machine itself, on this GPU.

Cells of one process are forked from one that has imported torch: none of them may find CUDA already in use.
"""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.checks.launch import Home
from benchmarks.gpu.processes import end_all_of
from benchmarks.gpu.workbench import Workbench

_GRID = "train.micro_batch_size=2,4"
_SECONDS = 6
_SHOWN = ("tokens_per_s", "step_time_s", "mfu", "spread", "turns", "peak_memory_bytes", "cell_s")


def run(bench: Workbench) -> None:
    home = Home(bench)
    try:
        home.prepare()
        seconds = "1" if bench.tiny else str(_SECONDS)
        tell_cells(bench, home.json("bench", "exp.yaml", "--host", "local", "--grid", _GRID, "--seconds", seconds))
        tell_machine(bench, home.json("bench", "local"))
    finally:
        end_all_of(bench.folder / "home")


def tell_cells(bench: Workbench, told: dict[str, Any]) -> None:
    """Tell each cell of a bench; one that was not measured is a failure."""
    for cell in told["cells"]:
        is_measured = cell["status"] == "measured"
        figures = {name: cell[name] for name in _SHOWN if cell.get(name) is not None} if is_measured else {}
        why = "" if is_measured else str(cell.get("message") or f"it is {cell['status']}")
        bench.tell(str(cell["label"]), PASSED if is_measured else FAILED, why, **figures)


def tell_machine(bench: Workbench, told: dict[str, Any]) -> None:
    """Tell what a machine gives of what its profile says; a GPU that gives nothing is a failure."""
    figures = {str(figure["name"]): figure["value"] for figure in told["figures"]}
    has_gpu = bench.tiny or "flops" in figures  # those of CPUs have other names
    why = str(told["verdict"]) if has_gpu else "no figure is a GPU's"
    bench.tell("the machine", PASSED if has_gpu else FAILED, why, **figures)
