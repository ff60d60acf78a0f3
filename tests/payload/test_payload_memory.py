"""What a training says when memory runs out: what needed it, and what needs less."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter, wait_for_end
from tests.payload.payload_run import make_training, write_jsonl

pytestmark = pytest.mark.payload

ENOUGH = 3 << 30

TOLD = """
import json, torch
from armada_train.failure import PayloadFailure
from armada_train.specification.values import Batch
from armada_train.training.memory import named_in_evaluation, out_of_memory

error, told = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"), []
for micro, smallest in ((2, 1), (1, 1), (2, 2), (4, 2)):
    told.append(out_of_memory(Batch(8, micro, 8 // micro, 1), error, trains_on_gpu=True, smallest=smallest))
for rows, raised in ((8, error), (1, error), (None, error), (8, MemoryError("no room")), (8, RuntimeError("a bug"))):
    try:
        with named_in_evaluation(4, rows, trains_on_gpu=True):
            raise raised
    except (PayloadFailure, RuntimeError) as failure:
        told.append(failure)
print(json.dumps({"told": [[getattr(each, "reason", None), str(each)] for each in told]}))
"""


def test_each_need_has_its_own_advice(payload_python: Interpreter) -> None:
    first = "CUDA out of memory. Tried to allocate 20 GiB"
    less = "a shorter max_length, activation checkpointing, or a smaller model"
    after = "out of memory in the evaluation after step 4, which"
    assert payload_python.told(TOLD)["told"] == [
        ["oom", "out of memory at micro batch 2; train.micro_batch_size: 1 with accumulation 8 keeps the global batch of 8. " + first],
        ["oom", f"out of memory at micro batch 1; one sample at a time does not fit: {less}. {first}"],
        ["oom", f"out of memory at micro batch 2; no smaller one keeps the task: {less}. {first}"],
        ["oom", "out of memory at micro batch 4; train.micro_batch_size: 2 with accumulation 4 keeps the global batch of 8. " + first],
        ["oom", f"{after} takes 8 rows at once; train.eval_batch_size: 4 gives the same result in less. {first}"],
        ["oom", f"{after} takes one row at a time; a shorter max_length, or a smaller model, needs less. {first}"],
        ["oom", f"{after} writes answers; a smaller evaluation.sample_tokens, or a smaller model, needs less. {first}"],
        ["host_oom", "the machine's memory ran out, not a GPU's: no room; request more (`resources.memory`), or use a host with more"],
        [None, "a bug"],
    ]  # fmt: skip


def test_an_evaluation_that_does_not_fit_names_its_own_batch(tmp_path: Path, make_run: Any) -> None:
    # Eager attention over 8 × 2 heads × 8000² scores wants 4 GB at once; a row of the training has 40 tokens.
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": "a b c d " * 5}] * 8)
    held_out = write_jsonl(tmp_path / "eval.jsonl", [{"text": "a b c d " * 4000}] * 8)
    train = {"max_length": 8000, "long_samples": "truncate", "max_steps": 1}
    batch = {"global": 8, "micro": 1, "accumulation": 8, "processes": 1}
    run = make_run(make_training(rows, held_out, train=train, batch=batch, attention="eager"))
    process = run.start()
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (ENOUGH, ENOUGH))  # as a container would limit what it may use
    ended = wait_for_end(process)
    assert ended.code == 1, ended.output
    assert run.failure["reason"] == "host_oom"
    assert run.failure["message"].startswith(
        "out of memory in the evaluation after step 0, which takes 8 rows at once; train.eval_batch_size: 4 gives the same "
        "result in less. "
    )
