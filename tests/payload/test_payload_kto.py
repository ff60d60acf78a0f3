"""With whose answer the loss `kto` compares a row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, write_jsonl
from tests.payload.test_payload_tasks import judged, make_task

pytestmark = pytest.mark.payload

TOLD = """
import json
from types import SimpleNamespace
from armada_train.training.objectives.kto import Mismatched, first_answers

def row(answer):
    return {"prompt_ids": [5, 6], "completion_ids": [answer], "label": [1]}

def compared(rows, others):
    batch = Mismatched(SimpleNamespace(eos_token_id=2, pad_token_id=0), others)(rows)
    return batch["KL_input_ids"][:, -1].tolist()

rows = [row(7), row(8), row(9)]
files = SimpleNamespace(splits=SimpleNamespace(train=SimpleNamespace(dataset=rows)), stream=None)
hook = SimpleNamespace(splits=SimpleNamespace(train=None), stream=rows[:1])
print(json.dumps({
    "together": compared(rows, [[3]]), "alone": compared(rows[:1], [[3], [4]]), "itself first": compared(rows[:1], [[7], [4]]),
    "no other": compared(rows[:1], [[7]]), "of files": first_answers(files), "of a hook": first_answers(hook),
}))
"""


def test_a_row_that_is_alone_in_a_batch_is_compared_with_another_answer(payload_python: Interpreter) -> None:
    assert payload_python.told(TOLD) == {
        "together": [9, 7, 8],
        "alone": [3],
        "itself first": [4],
        "no other": [7],
        "of files": [[7], [8]],
        "of a hook": [[7]],
    }


def test_an_epoch_that_ends_with_one_row_is_trained(tmp_path: Any, make_run: Any) -> None:
    training = make_task("kto", tmp_path, train={"max_steps": 4, "eval_every_steps": None})
    write_jsonl(tmp_path / "kto.jsonl", judged(13))
    run: PayloadRun = make_run(training)
    run.train()
    alone = next(line for line in run.lines("train") if line["step"] == 4)
    assert alone["epoch"] == 1
