"""What a model will see of rows, in tokens: the part that is trained on is the part that the training trains on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import chat, make_training, write_jsonl

pytestmark = pytest.mark.payload

_PROGRAM = """
import io, sys
from armada_train import show
sys.stdin = io.StringIO(sys.argv[1])
sys.exit(show.main())
"""


def ask(python: Interpreter, training: dict[str, Any], *parts: dict[str, Any]) -> dict[str, Any]:
    request = {"training": training, "parts": parts, "examples": 1, "most": 50}
    ended = python.finish("-c", _PROGRAM, json.dumps(request))
    assert ended.code == 0, ended.output
    answer: dict[str, Any] = json.loads(next(line for line in ended.output.splitlines() if line[:3] == "@@ ")[3:])
    return answer


def test_rows_are_shown_as_they_are_trained_on(payload_python: Interpreter, tmp_path: Path) -> None:
    rows = [chat("What is 1 plus one?", "It is 2."), chat("And two?", "Three.")]
    file = write_jsonl(tmp_path / "rows.jsonl", rows)
    answer = ask(
        payload_python,
        make_training(file, file),
        {"name": "train", "kind": "messages", "rows": rows},
        {"name": "eval", "kind": None, "rows": None},  # which only the host can read
    )
    assert answer["problem"] is None
    train, evaluation = answer["parts"]
    assert {**train, "name": "eval"} == evaluation
    assert [(piece["text"], piece["trained"]) for piece in train["examples"][0]] == [
        ("<|im_start|>user\nWhat is 1 plus one?<|im_end|>\n<|im_start|>assistant\n", False),
        ("It is 2.<|im_end|>", True),
        ("\n", False),
    ]
    assert train["lengths"][0] == sum(piece["tokens"] for piece in train["examples"][0])
    assert train["trained"][0] == train["examples"][0][1]["tokens"]


def test_pairs_are_shown_by_column_and_a_model_that_is_not_there_is_a_problem(
    payload_python: Interpreter, tmp_path: Path
) -> None:
    pair = {"prompt": "Far? ", "chosen": "No.", "rejected": "Yes."}
    training = make_training(write_jsonl(tmp_path / "rows.jsonl", [pair]), objective={"name": "dpo"})
    part = {"name": "train", "kind": "preference", "rows": [pair]}
    (train,) = ask(payload_python, training, part)["parts"]
    assert [(piece["of"], piece["text"], piece["trained"]) for piece in train["examples"][0]] == [
        ("prompt", "Far? ", False), ("chosen", "No.<|im_end|>", True), ("rejected", "Yes.<|im_end|>", True)
    ]  # fmt: skip
    training["model"] = {"path": str(tmp_path / "nothing")}
    assert "cannot be loaded" in ask(payload_python, training, part)["problem"]
