"""What an evaluation function may take and return, and how what is wrong with it names the row. Without torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import PayloadFailure
from armada_train.training.judges import Judge
from armada_train.training.scorer import Scorer

PLACES = ["eval.jsonl:3", "eval.jsonl:8"]
GIVEN: dict[str, Any] = {
    "prompts": ["one?", [{"role": "user", "content": "two?"}]],
    "completions": ["1", "2"],
    "rows": [{"prompt": "one?", "answer": "1"}, {"prompt": "two?", "answer": "3"}],
    "expected": ["1", "3"],
    "step": 10,
    "eval_set": "",
}


def scorer(function: Callable[..., Any], tmp_path: Path, limit_s: float = 60) -> Scorer:
    made = Scorer("exact", "m:exact", function, limit_s, tmp_path, optional=False)
    made.check()
    return made


def exact(completions: list[str], rows: list[dict[str, str]]) -> list[bool]:
    return [said == row["answer"] for said, row in zip(completions, rows, strict=True)]


@pytest.mark.parametrize(
    ("function", "measured"),
    [
        (exact, {"exact": 0.5}),
        (lambda **given: len(given["prompts"]) + given["step"], {"exact": 12.0}),
        (lambda completions, expected: {"hits": [1, 0], "share/of-all": 0.25}, {"hits": 0.5, "share/of-all": 0.25}),
    ],
    ids=["a number for each", "one number", "by name"],
)
def test_numbers_for_each_and_numbers_by_name_become_metrics(
    tmp_path: Path, function: Callable[..., Any], measured: dict[str, float]
) -> None:
    assert scorer(function, tmp_path).measure(GIVEN, PLACES) == measured


def loops(**_: Any) -> None:
    while True:
        pass


def raises_for_two(completions: list[str], **_: Any) -> list[int]:
    return [{"1": 1}[text] for text in completions]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda **_: [1.0, math.nan], 'm:exact returned NaN for the prompt of eval.jsonl:8 ("two?")'),
        (lambda **_: {"hits": ["x", 1]}, 'returned "x" for the prompt of eval.jsonl:3 ("one?")'),
        (
            lambda **_: [1.0],
            "returned 1 numbers for 2 completions, of which the first is for the prompt of eval.jsonl:3",
        ),
        (lambda **_: None, "returned null for 2 completions, of which the first is for the prompt of eval.jsonl:3"),
        (lambda **_: {"hits": math.inf}, "returned Infinity as hits for 2 completions"),
        (lambda **_: {}, "an empty mapping"),
        (lambda **_: {"hit rate": 1}, 'a metric named "hit rate"'),
        (raises_for_two, "raised KeyError: '2'; for the prompt of eval.jsonl:8"),
        (loops, "took more than 0.2 s (`evaluation.timeout`) for the prompt of eval.jsonl:3"),
    ],
)
def test_what_is_no_number_or_no_answer_is_named_with_its_row(
    tmp_path: Path, function: Callable[..., Any], said: str
) -> None:
    limit_s = 0.2 if function is loops else 60
    with pytest.raises(PayloadFailure) as caught:
        scorer(function, tmp_path, limit_s).measure(GIVEN, PLACES)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (0.5, "returned 0.5 for 2 completions, of which the first is for the prompt of eval.jsonl:3"),
        ({"a": 1}, ": not a list of numbers, one for each completion"),
        ([1.0], "returned 1 numbers for 2 completions, of which the first is for the prompt of eval.jsonl:3"),
        ([1.0, None], 'returned null for the prompt of eval.jsonl:8 ("two?")'),
    ],
)
def test_a_reward_function_is_told_the_same_of_what_is_no_list_of_numbers(
    tmp_path: Path, said: object, words: str
) -> None:
    judge = Judge("exact", "m:exact", lambda **_: said, 60, tmp_path, optional=False)
    with pytest.raises(PayloadFailure) as caught:
        judge(**GIVEN, armada_row=PLACES)
    assert words in caught.value.message


def test_a_function_that_needs_what_it_is_not_given_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(PayloadFailure, match="evaluation function m:exact needs `answers`; it is given prompts, "):
        scorer(lambda prompts, answers: 1, tmp_path)
