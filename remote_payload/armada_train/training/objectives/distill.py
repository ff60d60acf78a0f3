"""Distillation: TRL's DistillationTrainer on answers of the data, of the student itself, or of both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from transformers import Trainer as BaseTrainer
from trl import DistillationConfig, DistillationTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from armada_train.data.encodings import IGNORED
from armada_train.data.workers import InWorker
from armada_train.model.teacher import load_teacher, teacher_path
from armada_train.specification.values import Training
from armada_train.training.gauges import flops_per_token
from armada_train.training.trainer import Trainer


class DistillTrainer(Trainer, DistillationTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """The loss is a mean over tokens of the divergence between student and teacher (Agarwal et al. 2024, arXiv 2306.13649).

    TRL's trainer samples every completion, and takes prompts as rows. This one takes tokenised rows with labels, as for
    supervised fine-tuning, and replaces the answers of a share `lmbda` of the micro batches by the student's own, as
    TRL's GKDTrainer does. Evaluation uses the data's answers alone.
    """

    config: ClassVar[Any] = DistillationConfig
    eval_curves: ClassVar[tuple[str, ...]] = ("entropy",)
    curves: ClassVar[tuple[str, ...]] = (
        *eval_curves,
        *("completions/share", "completions/mean_length", "completions/clipped_ratio"),
    )
    _generate_single_turn: Callable[..., list[list[int]]]

    def __init__(self, **given: Any) -> None:
        training: Training = given["training"]
        settings = training.objective.settings
        self._lmbda: float = settings["lmbda"]
        self._seed, self._max_length = training.schedule.seed, training.schedule.max_length
        model, teacher = given["model"], training.objective.settings["teacher"]
        path = teacher_path(training, given["attempt"].run) if teacher else ""
        words = model.config.get_text_config().vocab_size
        super().__init__(teacher_model=load_teacher(training, path, words), **given)
        self._collate = DataCollatorForLanguageModeling(pad_token_id=self.processing_class.pad_token_id)
        self.data_collator = InWorker(self._collate)
        self._flops_per_token += flops_per_token(self.teacher_model) // 2  # frozen: 4, of which 2 are its forward pass

    @classmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        settings = training.objective.settings
        return {key: settings[key] for key in ("beta", "temperature", "max_completion_length")}

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["input_ids", "labels"]

    # TRL's loader and sampler hand out the prompts of a whole step at once.
    def get_train_dataloader(self) -> Any:
        return BaseTrainer.get_train_dataloader(self)

    def _get_train_sampler(self, *rest: Any) -> Any:
        if self._schedule.group_by_length:
            return super()._get_train_sampler(*rest)
        return BaseTrainer._get_train_sampler(self, *rest)  # noqa: SLF001  # TRL's would deal out whole steps

    def _prepare_inputs(self, inputs: Any) -> Any:
        return BaseTrainer._prepare_inputs(self, inputs)  # noqa: SLF001  # TRL's would sample

    # --- the student's own answers ---------------------------------------------------------------------------------

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Take the batches of a step, sample what the student answers itself, and count the tokens of the loss.

        Whether a micro batch is sampled depends on seed, step and its number alone: so a resume repeats it, and all
        ranks sample at the same time.
        """
        batches, _ = super().get_batch_samples(*args, **kwargs)
        told = torch.zeros(4, dtype=torch.float64, device=self.accelerator.device)
        for at, batch in enumerate(batches):
            if self._chance(at).random() < self._lmbda:
                batches[at], rows, tokens, clipped = self._answer(batch, at)
                told[1:] += torch.tensor([rows, tokens, clipped], dtype=torch.float64, device=told.device)
        told[0] = sum(_trained(batch).sum() for batch in batches)
        items, rows, tokens, clipped = self.accelerator.reduce(told, "sum")
        if self._lmbda:
            curves = self._metrics["train"]
            curves["completions/share"].append(float(tokens / items.clamp(min=1)))
            if rows:
                curves["completions/mean_length"].append(float(tokens / rows))
                curves["completions/clipped_ratio"].append(float(clipped / rows))
        return batches, items.float()

    def _answer(self, batch: Mapping[str, Any], at: int) -> tuple[Any, int, int, int]:
        """Replace the last answer of each row by the student's; return also how many, their tokens, and those cut off."""
        self._heartbeat.beat("training", self.state.global_step)
        rows = [_unpad(batch, index) for index in range(len(batch["input_ids"]))]
        asked = [ids[: _last_answer(labels)] for ids, labels in rows]
        has_prompt = [bool(prompt) for prompt in asked]
        if not any(has_prompt):
            return batch, 0, 0, 0
        with self._sampling(at):
            said = iter(self._generate_single_turn([prompt for prompt in asked if prompt], None, {}))
        made, lengths, clipped = [], [], 0
        for prompt, (ids, labels) in zip(asked, rows, strict=True):
            if not prompt:
                made.append({"input_ids": ids, "labels": labels})
                continue
            answer = next(said)[: self._max_length - len(prompt)]
            clipped += answer[-1] not in self.eos_token_ids
            lengths.append(len(answer))
            made.append({"input_ids": [*prompt, *answer], "labels": [*[IGNORED] * len(prompt), *answer]})
        collated = self._collate(made)
        return self._prepare_inputs(collated), len(lengths), sum(lengths), clipped

    def _chance(self, at: int, *more: int) -> random.Random:
        """Return random numbers that depend on the seed, the step, and the micro batch's number."""
        return random.Random(" ".join(map(str, (self._seed, self.state.global_step, at, *more))))  # noqa: S311  # no secret

    @contextmanager
    def _sampling(self, at: int) -> Iterator[None]:
        """Sample without dropout, with random numbers of the step's own: the training's continue as if nothing was sampled."""
        device = self.accelerator.device
        was_training = self.model.training
        self.model.eval()
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(self._chance(at, self._run.rank).getrandbits(63))
            yield
        self.model.train(was_training)

    # --- the loss --------------------------------------------------------------------------------------------------

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if (items := kwargs.get("num_items_in_batch")) is not None:
            inputs = {**inputs, "num_items_in_batch": items}  # of all ranks; otherwise TRL takes it for this rank's
        return super().compute_loss(model, inputs, *args, **kwargs)

    def _compute_loss(self, unwrapped_student: Any, inputs: Any, num_items_in_batch: Any) -> Any:
        return super()._compute_loss(unwrapped_student, _as_completions(inputs), num_items_in_batch)

    def evaluate_batch(self, model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, tuple[Any, Any]]]:
        # By the model's own forward pass, which gathers what is divided.
        told = self._forward_redirection(model, model, self._compute_loss, model, inputs, 1)
        loss, entropy, tokens = told
        return loss, tokens, {"entropy": (entropy, tokens)}


def _as_completions(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch as TRL's loss takes it: the first token is the prompt, and a mask says which others count."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    return {
        "prompt_ids": ids[:, :1],
        "prompt_mask": mask[:, :1],
        "completion_ids": ids[:, 1:],
        "completion_mask": mask[:, 1:],
        "tool_mask": _trained(batch).to(mask.dtype),
    }


def _trained(batch: Mapping[str, Any]) -> Any:
    """Return which tokens count for the loss, without the first one, which nothing predicts."""
    return batch["labels"][:, 1:] != IGNORED


def _unpad(batch: Mapping[str, Any], index: int) -> tuple[list[int], list[int]]:
    """Return the tokens and labels of a row."""
    mask = batch["attention_mask"][index].bool()
    return batch["input_ids"][index][mask].tolist(), batch["labels"][index][mask].tolist()


def _last_answer(labels: Sequence[int]) -> int:
    """Return where the last run of tokens begins that count for the loss; 0 if there is none."""
    end = next((at for at in range(len(labels), 0, -1) if labels[at - 1] != IGNORED), 0)
    return next((at for at in range(end, 0, -1) if labels[at - 1] == IGNORED), 0)


TRAINER = DistillTrainer
