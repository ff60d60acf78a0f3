"""Estimate how fast a training with the bundled trainer will be, from recorded runs or else from the GPU's peak performance.

Three ways, the first that is possible:

1. A recorded run of the same model and method on the same kind of GPU. What differs otherwise (micro batch, length,
   number of GPUs …) is converted by floating point operations, and widens the range by a factor for each difference.
2. The share of the peak performance (MFU) that a recorded run of another model reached on the same kind of GPU.
3. The profile's peak and a share of it that is usual.

Floating point operations of a token: 2 for each weight in the forward pass, 2 in the backward pass, 2 more for its
gradient if it is trained (Kaplan et al., arXiv 2001.08361, section 2.1: 6·N), so 4·N + 2·trained for an adapter. Attention
adds 12 · layers · width · length (PaLM, arXiv 2204.02311, appendix B). Recomputed activations are one more forward pass.
An embedding is looked up, not multiplied.

Shares of the peak that were measured (MosaicML, llm-foundry, scripts/train/benchmarking/README.md, H100 in bf16, 760M to
70B, 512 to 65,536 tokens, recomputation counted): 32 to 59 %, with code tuned for speed and full rows. A plain trainer with
short, padded rows does worse; how much worse is an assumption of ours: down to 12 %, and to 3 % for models below 1B
parameters, whose GPUs wait for Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.launch.estimates.parameters import count_adapter, count_experts, count_parameters
from armada.launch.estimates.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.launch.estimates.memory import TrainingShape
    from armada.launch.estimates.shape import ModelShape

USUAL_SHARE = (0.12, 0.59)
"""Of the peak, for models of at least 1B parameters."""

SMALL_SHARE = (0.03, 0.45)
"""The same for smaller models."""

SMALL_PARAMETERS = 1_000_000_000

TINY_PARAMETERS = 100_000_000
"""Smaller models are not estimated by the peak at all: the GPU waits for Python nearly all the time."""

_QUANTIZED = 0.7
"""By this the lower bound is multiplied for bases in 4 bits, which are unpacked for every use."""

OTHER_MODEL = 1.8
"""Factor of the range where only another model was measured on the GPU."""

SAME = 1.1
"""Factor of the range where the same training was measured: runs of one training differ by so much."""

FEW_POINTS, FEW = 5, 1.3
"""A run of fewer points says little; its range is wider."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What decides the speed of a training.

    Attributes:
        model: What the experiment calls the model; equal names are the same model.
        shape: The model's shape; None if it is not known.
        gpu: The kind of GPU, or `cpu`.
        host: The host's name.
        devices: How many GPUs, or processes on CPUs, train together.
        data: Names of the data, equal for equal data.
        attention: As the profile says.
    """

    model: str
    shape: ModelShape | None
    training: TrainingShape
    gpu: str
    host: str
    devices: int
    data: frozenset[str]
    packing: bool = False
    attention: str = "auto"


@dataclass(frozen=True, slots=True)
class Measured:
    """The speed of a recorded run, without its first point; 0 is not known.

    Attributes:
        points: How many points of its curves were averaged.
        deviation: The standard deviation of the step's time as a share of its mean.
        mfu: The share of the peak performance, as the trainer reports it.
    """

    run_id: str
    workload: Workload
    points: int
    step_s: float
    tokens_per_s: float
    samples_per_s: float = 0.0
    deviation: float = 0.0
    mfu: float = 0.0
    eval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Speed:
    """An estimate of speed.

    Attributes:
        tokens_per_s: Over all GPUs.
        origin: `run`: the same model was measured; `mfu`: another model; `peak`: nothing was.
        said: Where it is from, for people.
        run_id: The recorded run.
        samples_per_s: Known only from a run with the same data.
        eval_s: Seconds of an evaluation, known only from a run with the same data.
    """

    tokens_per_s: Range
    origin: Literal["run", "mfu", "peak"]
    said: str
    run_id: str | None = None
    samples_per_s: Range | None = None
    eval_s: float | None = None


def flops_per_token(shape: ModelShape, training: TrainingShape, length: float) -> float:
    """Return the floating point operations that a GPU needs for training on one token.

    Args:
        shape: The model.
        training: How it is trained.
        length: The usual length of a row in tokens.
    """
    multiplied = float(count_parameters(shape) - _looked_up(shape))
    if shape.experts:
        multiplied -= count_experts(shape) * (1 - shape.experts_per_token / shape.experts)
    attention = 4.0 * shape.layers * shape.attention * length
    forward = 2.0 * multiplied + attention
    if not training.has_adapter:
        total = 3 * forward
    else:
        adapter = count_adapter(shape, training.rank, training.targets, dora=training.dora)
        # A frozen weight has no gradient; attention has no weights, so its backward pass is whole.
        total = 4.0 * multiplied + 3 * attention + 6.0 * adapter
    return total + (forward if training.activation_checkpointing else 0.0) + _teachers_flops(training, length)


def reported_flops_per_token(shape: ModelShape, training: TrainingShape) -> float:
    """Return what the trainer counts for its `mfu`: all weights, neither attention nor recomputation (its `gauges.py`)."""
    multiplied = count_parameters(shape) - _looked_up(shape)
    taught = _teachers_flops(training, 0.0)
    if not training.has_adapter:
        return 6.0 * multiplied + taught
    adapter = count_adapter(shape, training.rank, training.targets, dora=training.dora)
    return 4.0 * multiplied + 6.0 * adapter + taught


def _teachers_flops(training: TrainingShape, length: float) -> float:
    """Return the operations of a teacher's forward pass for each token; 0 without one."""
    teacher = training.teacher
    if teacher is None:
        return 0.0
    return 2.0 * (count_parameters(teacher) - _looked_up(teacher)) + 4.0 * teacher.layers * teacher.attention * length


