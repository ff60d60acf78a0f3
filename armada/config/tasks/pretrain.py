"""`task: pretrain`: continued pre-training on plain text."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from armada.config.settings import problem
from armada.config.tasks.bundled import BundledTraining
from armada.config.training import SHARDED_WORDS


class Pretrain(BundledTraining):
    """Train a model on documents: rows of `text`, which follow each other in rows of exactly `train.max_length`."""

    packs: ClassVar[bool] = True
    splits: ClassVar[bool] = True
    shards: ClassVar[tuple[str, ...]] = SHARDED_WORDS
    whole_logits: ClassVar[bool] = True

    task: Literal["pretrain"]
    """What the run does."""

    def train_section(self) -> dict[str, object]:
        """Training rows are always packed; documents of the evaluation are cut into rows, so that every token counts."""
        return {"packing": True, "long_samples": "split"}

    @model_validator(mode="after")
    def _rows_are_full(self) -> Self:
        if self.train.group_by_length:
            raise problem("`task: pretrain` fills every row, so there is nothing to group", key="train.group_by_length")
        if self.train.long_samples == "truncate":
            raise problem(
                "`task: pretrain` cuts long documents into several rows, and loses nothing",
                key="train.long_samples",
                hint="leave it out",
            )
        return self
