"""The state of the gradient scaler, which trainings in fp16 have beside those of optimizer and schedule."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest
from armada_train.checkpoints import complete, whole
from armada_train.checkpoints.manifest import read_manifest, write_manifest

from tests.payload.payload_run import PayloadRun
from tests.payload.test_payload_files import make_checkpoint


def make_scaler(checkpoint: Path, precision: str) -> Path:
    """Give a checkpoint what a training in fp16 leaves; what it says is a zip with a checksum, as torch writes it."""
    write_manifest(checkpoint, {**(read_manifest(checkpoint) or {}), "precision": precision})
    return Path(shutil.copy(checkpoint / "scheduler.pt", checkpoint / "scaler.pt"))


def test_a_gradient_scaler_is_one_of_the_states_of_fp16_alone(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path, 5)
    scaler = make_scaler(checkpoint, "fp16")
    assert complete.missing_states(checkpoint, 1) == []
    whole.mark(checkpoint)
    content = scaler.read_bytes()
    scaler.write_bytes(content.replace(b"xxx", b"xyx", 1))
    assert complete.missing_states(checkpoint, 1) == ["scaler.pt"]
    scaler.unlink()
    assert complete.missing_states(checkpoint, 1) == ["scaler.pt"]
    write_manifest(checkpoint, {"precision": "bf16"})
    assert complete.missing_states(checkpoint, 1) == []


@pytest.mark.payload
def test_a_scaler_of_another_precision_is_left_where_it_is(undisturbed: PayloadRun, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.path, tmp_path / "run")
    checkpoints = tmp_path / "run" / "checkpoints"
    shutil.rmtree(checkpoints / "checkpoint-12")
    make_scaler(checkpoints / "checkpoint-8", "fp16")
    training = copy.deepcopy(undisturbed.training) | {"resume": {"accept_changes": True}}
    run = PayloadRun(tmp_path / "run", undisturbed.python, training, attempt=2)
    run.write_spec()
    ended = run.train()
    assert 'finding: checkpoint-8: `precision` was "fp16" and is "fp32"; accepted' in ended.output
    assert run.losses() == undisturbed.losses()
