"""A training of a user's own, from its launch over a kill and a resume to an export that its framework loads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armada.paths import HomePaths
from armada.store import metrics
from armada.store.database import Database
from tests.conftest import Armada
from tests.payload.prepared import output, run_folder
from tests.supervisors import kill_both
from tests.waiting import eventually


@dataclass(frozen=True)
class Training:
    """What a user brings.

    Attributes:
        script: train.py. At the step `waits_at` its first attempt touches `waits` and sleeps.
        experiment: The keys of the experiment.
        steps: The steps of the whole training.
        loads: Python that loads an export, whose folder is its first argument; it runs in the project's folder.
        says: What that prints.
        evaluated: The steps with an evaluation.
    """

    name: str
    script: str
    experiment: Mapping[str, Any]
    loads: str
    says: str
    waits_at: int = 4
    steps: int = 6
    evaluated: Sequence[int] = field(default=())


def live_through(armada: Armada, training: Training, python: str | None = None) -> None:
    """Launch a training, kill it, resume it, export it and load the export; its curve is live, and one.

    Args:
        armada: The home; its host is `local`.
        training: What is trained.
        python: The program that loads the export. None: that of the environment which the launch built.
    """
    project = armada.folder / "project"
    project.mkdir()
    (project / "train.py").write_text(training.script)
    run_id = launch(armada, training)
    folder = run_folder(armada, run_id)
    eventually((folder / "work" / "waits").exists, "the moment to kill it")
    eventually(lambda: is_live(armada, run_id, training.waits_at), "its live curve and its checkpoint")
    kill(folder)
    eventually(lambda: armada.json("show", run_id)["state"] == "failed")
    resumed = armada.json("resume", run_id, "--follow")
    assert (resumed["state"], resumed["attempt"]) == ("succeeded", 2), output(armada, run_id)
    with Database(HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state").store) as database:
        assert [step for step, _ in metrics.curve(database, run_id, "loss")] == list(range(1, training.steps + 1))
        evaluated = [step for step, _ in metrics.curve(database, run_id, "eval_loss")]
    assert evaluated == list(training.evaluated)
    export = armada.folder / "export"
    wanted = "best" if training.evaluated else "last"
    exported = armada.json("export", run_id, "--checkpoint", wanted, "--to", str(export))
    assert exported["step"] == training.steps
    if python is None:
        (found,) = (armada.local_runs.parent / "envs").glob("*/bin/python")
        python = str(found)
    argv = [python, "-c", training.loads, str(export)]
    loaded = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    assert loaded.stdout.strip() == training.says, loaded.stderr


def launch(armada: Armada, training: Training) -> str:
    shared = {"name": training.name, "code": "project"}
    file = armada.write("exp.yaml", json.dumps({**shared, **training.experiment}))
    run_id: str = armada.json("launch", "--host", "local", file)["run_id"]
    return run_id


def is_live(armada: Armada, run_id: str, step: int) -> bool:
    """Tell whether home shows the running training's step and loss, and has its checkpoint of that step."""
    shown = armada.json("show", run_id)
    assert shown["state"] == "running"
    there = step in [each["step"] for each in shown["checkpoints"]]
    return there and shown["step"] == step and isinstance(shown["loss"], float)


def kill(folder: Path) -> None:
    """Kill a run's supervisor and all of its processes, as the end of a machine does."""
    kill_both(json.loads((folder / "submissions" / "1" / "job.json").read_text()))
    for process in Path("/proc").glob("[0-9]*"):  # torchrun's ranks are not of its group
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder / "work":
                os.kill(int(process.name), signal.SIGKILL)
