"""Kahneman-Tversky optimisation: TRL's KTOTrainer on answers that were liked or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from trl import KTOConfig, KTOTrainer
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference

from armada_train.specification.values import Training
from armada_train.training.attempt import TrainingData
from armada_train.training.objectives.row_weighted import RowWeightedTrainer, load_reference


class KtoTrainer(RowWeightedTrainer, KTOTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """The loss `kto` compares with a KL term: each prompt with the answer of another row.

    In training that row is the one before in the batch, as TRL does it; so rows are drawn in any order, where TRL, which
    chooses it in advance, needs the order of the file. A row that is alone in the last batch of an epoch gets the answer
    of the first row of all: TRL compares it with its own, which makes the term the row's reward. In evaluation it is the
    one before in the order of all rows by their tokens, and the term is the mean over all of them: so the result depends
    on no batch.
    """

    config: ClassVar[Any] = KTOConfig
    weighs: ClassVar[str] = "rows"
    sequences: ClassVar[int] = 1
    eval_curves: ClassVar[tuple[str, ...]] = (
        "kl",
        "rewards/chosen",
        "rewards/rejected",
        "logps/chosen",
        "logps/rejected",
    )
    curves: ClassVar[tuple[str, ...]] = (
        *eval_curves,
        "rewards/margins",
        "logits/chosen",
        "logits/rejected",
        "entropy",
    )

    def __init__(self, **given: Any) -> None:
        self._given_kl: list[torch.Tensor] = []
        self._before: dict[int, int] = {}
        first = first_answers(given["data"])
        super().__init__(data_collator=Mismatched(given["processing_class"], first), **given)
        self.args.train_sampling_strategy = "random"

    @classmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        settings = training.objective.settings
        return {
            "max_length": training.schedule.max_length,
            "beta": settings["beta"],
            "loss_type": settings["loss"],
            "desirable_weight": settings["desirable_weight"],
            "undesirable_weight": settings["undesirable_weight"],
        }

    @classmethod
    def companions(cls, training: Training, load: Callable[[str], Any], path: str) -> dict[str, Any]:
        return load_reference(training, load, path)

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["prompt_ids", "completion_ids", "label"]

    def evaluate_weighted(self) -> tuple[float, int, dict[str, float]]:
        self._kl = self._mean_kl() if self.calculate_KL else 0.0
        return super().evaluate_weighted()

    def _mean_kl(self) -> float:
        """Compute the mean of the KL term over the whole eval set."""
        model = self.accelerator.unwrap_model(self.model)
        model.eval()
        total = torch.zeros(2, dtype=torch.float64, device=self.accelerator.device)
        with torch.no_grad(), self.accelerator.autocast():
            for inputs, counts in self.eval_inputs():
                own = self._compute_kl_logps(model, inputs)
                _, reference = self.compute_ref_log_probs(self.ref_model or self.model, inputs)
                if counts:
                    total[0] += (own - reference).sum()
                    total[1] += len(own)
        kl, rows = self.accelerator.reduce(total, "sum").tolist()
        return float(kl / max(rows, 1))

    def evaluate_batch(self, model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, tuple[Any, Any]]]:
        if self.calculate_KL:
            kl = torch.tensor([self._kl], device=self.accelerator.device, dtype=torch.float32)
            self._given_kl = [kl, torch.zeros_like(kl)]  # the policy's, and the reference's
        return super().evaluate_batch(model, inputs)

    def _compute_kl_logps(self, model: Any, batch: Any) -> Any:
        return self._given_kl.pop(0) if self._given_kl else super()._compute_kl_logps(model, batch)

    def curve_weights(self, inputs: Any) -> Mapping[str, int]:
        chosen = int(inputs["label"].sum())
        rejected = len(inputs["label"]) - chosen
        return {f"{kind}/{side}": count for kind in ("rewards", "logps")
                for side, count in (("chosen", chosen), ("rejected", rejected))}  # fmt: skip

    def eval_row(self, rows: Any, index: int) -> Any:
        """Return a row with the answer of another one."""
        if not self._before:
            order = sorted(range(len(rows)), key=lambda at: (rows[at]["prompt_ids"], rows[at]["completion_ids"]))
            self._before = {at: order[place - 1] for place, at in enumerate(order)}
        return {**rows[index], "KL_completion_ids": rows[self._before[index]]["completion_ids"]}


def first_answers(data: TrainingData) -> list[Any]:
    """Return the answers of the first two rows that are trained on; fewer if there are no more."""
    rows = data.splits.train.dataset if data.splits.train else data.stream
    return [] if rows is None else [rows[at]["completion_ids"] for at in range(min(2, len(rows)))]


class Mismatched:
    """Gives each row the answer of the one before it in the batch, unless it has one, and pads as TRL does.

    Args:
        tokenizer: That of the model.
        others: Answers of which a row gets the first that is not its own, if it is alone in a batch.
    """

    def __init__(self, tokenizer: Any, others: Sequence[Any]) -> None:
        self._tokenizer = tokenizer
        self._others = others

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        tokenizer = self._tokenizer
        padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        answers = [row["completion_ids"] for row in rows]
        before = [answers[at - 1] for at in range(len(rows))] if len(rows) > 1 else [self._other(*answers)]
        made = [
            {"KL_completion_ids": other, **row, "label": bool(row["label"][0])}
            for row, other in zip(rows, before, strict=True)
        ]
        return DataCollatorForUnpairedPreference(pad_token_id=padding)(made)

    def _other(self, own: Any) -> Any:
        return next((other for other in self._others if other != own), own)


TRAINER = KtoTrainer
