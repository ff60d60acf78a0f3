"""Runs that are compared with each other: on two ranks, and killed and resumed."""

from __future__ import annotations

import json
import shutil
from array import array
from pathlib import Path
from typing import Any

from tests.payload.payload_run import PayloadRun

ADAPTER = "adapter_model.safetensors"


def copy_of(value: Any) -> Any:
    """Return a copy of something that is JSON."""
    return json.loads(json.dumps(value))


def on_two_ranks(one: PayloadRun) -> dict[str, Any]:
    """Return the specification of a run of one process for two of them, with the models that it made."""
    training: dict[str, Any] = copy_of(one.training)
    whole = training["batch"]["global"]
    training["batch"] = {"global": whole, "micro": 2, "accumulation": whole // 4, "processes": 2}
    training["model"] = {"path": str(one.path / "model")}
    objective = training.get("objective") or {}
    if "tiny" in (objective.get("teacher") or {}):
        objective["teacher"] = {"path": str(one.path / "teacher")}
    return training


def killed(done: PayloadRun, folder: Path, last: int = 6) -> PayloadRun:
    """Return a run as it was when it was killed before its last checkpoint, about to resume."""
    shutil.copytree(done.path, folder)
    shutil.rmtree(folder / "checkpoints" / f"checkpoint-{last}")
    return PayloadRun(folder, done.python, done.training, attempt=2)


def weights(run: PayloadRun, step: int) -> bytes:
    """Return the weights of a checkpoint, as they are in its file."""
    name = ADAPTER if run.training["lora"] else "model.safetensors"
    return (run.path / "checkpoints" / f"checkpoint-{step}" / name).read_bytes()


def read_floats(path: Path) -> dict[str, list[float]]:
    """Return the 32-bit tensors of a safetensors file as flat lists, by their names, without torch."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    assert {entry["dtype"] for entry in header.values()} == {"F32"}
    offsets = {name: entry["data_offsets"] for name, entry in header.items()}
    return {name: array("f", content[start + begin : start + end]).tolist() for name, (begin, end) in offsets.items()}


def ends_as(again: PayloadRun, straight: PayloadRun, last: int = 6) -> None:
    """Check that a run that was killed and resumed has ended as the one that was not, to the bit."""
    assert again.losses() == straight.losses()
    assert weights(again, last) == weights(straight, last)
    assert again.summary.get("eval_loss_after") == straight.summary.get("eval_loss_after")


def resumes_to_the_bit(straight: PayloadRun, folder: Path) -> None:
    """Check that a run of two ranks ends in the same way after it was killed and resumed."""
    again = killed(straight, folder)
    again.train(launcher=True)
    ends_as(again, straight)
