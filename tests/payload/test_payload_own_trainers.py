"""Trainings that people bring, with transformers' Trainer, Lightning and plain DDP: killed, resumed, home, exported, with one curve."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from armada.paths import HomePaths
from armada.store import metrics
from armada.store.database import Database
from tests.conftest import Armada
from tests.payload.interpreter import Interpreter
from tests.payload.own_scripts import (
    DDP_RUN,
    EXAMPLES,
    TORCHRUN_RUN,
    TRAINER_RUN,
    with_lightning,
    with_requirements_and_data,
)
from tests.payload.own_training import ThisMachine, Training, live_through
from tests.payload.prepared import output, prepare_environment

pytestmark = pytest.mark.payload


@pytest.fixture
def with_uv(armada: Armada) -> Armada:
    """An armada whose `local` has uv, which builds environments from the package index that pip uses here."""
    armada.env["PATH"] = f"{Path(sys.executable).parent}:{armada.env['PATH']}"
    return armada


@pytest.mark.parametrize(
    "training",
    [
        pytest.param(TRAINER_RUN, id="trainer", marks=pytest.mark.long),
        pytest.param(DDP_RUN, id="ddp", marks=pytest.mark.long),
        pytest.param(TORCHRUN_RUN, id="torchrun"),
    ],
)
@pytest.mark.takes_long("two attempts that import torch anew, and a third interpreter that loads the export")
def test_a_training_of_ones_own_is_killed_goes_on_and_is_exported_with_one_curve(
    armada: Armada, payload_python: Interpreter, training: Training
) -> None:
    environment = prepare_environment(armada, payload_python.path)
    torchrun = environment / "bin" / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec {environment}/bin/python -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    live_through(armada, training, ThisMachine(armada))


@pytest.mark.long
@pytest.mark.takes_long("a gigabyte that is staged, an environment that uv builds of requirements, and two attempts")
def test_a_training_with_requirements_and_a_gigabyte_of_data_is_killed_goes_on_and_is_exported(with_uv: Armada) -> None:
    live_through(with_uv, with_requirements_and_data(with_uv.folder), ThisMachine(with_uv))
    (with_uv.folder / "corpus.bin").unlink()
    shutil.rmtree(with_uv.local_runs.parent)  # it has a copy


@pytest.mark.long
@pytest.mark.takes_long("an environment that uv builds of requirements, and two attempts")
def test_the_example_with_lightning_is_killed_goes_on_and_its_best_checkpoint_is_exported(with_uv: Armada) -> None:
    asked = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(with_uv.folder),
        "lightning",
    ]
    if subprocess.run(asked, check=False, capture_output=True).returncode:
        pytest.skip("this machine's package index has no lightning")
    live_through(with_uv, with_lightning(), ThisMachine(with_uv))


@pytest.mark.takes_long("a training in an interpreter that imports torch anew")
def test_the_example_of_a_script_trains_and_comes_home(armada: Armada, payload_python: Interpreter) -> None:
    prepare_environment(armada, payload_python.path, writes_bytecode=True)
    run = armada.json("launch", "--host", "local", str(EXAMPLES / "own-script" / "finetuning.yaml"), "--follow")
    assert (run["state"], run["step"]) == ("succeeded", 20), output(armada, run["run_id"])
    shown = armada.json("show", run["run_id"])
    assert {each["step"] for each in shown["checkpoints"] if each["home_path"]} == {10, 20}
    with Database(HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state").store) as database:
        losses = {step: value for step, value in metrics.curve(database, run["run_id"], "loss") if value is not None}
    assert losses[20] < losses[1]
    # With bytecode beside armada's own modules, the next launch there would be refused: the content would not match its hash.
    assert not list((armada.local_runs.parent / "code").rglob("__pycache__"))