def estimate_speed(
    wanted: Workload, measured: Iterable[Measured], *, peak_flops: float | None, length: float
) -> Speed | None:
    """Estimate the speed of a training.

    Args:
        wanted: The training.
        measured: Recorded runs, the newest first.
        peak_flops: Of one GPU; None if unknown.
        length: The usual length of a row in tokens.

    Returns:
        None if nothing was measured, and the shape or the peak is unknown, or the model is too small for that.
    """
    runs = [run for run in measured if _is_usable(run)]
    near = [found for run in runs if (found := _compare(wanted, run)) is not None]
    if near:
        return _from_run(wanted, *min(near, key=lambda found: found[1]))
    shape = wanted.shape
    if shape is None or peak_flops is None or wanted.gpu == "cpu" or count_parameters(shape) < TINY_PARAMETERS:
        return None
    others = [run for run in runs if run.mfu > 0 and run.workload.gpu == wanted.gpu and _is_alike(wanted, run)]
    if others:
        middle = others[0].mfu * peak_flops * wanted.devices / reported_flops_per_token(shape, wanted.training)
        said = f"the {others[0].mfu:.0%} of the GPU's peak that {others[0].run_id} reached with another model"
        return Speed(Range.around(middle, OTHER_MODEL), "mfu", said, others[0].run_id)
    low, high = USUAL_SHARE if count_parameters(shape) >= SMALL_PARAMETERS else SMALL_SHARE
    if wanted.training.method == "qlora":
        low *= _QUANTIZED
    whole = peak_flops * wanted.devices / flops_per_token(shape, wanted.training, length)
    said = f"{low:.0%} to {high:.0%} of the GPU's peak; no run was recorded on this GPU"
    return Speed(Range(whole * low, whole * math.sqrt(low * high), whole * high), "peak", said)


def _looked_up(shape: ModelShape) -> int:
    """Count the weights that are looked up alone: input embeddings that are not the output head too, and positions."""
    positions = (shape.positions or 0) * shape.hidden if shape.learned_positions else 0
    return positions + (0 if shape.tied else shape.vocabulary * shape.hidden)


_PLAUSIBLE = (1e-6, 1e9)
"""Bounds of rates and times. A job may write anything into its curves, and into its plan what a recovery reads."""

