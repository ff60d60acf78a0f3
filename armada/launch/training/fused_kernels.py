"""Choose whether a training takes Liger's kernels for norms, rotary positions and the feed-forward part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from armada.config.tasks.bundled import BundledTraining
    from armada.launch.estimates.shape import ModelShape
    from armada.provision.environment import Environment

_MODELS = ("llama", "mistral", "qwen2", "qwen3")
"""Models whose layers have exactly what these kernels compute."""
_TASKS = ("sft", "pretrain")
"""For other tasks the same word makes TRL take another loss, with other curves."""
_ACTIVATIONS = ("silu", "swish")
_PACKAGE = "liger-kernel"

Kernels = Literal["none", "liger", "hub"]


@dataclass(frozen=True, slots=True)
class KernelsChoice:
    """Which kernels a training takes.

    Attributes:
        word: For the payload.
        why: The reason, as part of a sentence; empty where the experiment says the word, or nothing speaks for any.
    """

    word: Kernels
    why: str = ""


def choose_kernels(
    settings: BundledTraining, environment: Environment | None, shape: ModelShape | None, *, gpus: int, precision: str
) -> KernelsChoice:
    """Choose the kernels of a training.

    On an H200 a step of all weights of 1.5B takes 0.82 of the time with Liger's, one of LoRA of 7B 0.85, with a fifth less
    memory and losses that are equal within rounding. `auto` takes them where that was measured, and nothing else: one GPU's
    model in bf16, whose environment armada builds.

    Args:
        settings: The experiment.
        environment: Of the host; None if an image brings its own Python.
        shape: The model's sizes; None if they are not known.
        gpus: Of the training.
        precision: Of its profile.
    """
    asked = settings.train.kernels
    if asked != "auto":
        return KernelsChoice(asked)
    if not gpus or settings.task not in _TASKS or precision != "bf16":
        return KernelsChoice("none")
    train, lora = settings.train, settings.lora
    doubts = {
        f"`train.sharding: {train.sharding}`": train.sharding != "none",
        "DeepSpeed": settings.deepspeed is not None,
        "`train.compile`": train.compile,
        "a base in 4 bits": lora is not None and lora.quantize != "none",
    }
    for what, is_so in doubts.items():
        if is_so:
            return KernelsChoice("none", f"because Liger's were not measured with {what}")
    if environment is None or not any(line.startswith(_PACKAGE) for line in environment.requirements.splitlines()):
        return KernelsChoice("none", f"because its environment may have no {_PACKAGE}")
    if shape is None:
        return KernelsChoice("none", "because the model's type is not known")
    if shape.kind not in _MODELS or shape.activation not in (None, *_ACTIVATIONS):
        return KernelsChoice("none", f"because Liger's are for {', '.join(_MODELS)} with SiLU")
    return KernelsChoice("liger", "which are faster and need less memory")
