"""All logits at once have the losses and gradients of TRL's tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.test_payload_tasks import make_task

pytestmark = pytest.mark.payload

COMPARED = """
import torch
from trl.trainer import utils
from armada_train.training.output_head import use_whole_logits
tiles = utils._ChunkedLogProbFunction
use_whole_logits()
use_whole_logits()
whole = utils._ChunkedLogProbFunction
assert whole._tiles is tiles, "wrapped twice"
torch.manual_seed(1)
worst = 0.0
names = ("log_probs", "entropy", "mean_logits", "is_top1")
for bias, temperature, cap, scale in ((False, 1.0, None, 1.0), (True, 0.7, 5.0, 1.5), (False, 1.0, 30.0, 0.5)):
    found = []
    for function in (tiles, whole):
        torch.manual_seed(2)
        hidden, weight = torch.randn(70, 16, requires_grad=True), torch.randn(90, 16, requires_grad=True)
        given = torch.randn(90, requires_grad=True) if bias else None
        targets = torch.randint(0, 90, (70,))
        values = function.apply(hidden, weight, given, targets, temperature, 32, cap, scale, names)
        (values[0] * torch.arange(70.0)).sum().backward()
        grads = [each.grad for each in (hidden, weight, given) if each is not None]
        found.append([*(each.float() for each in values if each is not None), *grads])
    assert len(found[0]) == len(found[1])
    worst = max(worst, *(float(((a - b).abs() / (1 + a.abs())).max()) for a, b in zip(*found)))
with torch.no_grad():
    calls = []
    whole._tiles = type("Tiles", (), {"apply": staticmethod(lambda *given: calls.append(len(given)))})
    whole.apply(hidden, weight, None, targets, 1.0, 32, None, 1.0, names)
print("worst", worst, "calls", calls)
"""


def test_all_logits_at_once_have_the_values_and_gradients_of_tiles(payload_python: Interpreter) -> None:
    ended = payload_python.finish("-c", COMPARED)
    assert ended.code == 0, ended.output
    _, worst, _, calls = ended.output.splitlines()[-1].split(" ")
    assert 0 < float(worst) < 1e-4  # exactly 0 would mean that tiles computed both
    assert calls == "[9]", "without gradients it is tiles that compute"


@pytest.mark.parametrize(
    "task", ["sft", *(pytest.param(task, marks=pytest.mark.long) for task in ("dpo", "pretrain", "kto"))]
)
def test_a_training_has_the_losses_of_tiles_and_resumes_with_no_other_word(
    task: str, tmp_path: Path, make_run: Any
) -> None:
    runs = []
    for word in ("tiles", "whole"):
        rows = "pretrain" if task == "sft" else task
        training = make_task(rows, tmp_path, train={"logits": word, "max_steps": 2})
        if task == "sft":
            training |= {"objective": {"name": "sft"}}
        run = make_run(training, word)
        ended = run.train()
        assert ("the loss is computed of all logits at once" in ended.output) == (word == "whole")
        runs.append(run)
    tiles, whole = runs
    assert whole.losses() == pytest.approx(tiles.losses(), rel=1e-5, abs=1e-6)
    evaluated = [[line["eval_loss"] for line in run.lines("eval")] for run in runs]
    assert evaluated[1] == pytest.approx(evaluated[0], rel=1e-5, abs=1e-6)
    whole.training["train"]["logits"] = "tiles"
    whole.attempt = 2
    whole.write_spec()
    assert whole.finish().code == 2
    assert '`train.logits` was "whole" and is "tiles"' in whole.failure["message"]