_MOST = 10_000_000
"""Of whole numbers: ranks, lengths, samples."""


def _is_usable(run: Measured) -> bool:
    low, high = _PLAUSIBLE
    training = run.workload.training
    return (
        run.points > 0
        and all(low <= figure <= high for figure in (run.step_s, run.tokens_per_s))
        and all(figure == 0 or low <= figure <= high for figure in (run.samples_per_s, run.eval_s))
        and (run.mfu == 0 or 1e-4 <= run.mfu <= 1)
        and 0 <= run.deviation < high
        and all(
            0 < each < _MOST for each in (run.workload.devices, training.micro_batch, training.length, training.rank)
        )
    )


def _is_alike(wanted: Workload, run: Measured) -> bool:
    return run.workload.training.method == wanted.training.method and run.workload.packing == wanted.packing


def _compare(wanted: Workload, run: Measured) -> tuple[Measured, float, list[str]] | None:
    """Return how far a run of the same model is from a training, as the factor of the range, and the differences in words."""
    there, here = run.workload, wanted
    a, b = there.training, here.training
    if (there.model, there.gpu, a.method, a.device) != (here.model, here.gpu, b.method, b.device):
        return None
    if a.width != b.width or (here.gpu == "cpu" and there.host != here.host):
        return None
    differences: list[tuple[float, str]] = []
    if there.devices != here.devices:
        differences.append((1.3, f"{there.devices} instead of {here.devices} {_named(here)}"))
    if a.micro_batch != b.micro_batch:
        differences.append((1.25, f"micro batch {a.micro_batch} instead of {b.micro_batch}"))
    if a.length != b.length:
        differences.append((1.2, f"max_length {a.length} instead of {b.length}"))
    if a.activation_checkpointing != b.activation_checkpointing:
        differences.append((1.2, f"{'with' if a.activation_checkpointing else 'without'} activation checkpointing"))
    if there.packing != here.packing:
        differences.append((1.4, "with packing" if there.packing else "without packing"))
    if there.attention != here.attention:
        differences.append((1.3, f"attention {there.attention} instead of {here.attention}"))
    if a.precision != b.precision:
        differences.append((1.15, f"{a.precision} instead of {b.precision}"))
    if (a.rank, a.targets, a.dora, a.saved_modules) != (b.rank, b.targets, b.dora, b.saved_modules):
        differences.append((1.15, "another adapter"))
    if b.teacher is not None and a.teacher is None:
        differences.append((1.3, "without a teacher"))
    if there.data != here.data and not here.packing:
        differences.append((1.15, "other data"))
    if there.host != here.host:
        differences.append((1.1, f"on {there.host}"))
    # Two standard errors of the mean; steps of rows that differ in length differ themselves.
    noise = 1 + 2 * min(run.deviation, 2.0) / math.sqrt(run.points)
    base = (FEW if run.points < FEW_POINTS else SAME) * noise
    return run, base * math.prod(factor for factor, _ in differences), [words for _, words in differences]


def _named(workload: Workload) -> str:
    return "processes" if workload.gpu == "cpu" else "GPUs"


def _from_run(wanted: Workload, run: Measured, factor: float, differences: list[str]) -> Speed:
    there = run.workload
    scale = wanted.devices / there.devices
    if wanted.shape is not None and differences:
        length = float(min(there.training.length, wanted.training.length))
        before = flops_per_token(wanted.shape, there.training, length)
        scale *= before / flops_per_token(wanted.shape, wanted.training, length)
    is_same_data = there.data == wanted.data and not (there.packing or wanted.packing)
    is_same_length = there.training.length == wanted.training.length
    said = f"run {run.run_id}" + (f" ({', '.join(differences)})" if differences else ", the same training")
    samples = Range.around(run.samples_per_s * scale, factor) if run.samples_per_s > 0 else None
    return Speed(
        Range.around(run.tokens_per_s * scale, factor),
        "run",
        said,
        run.run_id,
        samples if is_same_data and is_same_length else None,
        run.eval_s / scale if run.eval_s > 0 and is_same_data else None,
    )
