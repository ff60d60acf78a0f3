"""A reward model as a judge of completions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from armada_train.data.places import show
from armada_train.failure import GENERIC, PayloadFailure
from armada_train.training.judges import PLACES, name_row


class ModelJudge:
    """A reward model: its one number for a prompt with a completion."""

    def __init__(self, name: str, model: Any, tokenizer: Any, at_once: int) -> None:
        self.__name__ = name
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._at_once = at_once
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id

    def check(self, _columns: Sequence[str]) -> None:
        """Refuse nothing: it reads no column."""

    def to(self, device: Any) -> None:
        """Move it to the device of the training."""
        self._model.to(device)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        texts = [self._join(prompt, said) for prompt, said in zip(prompts, completions, strict=True)]
        scores: list[float | None] = []
        for start in range(0, len(texts), self._at_once):
            inputs = self._tokenizer(
                text=texts[start : start + self._at_once],
                return_tensors="pt",
                padding=True,
                padding_side="right",
                add_special_tokens=False,
            ).to(self._model.device)
            with torch.inference_mode():
                scores += self._model(**inputs).logits[:, 0].float().tolist()
        for at, score in enumerate(scores):
            if score is None or not math.isfinite(score):
                raise PayloadFailure(
                    GENERIC,
                    f"reward model {self.__name__} returned {show(score)} for {name_row(given[PLACES], prompts, at)}",
                )
        return scores

    def _join(self, prompt: Any, completion: Any) -> str:
        if isinstance(prompt, str):
            return f"{prompt}{completion}"
        return str(self._tokenizer.apply_chat_template([*prompt, *completion], tokenize=False))
