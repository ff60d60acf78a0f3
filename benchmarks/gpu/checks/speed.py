"""Models with random weights at full size: tokens a second, MFU, and the peak of memory against armada's estimate.

The micro batch is the largest of 8, 4, 2 and 1 that fits by the estimate, without recomputing activations where that fits.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import Any, Literal

from armada.launch.estimates.memory import TrainingShape, estimate_memory
from armada.launch.estimates.shape import ModelShape, read_shape
from benchmarks.gpu.catalogue import PASSED, SKIPPED
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.workbench import Workbench

_FILLED = 0.85
"""The share of the GPU's memory that an estimate may take: it is ±15 % off."""
_BATCHES = (8, 4, 2, 1)


@dataclass(frozen=True, slots=True)
class Cell:
    """One training, and what it should reach."""

    method: Literal["full", "lora"]
    length: int
    aim_mfu: float | None = None
    recomputes: bool = False
    """Activations are recomputed, whether that is needed or not."""

    @property
    def label(self) -> str:
        return f"{self.method} {self.length}{' recomputed' if self.recomputes else ''}"


CELLS = {
    "0.5b": (
        Cell("lora", 2048),
        Cell("full", 2048),
        Cell("full", 2048, recomputes=True),
        Cell("lora", 8192),
        Cell("full", 8192),
    ),
    "1.5b": (Cell("full", 4096, aim_mfu=0.50),),
    "7b": (Cell("lora", 4096, aim_mfu=0.45),),
    "7b-more": (
        Cell("lora", 2048),
        Cell("lora", 8192),
        Cell("lora", 8192, recomputes=True),
        Cell("full", 2048),
    ),
}


def run(bench: Workbench) -> None:
    name = bench.name.removeprefix("speed-")
    shape_name = name.removesuffix("-more")
    shape = read_shape(SHAPES["tiny" if bench.tiny else shape_name])
    memory = float(bench.machine.get("memory_bytes") or 8e9)
    for cell in CELLS[name]:
        length = 64 if bench.tiny else cell.length
        planned = plan(shape, replace(cell, length=length), bench, memory)
        if planned is None:
            bench.tell(cell.label, SKIPPED, "by the estimate it does not fit, even one row at a time")
            continue
        model = {"path": str(bench.model(shape_name))}
        _measure(bench, cell, shape, planned, model)


def plan(shape: ModelShape, cell: Cell, bench: Workbench, memory_bytes: float) -> TrainingShape | None:
    """Choose the micro batch by the estimate; None if nothing fits."""
    batches = (2,) if bench.tiny else _BATCHES
    for recomputes in (True,) if cell.recomputes else (False, True):
        for micro in batches:
            training = TrainingShape(
                method=cell.method,
                micro_batch=micro,
                length=cell.length,
                precision="fp32" if bench.precision == "fp32" else "bf16" if bench.precision == "bf16" else "fp16",
                activation_checkpointing=recomputes,
                device="cpu" if bench.tiny else "cuda",
                fuses=takes_liger(bench),
            )
            if estimate_memory(shape, training).total_bytes <= _FILLED * memory_bytes:
                return training
    return None


def takes_liger(bench: Workbench) -> bool:
    """Tell whether `train.kernels: auto` would take Liger's kernels for these shapes."""
    return bench.precision == "bf16" and importlib.util.find_spec("liger_kernel") is not None


def section(bench: Workbench, training: TrainingShape, model: dict[str, Any]) -> dict[str, Any]:
    """Return the training's section."""
    changes: dict[str, Any] = {"lora": None} if training.method == "full" else {}
    return bench.measured(
        model,
        bench.rows(training.length),
        length=training.length,
        micro=training.micro_batch,
        train={
            "activation_checkpointing": training.activation_checkpointing,
            "kernels": "liger" if training.fuses else "none",
        },
        **changes,
    )


def _measure(bench: Workbench, cell: Cell, shape: ModelShape, training: TrainingShape, model: dict[str, Any]) -> None:
    estimate = estimate_memory(shape, training)
    ended = bench.train(cell.label.replace(" ", "-"), section(bench, training, model))
    peak = ended.peak.get("reserved_bytes")
    mfu = ended.result.get("mfu")
    notes = [ended.message] if ended.message else []
    figures: dict[str, Any] = {
        "micro_batch": training.micro_batch,
        "recomputes": training.activation_checkpointing,
        "fuses": training.fuses,
        "tokens_per_s": ended.result.get("tokens_per_s"),
        "mfu": mfu,
        "aim_mfu": cell.aim_mfu,
        "step_time_s": ended.result.get("step_time_s"),
        "spread": ended.result.get("spread"),
        "estimate_bytes": estimate.total_bytes,
        "peak_reserved_bytes": peak,
        "peak_allocated_bytes": ended.peak.get("allocated_bytes") or ended.result.get("peak_memory_bytes"),
        "peak_device_bytes": ended.peak.get("device_bytes"),
    }
    if peak and ended.status == PASSED:
        figures["estimate_of_peak"] = ratio = estimate.total_bytes / peak
        if not 1 - estimate.spread <= 1 / ratio <= 1 + estimate.spread:
            notes.append(f"the peak is outside the estimate's ±{estimate.spread:.0%}")
    if cell.aim_mfu is not None and mfu is not None:
        notes.append(f"MFU {mfu:.1%}, the aim of {cell.aim_mfu:.0%} is {'met' if mfu >= cell.aim_mfu else 'missed'}")
    figures = {key: value for key, value in figures.items() if value is not None}
    bench.tell(cell.label, ended.status, "; ".join(notes), **figures)
