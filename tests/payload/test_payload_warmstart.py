"""Beginning with another training's weights, and with its optimizer's moments; its learning rate stays where it was."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.payload.payload_run import PayloadRun, make_training
from tests.payload.test_payload_refusals import finish_without_torch

pytestmark = pytest.mark.payload

COMPARE = """
import json, sys, torch
before, after = (torch.load(path, weights_only=True) for path in sys.argv[1:3])
values = before["state"].keys() == after["state"].keys() and [
    (float(new["step"] - old["step"]), bool((new["exp_avg_sq"] >= 0.998 * old["exp_avg_sq"]).all()))
    for old, new in zip(before["state"].values(), after["state"].values())
]
print(json.dumps({"steps": sorted({step for step, _ in values}), "moments": all(kept for _, kept in values),
                  "first": float(min(new["step"] for new in after["state"].values())),
                  "rates": [group["lr"] for group in after["param_groups"]]}))
"""


def start_training(undisturbed: PayloadRun, chat_files: tuple[Path, Path], optimizer: Any, **changes: Any) -> Any:
    """Train two steps from the checkpoint of another run, as home hands it over: without its trainer's state."""
    path = undisturbed.path / "outbox" / ".new-12"
    training = make_training(*chat_files, **changes)
    return training | {"start_from": {"path": str(path), "optimizer": optimizer}}


@pytest.mark.parametrize("optimizer", [False, "moments"])
def test_weights_and_moments_are_the_other_runs_and_the_learning_rate_is_not(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, optimizer: Any
) -> None:
    train = {"max_steps": 2, "learning_rate": 3e-4, "lr_scheduler": "constant"}
    run = make_run(start_training(undisturbed, chat_files, optimizer, train=train))
    run.train()
    assert run.summary["eval_loss_before"] == pytest.approx(undisturbed.summary["eval_loss_after"], rel=1e-6)
    assert [line["learning_rate"] for line in run.lines("train")] == [3e-4, 3e-4]
    assert [line["step"] for line in run.lines("train")] == [1, 2]
    files = [
        run_.path / "checkpoints" / f"checkpoint-{step}" / "optimizer.pt"
        for run_, step in ((undisturbed, 12), (run, 2))
    ]
    found = json.loads(run.finish_python("-c", COMPARE, *map(str, files)).output)
    assert found["rates"] == [3e-4] * len(found["rates"])
    if optimizer:
        # Two updates on top of twelve, and squares of gradients that fade by a thousandth with each.
        assert (found["steps"], found["moments"]) == ([2.0], True)
    else:
        assert found["first"] == 2


def test_a_run_that_was_interrupted_goes_on_from_its_own_checkpoint(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path
) -> None:
    training = start_training(undisturbed, chat_files, "moments", train={"max_steps": 5}, checkpoint={"every_steps": 3})
    straight = make_run(training, "straight")
    straight.train()
    shutil.copytree(straight.path, tmp_path / "resumed")
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "checkpoint-5")
    run = PayloadRun(tmp_path / "resumed", straight.python, training, attempt=2)
    ended = run.train()
    assert "resuming from checkpoint-3" in ended.output
    assert "starting with" not in ended.output
    adapters = [r.path / "checkpoints" / "checkpoint-5" / "adapter_model.safetensors" for r in (straight, run)]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()

    run.training = {**training, "start_from": None}
    run.attempt = 3
    run.write_spec()
    shutil.rmtree(run.path / "checkpoints" / "checkpoint-5")
    assert run.finish().code == 2
    assert "`start_from` was {" in run.failure["message"]


@pytest.mark.parametrize(("change", "message"), [
    ({"lora": {"r": 16}}, "`lora.r` was 8 and is 16"),
    ({"lora": {"alpha": 32}}, "`lora.alpha` was 16.0 and is 32.0"),
    ({"lora": {"target_modules": ["q_proj"]}}, "`lora.target_modules` was ["),
    ({"lora": {"init": "pissa"}}, "`lora.init` was True and is pissa"),
    ({"lora": None}, "it is an adapter, but this training has no `lora`"),
    ({"model": {"path": "/models/of/another"}}, "it was trained on a tiny model"),
])  # fmt: skip
def test_what_does_not_fit_is_named_before_torch_is_imported(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, change: dict[str, Any], message: str
) -> None:
    run = make_run(start_training(undisturbed, chat_files, optimizer=False, **change))
    assert message in finish_without_torch(run)
    assert run.failure["reason"] == "bad_spec"


@pytest.mark.parametrize(("damage", "message"), [
    ("gone", "it no longer exists"),
    ("adapter_model.safetensors", "its weights are missing or truncated"),
    ("optimizer.pt", "its optimizer.pt is missing or truncated"),
])  # fmt: skip
def test_a_broken_checkpoint_is_no_start(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path, damage: str, message: str
) -> None:
    copied = tmp_path / "copied"
    if damage != "gone":
        shutil.copytree(undisturbed.path / "outbox" / ".new-12", copied)
        (copied / damage).write_bytes((copied / damage).read_bytes()[:-1])
    training = start_training(undisturbed, chat_files, optimizer="moments")
    training["start_from"]["path"] = str(copied)
    assert message in finish_without_torch(make_run(training))


def test_a_whole_models_weights_are_a_start_too_and_another_shape_is_none(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path
) -> None:
    first = make_run(make_training(*chat_files, train={"max_steps": 3}, lora=None), "first")
    first.train()
    checkpoint = first.path / "checkpoints" / "checkpoint-3"
    base = tmp_path / "base"
    shutil.copytree(first.path / "model", base)
    training = make_training(*chat_files, train={"max_steps": 1}, lora=None) | {
        "model": {"path": str(base)},
        "start_from": {"path": str(checkpoint), "optimizer": "moments"},
    }
    second = make_run(copy.deepcopy(training), "second")
    second.train()
    assert second.summary["eval_loss_before"] == pytest.approx(first.summary["eval_loss_after"], rel=1e-6)

    other = make_training(chat_files[0], train={"max_steps": 1}, lora=None)
    other["model"] = {"tiny": {**other["model"]["tiny"], "hidden_size": 64}}
    third = make_run(other, "third")
    third.train()
    training["model"] = {"path": str(third.path / "model")}
    assert "tensors have another shape than `model`'s" in finish_without_torch(make_run(training, "fourth"))
