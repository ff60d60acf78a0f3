"""Learn a model's shape before a launch, from its config.json, and how the payload trains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.launch.estimates.memory import TrainingShape
from armada.launch.estimates.shape import (
    LONGEST_CONFIG,
    ModelShape,
    UnknownShapeError,
    parse_config,
    read_positions,
    read_shape,
)
from armada.launch.training.sharding import divided_parts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from armada.config.training import TinyModel
    from armada.launch.estimates.memory import Attention
    from armada.protocol.facts import Gpu
    from armada.protocol.spec import TrainingSection

OLDEST_FLASH = 8.0
"""The compute capability that flash attention needs."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What home knows about a model.

    Attributes:
        shape: Its sizes; None if they are not known.
        problem: Why they are not known, as part of a sentence.
        positions: The longest row it is made for, in tokens.
    """

    shape: ModelShape | None = None
    problem: str = "its config.json is not at home"
    positions: int | None = None


def read_model(config: str | bytes) -> ModelFacts:
    """Read a config.json."""
    try:
        parsed = parse_config(config)
    except UnknownShapeError as error:
        return ModelFacts(problem=str(error))
    positions = read_positions(parsed)
    try:
        return ModelFacts(read_shape(parsed), "", positions)
    except UnknownShapeError as error:
        return ModelFacts(problem=str(error), positions=positions)


def read_folder(folder: Path) -> ModelFacts:
    """Read the config.json of a model's folder."""
    try:
        with (folder / "config.json").open("rb") as stream:
            return read_model(stream.read(LONGEST_CONFIG + 1))
    except OSError as error:
        return ModelFacts(problem=f"its config.json cannot be read: {error.strerror}")


def tiny_model(tiny: TinyModel) -> ModelFacts:
    """Return the facts of a model that the payload makes: a Qwen2 whose head is not tied to its embeddings."""
    shape = ModelShape(
        kind="qwen2",
        layers=tiny.layers,
        hidden=tiny.hidden_size,
        heads=tiny.heads,
        kv_heads=tiny.kv_heads,
        head_size=tiny.hidden_size // tiny.heads,
        intermediate=tiny.intermediate_size,
        dense_intermediate=tiny.intermediate_size,
        vocabulary=tiny.vocab_size,
        tied=False,
    )
    return ModelFacts(shape, "")


def training_shape(
    section: TrainingSection,
    gpus: tuple[Gpu, ...],
    *,
    sequences: int = 1,
    has_reference: bool = False,
    teacher: ModelShape | None = None,
) -> TrainingShape:
    """Return what decides the memory of a planned training.

    Args:
        section: spec["training"].
        gpus: The host's GPUs; none of a cluster, whose login node does not show them.
        sequences: Sequences of tokens in each row: a pair has two.
        has_reference: Whether a second copy of the model is in memory, which is never trained.
        teacher: Another model in memory, which is never trained.
    """
    lora: Mapping[str, object] = section.lora or {}
    method: Literal["full", "lora", "qlora"] = "full"
    if section.lora is not None:
        method = "lora" if lora.get("quantize", "none") == "none" else "qlora"
    precision: Literal["bf16", "fp16", "fp32"] = "fp32"
    if section.precision in ("bf16", "fp16"):
        precision = "bf16" if section.precision == "bf16" else "fp16"
    targets = lora.get("target_modules")
    names = tuple(map(str, targets)) if isinstance(targets, list | tuple) else None
    saved = lora.get("modules_to_save")
    asked = section.train.get("optimizer")
    optimizer: Mapping[str, object] = asked if isinstance(asked, dict) else {}
    return TrainingShape(
        method=method,
        micro_batch=section.batch.micro,
        length=_whole(section.train.get("max_length"), 2048),
        precision=precision,
        activation_checkpointing=bool(section.train.get("activation_checkpointing")),
        attention=_attention(section, gpus),
        rank=_whole(lora.get("r"), 16),
        targets="all-linear" if names is None else names,
        saved_modules=tuple(map(str, saved)) if isinstance(saved, list | tuple) else (),
        dora=bool(lora.get("dora")),
        accumulates=section.batch.accumulation > 1,
        processes=section.batch.processes,
        divided_by=_divided_by(section),
        sharded=divided_parts(section.train.get("sharding")) if section.batch.processes > 1 else frozenset(),
        device=section.device,
        sequences=sequences,
        has_reference=has_reference,
        teacher=teacher,
        optimizer=str(optimizer.get("name", "adamw")),
        has_momentum=bool(optimizer.get("momentum")),
        masks=(section.objective or {}).get("name") in ("distill", "grpo"),
        fuses=section.train.get("kernels") == "liger",
        whole_logits=section.train.get("logits") == "whole",
        stages_checkpoints=bool(section.checkpoint.get("in_background")),
        scores=(section.objective or {}).get("name") == "reward",
    )


def _divided_by(section: TrainingSection) -> int | None:
    """Return among how many processes a part is divided; None: among all."""
    processes = section.batch.processes
    return processes // 2 if section.train.get("sharding") == "fsdp-hybrid" and processes > 1 else None


def _attention(section: TrainingSection, gpus: tuple[Gpu, ...]) -> Attention:
    """Return the attention that the payload will probably choose."""
    if section.attention == "eager":
        return "eager"
    if section.attention == "flash_attention_2":
        return "flash"
    if section.attention == "sdpa" or section.device == "cpu" or section.precision == "fp32":
        return "sdpa"
    return "sdpa" if any(_is_old(gpu) for gpu in gpus) else "flash"


def _is_old(gpu: Gpu) -> bool:
    try:
        return float(gpu.compute_capability or OLDEST_FLASH) < OLDEST_FLASH
    except ValueError:
        return False


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
