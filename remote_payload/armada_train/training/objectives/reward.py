"""A reward model: TRL's RewardTrainer on pairs. The model gets a head that gives a text one number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trl import RewardConfig, RewardTrainer
from trl.trainer.reward_trainer import DataCollatorForPreference

from armada_train.specification.values import Training
from armada_train.training.objectives.row_weighted import RowWeightedTrainer


class RewardModelTrainer(RowWeightedTrainer, RewardTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """Each text is a prompt with one of its completions."""

    config: ClassVar[Any] = RewardConfig
    eval_curves: ClassVar[tuple[str, ...]] = ("accuracy", "margin", "mean_reward")
    curves: ClassVar[tuple[str, ...]] = (*eval_curves, "min_reward", "max_reward")

    def __init__(self, **given: Any) -> None:
        super().__init__(data_collator=_Joined(given["processing_class"]), **given)

    @classmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        return {
            "max_length": training.schedule.max_length,
            "center_rewards_coefficient": training.objective.settings["center"],
        }

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["prompt_ids", "chosen_ids", "rejected_ids"]


class _Joined:
    """Joins the prompt of each row with its completions, and pads as TRL does."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        tokenizer = self._tokenizer
        padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        joined = [{name: [*row["prompt_ids"], *row[name]] for name in ("chosen_ids", "rejected_ids")} for row in rows]
        return DataCollatorForPreference(pad_token_id=padding)(joined)


TRAINER = RewardModelTrainer
