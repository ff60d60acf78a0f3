"""Choose how a training computes its loss: in tiles of logits, or of all logits of a micro batch at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.config.training import SHARDED_WORDS
from armada.launch.estimates.memory import WHOLE_LOGITS_BYTES
from armada.units import amount

if TYPE_CHECKING:
    from armada.config.tasks.bundled import BundledTraining
    from armada.launch.estimates.shape import ModelShape

WHOLE_SHARE = 0.1
"""Of a host's memory: logits that need more are computed in tiles."""


@dataclass(frozen=True, slots=True)
class LogitsChoice:
    """How the loss is computed.

    Attributes:
        word: `tiles`, or `whole` for all logits of a micro batch at once.
        why: The reason, as part of a sentence; empty where the experiment says the word, or there is no such loss.
    """

    word: Literal["tiles", "whole"]
    why: str = ""


def choose_logits(
    settings: BundledTraining,
    shape: ModelShape | None,
    *,
    micro_batch: int,
    processes: int,
    gpus: int,
    memory_bytes: int | None,
) -> LogitsChoice:
    """Choose how the loss is computed.

    Tiles need little memory, but the backward pass computes them again. On CPUs that takes more than twice the processor
    time of the whole loss (vocabulary 150,000, 2048 tokens: 17.3 s and 8.1 s); on a GPU little, by TRL's own kernel.

    Args:
        settings: The experiment.
        shape: The model's sizes; None if they are not known.
        micro_batch: Rows that a process computes at once.
        processes: On the host.
        gpus: Of the whole training.
        memory_bytes: The host's memory; None if it is not known, as of a cluster's workers.
    """
    asked = settings.train.logits
    if asked != "auto":
        return LogitsChoice(asked)
    if not settings.whole_logits:
        return LogitsChoice("tiles")
    if gpus:
        return LogitsChoice("tiles", "which cost a GPU little time")
    if settings.train.sharding in SHARDED_WORDS:
        return LogitsChoice("tiles", f"because `train.sharding: {settings.train.sharding}` divides the output head")
    if shape is None or memory_bytes is None:
        unknown = "the model's vocabulary" if shape is None else "the memory of the host"
        return LogitsChoice("tiles", f"because {unknown} is not known")
    tokens = micro_batch * settings.sequences * settings.train.max_length
    needed, most = WHOLE_LOGITS_BYTES * tokens * shape.vocabulary * processes, WHOLE_SHARE * memory_bytes
    logits = f"all logits of {tokens:,} tokens × {shape.vocabulary:,} words need {amount(needed)}"
    if needed <= most:
        return LogitsChoice("whole", f"because {logits}, at most {WHOLE_SHARE:.0%} of the memory, and this is faster")
    return LogitsChoice("tiles", f"because {logits}, more than {WHOLE_SHARE:.0%} of the memory")
