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
from typing import Any, Protocol

from armada.paths import HomePaths
from armada.store import metrics
from armada.store.database import Database
from tests.conftest import Armada
from tests.payload.prepared import run_folder
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


class Site(Protocol):
    """A host, and what happens on it without armada."""

    @property
    def host(self) -> str:
        """Its name in armada."""

    def has_waited(self, run_id: str) -> bool:
        """Tell whether the script waits to be killed."""

    def kill(self, run_id: str) -> None:
        """Kill the run's processes."""

    def load(self, code: str, export: Path, project: Path) -> str:
        """Load an export with the run's own Python, in the project's folder, and return what that prints."""


@dataclass(frozen=True)
class ThisMachine:
    """The host `local`, where the supervisor is killed, too."""

    armada: Armada
    host: str = "local"

    def has_waited(self, run_id: str) -> bool:
        return (run_folder(self.armada, run_id) / "work" / "waits").exists()

    def kill(self, run_id: str) -> None:
        folder = run_folder(self.armada, run_id)
        kill_both(json.loads((folder / "submissions" / "1" / "job.json").read_text()))
        kill_job(folder)

    def load(self, code: str, export: Path, project: Path) -> str:
        (python,) = (self.armada.local_runs.parent / "envs").glob("*/bin/python")
        argv = [str(python), "-c", code, str(export)]
        loaded = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
        assert loaded.returncode == 0, loaded.stderr
        return loaded.stdout


def live_through(armada: Armada, training: Training, site: Site) -> None:
    """Launch a training, kill it, resume it, export it and load the export; its curve is live, and one."""
    project = armada.folder / "project"
    project.mkdir()
    (project / "train.py").write_text(training.script)
    run_id = launch(armada, training, site.host)
    eventually(lambda: site.has_waited(run_id), "the moment to kill it", longest_pause_s=5.0)
    eventually(lambda: is_live(armada, run_id, training.waits_at), "its live curve and its checkpoint")
    site.kill(run_id)
    eventually(lambda: armada.json("show", run_id)["state"] == "failed")
    resumed = armada.json("resume", run_id, "--follow", rc=None)
    assert (resumed["state"], resumed["attempt"]) == ("succeeded", 2), armada.run("logs", run_id).stdout
    with Database(HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state").store) as database:
        assert [step for step, _ in metrics.curve(database, run_id, "loss")] == list(range(1, training.steps + 1))
        evaluated = [step for step, _ in metrics.curve(database, run_id, "eval_loss")]
    assert evaluated == list(training.evaluated)
    export = armada.folder / "export"
    wanted = "best" if training.evaluated else "last"
    assert armada.json("export", run_id, "--checkpoint", wanted, "--to", str(export))["step"] == training.steps
    assert site.load(training.loads, export, project).strip() == training.says


def launch(armada: Armada, training: Training, host: str) -> str:
    file = armada.write("exp.yaml", json.dumps({"name": training.name, "code": "project", **training.experiment}))
    run_id: str = armada.json("launch", "--host", host, file)["run_id"]
    return run_id


def is_live(armada: Armada, run_id: str, step: int) -> bool:
    """Tell whether home shows the running training's step and loss, and its checkpoint of that step."""
    shown = armada.json("show", run_id)
    assert shown["state"] == "running"
    there = step in [each["step"] for each in shown["checkpoints"]]
    return there and shown["step"] == step and isinstance(shown["loss"], float)


def kill_job(folder: Path) -> None:
    """Kill the processes of a run's job; torchrun's ranks are not of its group."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder / "work":
                os.kill(int(process.name), signal.SIGKILL)
