"""The teacher of a distillation: compared with the student before any model is loaded, then loaded once, frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from armada_train.data.tokens import load_tokenizer, named_when_missing
from armada_train.model.loading import model_path, write_tiny_model
from armada_train.runfolder import RunFolder
from armada_train.specification.section import bad_spec
from armada_train.specification.values import TinyModel, Training


def teacher_path(training: Training, run: RunFolder) -> str:
    """Return the teacher's folder or hub id."""
    teacher = training.objective.settings["teacher"]
    return str(run.path / "teacher") if "tiny" in teacher else str(teacher["path"])


def prepare_teacher(training: Training, run: RunFolder, tokenizer: Any) -> None:
    """Make a tiny teacher where one is asked for, and check that the teacher's tokens are the student's.

    Only configurations and tokenizers are read.

    Raises:
        PayloadFailure: `bad_spec`: they are not; `env_error`: the teacher does not exist, or cannot be fetched.
    """
    teacher = training.objective.settings.get("teacher")
    if teacher is None:
        return
    path = teacher_path(training, run)
    if "tiny" in teacher and not Path(path).exists():
        sizes = {**teacher["tiny"], "vocab_size": _words(model_path(training, run))}
        write_tiny_model(TinyModel(**sizes), training, tokenizer, Path(path), seed=training.schedule.seed + 1)
    own, other = tokenizer.get_vocab(), load_tokenizer(path).get_vocab()
    if own != other:
        raise bad_spec(
            f"`training.distill.teacher` {path} {_difference(own, other)}; take a teacher of the same family"
        )
    words, taught = _words(model_path(training, run)), _words(path)
    if taught < words:
        raise bad_spec(
            f"`training.distill.teacher` {path} has {taught} words, and the student {words}: "
            "it has no probability for the others"
        )


def load_teacher(training: Training, path: str, words: int) -> Any:
    """Load the teacher in the precision of the training.

    Models of a family share a tokenizer, and the larger ones have more rows behind its last token, which nothing uses:
    Qwen2.5 has 151,936 words at 0.5B and 152,064 at 7B. These rows are cut off.

    Args:
        training: The specification.
        path: A folder, or a hub id.
        words: Of the student's vocabulary; the teacher has at least as many.

    Raises:
        PayloadFailure: `env_error`: it does not exist, or cannot be fetched.
    """
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(training.precision, torch.float32)
    with named_when_missing(path):
        teacher = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, device_map=None)
    if teacher.config.get_text_config().vocab_size > words:
        teacher.resize_token_embeddings(words)
    return teacher.eval().requires_grad_(requires_grad=False)


def _words(path: str) -> int:
    with named_when_missing(path):
        return int(AutoConfig.from_pretrained(path).get_text_config().vocab_size)


def _difference(own: dict[str, int], other: dict[str, int]) -> str:
    """Say how the teacher's tokens differ from the student's."""
    token = min((name for name in own if own[name] != other.get(name)), key=own.__getitem__, default=None)
    if token is None:
        extra = min(set(other) - set(own), key=other.__getitem__)
        return f"has the token {extra!r} ({other[extra]}), which the student does not know"
    known = f"is {other[token]} there" if token in other else "is unknown there"
    return f"has other tokens than the student: {token!r}, the student's token {own[token]}, {known}"
