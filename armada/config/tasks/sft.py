"""`task: sft`: supervised fine-tuning on chats, prompts with completions, or text."""

from __future__ import annotations

from typing import ClassVar, Literal

from armada.config.tasks.bundled import BundledTraining
from armada.config.training import SHARDED_WORDS


class Sft(BundledTraining):
    """Train a model to answer as the data does."""

    makes_rows: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    splits: ClassVar[bool] = True
    shards: ClassVar[tuple[str, ...]] = SHARDED_WORDS
    whole_logits: ClassVar[bool] = True

    task: Literal["sft"]
    """What the run does."""
