"""Answer prompts of the evaluation sets, and have the user's function measure the answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from armada_train.data.places import Place
from armada_train.data.rows import Files
from armada_train.failure import PayloadFailure
from armada_train.reporting.samples import Prompt, generate, split_row
from armada_train.runfolder import RunFolder
from armada_train.specification.values import Training
from armada_train.training.agreement import Agreement
from armada_train.training.scorer import Scorer


@dataclass(frozen=True, slots=True)
class _Question:
    """One prompt: its set, its place in the data, the row as the file has it, and what is asked."""

    set: str
    place: str
    content: Any
    prompt: Prompt


class Scoring:
    """The same prompts at each evaluation, whatever the number of ranks.

    Each prompt is answered alone, with random numbers that depend on the seed and the prompt. So answers depend neither
    on a batch nor on the ranks, and the training's own random numbers go on as if nothing had been generated.

    Args:
        training: The whole specification.
        scorer: The user's function.
        files: The evaluation rows.
    """

    def __init__(self, training: Training, scorer: Scorer, files: Files) -> None:
        self.name = str(training.evaluation.function)
        self._asked = training.evaluation
        self._seed = training.schedule.seed
        self._together = training.needs_all_ranks
        self._ranks = training.batch.processes
        self._scorer = scorer
        self._questions = [
            question
            for name in dict.fromkeys(source.set for source in files.sources)
            for question in _draw(files, name, self._asked.prompts, self._seed)
        ]

    def answer(self, model: Any, tokenizer: Any, turns: Iterator[None]) -> dict[int, str]:
        """Answer this rank's share of the prompts; all of them if no rank has the whole model.

        Args:
            model: In evaluation mode.
            tokenizer: The model's.
            turns: Advanced before each prompt, equally often on every rank; it ends when the run is to end.

        Returns:
            The answers by the prompt's number.
        """
        ranks = 1 if self._together else self._ranks
        rank = 0 if self._together or ranks == 1 else torch.distributed.get_rank()
        found: dict[int, str] = {}
        for start, _ in zip(range(0, len(self._questions), ranks), turns, strict=False):
            number = start + rank
            if number >= len(self._questions):
                continue
            prompt, _, tools = self._questions[number].prompt
            with _own_chance(model.device, self._seed * 1_000_003 + number):
                found[number] = generate(
                    model, tokenizer, prompt, tools, self._asked.sample_tokens, self._asked.temperature
                )
        return found

    def judge(
        self, answers: dict[int, str], run: RunFolder, agreement: Agreement, step: int
    ) -> tuple[dict[str, float], str | None]:
        """Have rank 0 call the function with all answers; every rank gets the metrics, and what went wrong."""
        by_number: dict[int, str] = {}
        for part in agreement.gather(answers):
            by_number |= part
        told: tuple[dict[str, float], str | None] = {}, None
        if run.is_main:
            try:
                told = self._measure([by_number[number] for number in range(len(self._questions))], step), None
            except PayloadFailure as failure:
                told = {}, failure.message
        metrics, trouble = agreement.gather(told)[0]
        return metrics, trouble

    def _measure(self, answers: list[str], step: int) -> dict[str, float]:
        sums: dict[str, tuple[float, int]] = {}
        metrics: dict[str, float] = {}
        for name in dict.fromkeys(question.set for question in self._questions):
            both = [(q, answer) for q, answer in zip(self._questions, answers, strict=True) if q.set == name]
            given = {
                "prompts": [question.prompt[0] for question, _ in both],
                "completions": [answer for _, answer in both],
                "rows": [question.content for question, _ in both],
                "expected": [question.prompt[1] for question, _ in both],
                "step": step,
                "eval_set": name,
            }
            with _unchanged_chance():
                measured = self._scorer.measure(given, [question.place for question, _ in both])
            for metric, value in measured.items():
                total, count = sums.get(metric, (0.0, 0))
                sums[metric] = total + value * len(both), count + len(both)
                if name:
                    metrics[f"eval_{name}_{metric}"] = value
        return {**{f"eval_{metric}": total / count for metric, (total, count) in sums.items()}, **metrics}


def _draw(files: Files, name: str, count: int, seed: int) -> list[_Question]:
    """Draw rows of a set, in the order of the data: each with the same chance, and few in memory."""
    chance = random.Random(f"{seed}-{name}")  # noqa: S311 - a draw, not a secret
    kept: list[tuple[int, _Question]] = []
    for number, (where, row, content) in enumerate(files.placed(name)):
        at = number if number < count else chance.randrange(number + 1)
        if at >= count:
            continue
        place = str(
            Place(type(where.path)(where.path.name), where.number, where.unit) if isinstance(where, Place) else where
        )
        question = number, _Question(name, place, content, split_row(files.kind, row))
        kept[at : at + 1] = [question]
    return [question for _, question in sorted(kept, key=lambda each: each[0])]


@contextmanager
def _own_chance(device: torch.device, seed: int) -> Iterator[None]:
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _unchanged_chance() -> Iterator[None]:
    """Restore every source of random numbers of this process, whatever is drawn or seeded meanwhile."""
    python, numbers = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
