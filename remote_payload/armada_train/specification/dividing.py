"""Refuse what does not go with a model that is divided among the processes, or with checkpoints in the background."""

from __future__ import annotations

from armada_train.failure import PayloadFailure
from armada_train.specification.objectives import FSDP, Objective
from armada_train.specification.section import bad_spec
from armada_train.specification.values import ZERO, Training

SHARDINGS = ("none", *FSDP, *ZERO)
_WHOLE = ("none", "zero2")
"""The words with which every process keeps the whole model."""

_WITH_WHOLE_LOGITS = ("sft", "pretrain", "dpo", "kto")
"""The tasks whose loss may be computed of all logits at once."""


def check_sharding(training: Training) -> None:
    """Refuse what does not go with a model that no process has whole.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    word, objective = training.schedule.sharding, training.objective
    if word in ZERO and training.deepspeed is None:
        raise bad_spec(f"`training.train.sharding` {word} needs `training.deepspeed`, the file that DeepSpeed reads")
    if word in FSDP and training.deepspeed is not None:
        raise bad_spec(f"`training.train.sharding` {word} does not go with `training.deepspeed`: one divides the model")
    if (word in FSDP or word in ZERO) and training.schedule.optimizer.name != "adamw":
        raise bad_spec(f"`training.train.optimizer`: `train.sharding: {word}` is tried with adamw alone")
    if training.schedule.logits == "whole" and objective.name not in _WITH_WHOLE_LOGITS:
        raise bad_spec(f"`training.train.logits` whole does not go with `task: {objective.name}`")
    if word in _WHOLE:
        return
    if training.schedule.logits == "whole":
        raise bad_spec(
            f"`training.train.logits` whole does not go with `train.sharding: {word}`, which divides the head"
        )
    if word not in objective.shards:
        raise _indivisible(word, objective)
    if objective.settings.get("precompute_reference"):
        raise bad_spec(
            f"`training.{objective.name}.precompute_reference` does not go with `train.sharding: {word}`, which divides the "
            "reference, too: leave it out"
        )
    if training.lora is not None and training.lora.quantize != "none":
        raise bad_spec(
            f"`training.train.sharding` {word} does not go with `lora.quantize`: a base in 4 bits is not divided"
        )
    if word in FSDP and training.lora is not None and training.lora.modules_to_save:
        raise bad_spec(
            f"`training.lora.modules_to_save` does not go with `train.sharding: {word}`, which would not add up their gradients"
        )
    if training.start_from is not None and training.start_from.moments:
        raise bad_spec(
            f"`training.start_from.optimizer` does not go with `train.sharding: {word}`, which divides the moments otherwise"
        )


def _indivisible(word: str, objective: Objective) -> PayloadFailure:
    """Say why a task's model is not divided by this word."""
    key, task = f"`training.train.sharding` {word}", f"`task: {objective.name}`"
    if objective.shards:
        return bad_spec(f"{key} does not go with {task}, which {' and '.join(objective.shards)} alone divide")
    if objective.settings.get("lmbda"):
        return bad_spec(
            f"{key} does not go with `distill.lmbda`, whose answers each process samples from a whole model"
        )
    return bad_spec(f"{key} does not go with {task}, which samples from the whole model")


def check_background(training: Training) -> None:
    """Refuse to write in the background what is not copied exactly.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if not training.saves_in_background:
        return
    key, word = "`training.checkpoint.in_background`", training.schedule.sharding
    if word in ZERO or training.deepspeed is not None:
        by = f"`train.sharding: {word}`" if word in ZERO else "`training.deepspeed`"
        raise bad_spec(f"{key} does not go with {by}: DeepSpeed writes its checkpoints itself")
    if training.schedule.optimizer.kind.package is not None:
        raise bad_spec(f"{key} does not go with `train.optimizer: {training.schedule.optimizer.name}`: use adamw")
