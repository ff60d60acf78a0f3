"""Trainings that people bring, on an SSH host that has nothing of armada's: live, killed, resumed, home, exported and loaded."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Armada
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.payload.own_scripts import (
    DDP_RUN,
    TORCHRUN_RUN,
    TRAINER_RUN,
    with_lightning,
    with_requirements_and_data,
)
from tests.payload.own_training import Training, live_through

HOST = "a100-1"
KILL = """\
for process in /proc/[0-9]*; do
  if [ "$(readlink "$process/cwd")" = "{work}" ]; then kill -9 "${{process#/proc/}}"; fi
done
"""


@dataclass(frozen=True)
class FreshBox:
    """A host of the fleet with a root of its own, below which nothing is.

    Attributes:
        root: armada's folder there.
    """

    fleet: Fleet
    root: str
    host: str = HOST

    def has_waited(self, run_id: str) -> bool:
        return "yes" in self.fleet.run(HOST, f"test ! -e {self._work(run_id)}/waits || echo yes")

    def kill(self, run_id: str) -> None:
        self.fleet.run(HOST, KILL.format(work=self._work(run_id)))

    def load(self, code: str, export: Path, project: Path) -> str:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(export, "export")
            archive.add(project, "project")
        (code_file := project / "load.py").write_text(code)
        script = f"mkdir {self.root}/loaded && tar -xC {self.root}/loaded && cd {self.root}/loaded/project"
        self.fleet.run(HOST, script, stdin=packed.getvalue())
        run = f"cd {self.root}/loaded/project && PYTHONPATH=. exec {self.root}/envs/*/bin/python - ../export"
        return self.fleet.run(HOST, run, stdin=code_file.read_bytes())

    def _work(self, run_id: str) -> str:
        return f"{self.root}/runs/{run_id}/work"


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.takes_long("an environment with torch on a fresh host, and two attempts of a training in it")
@pytest.mark.parametrize("kind", ["trainer", "requirements-and-data", "ddp", "torchrun", "lightning"])
def test_a_training_of_ones_own_on_a_fresh_host_is_killed_goes_on_and_is_exported(
    armada: Armada, fleet: Fleet, there: str, kind: str
) -> None:
    up = fleet.host(HOST)
    words = [HOST, up.target, "--identity", str(machines.IDENTITY), "--profile", "cpu", "--root", there, "--yes"]
    added = armada.run("hosts", "add", *words)
    assert added.returncode == 0, added.stdout + added.stderr
    made: dict[str, Callable[[], Training]] = {
        "trainer": lambda: TRAINER_RUN,
        "requirements-and-data": lambda: with_requirements_and_data(armada.folder),
        "ddp": lambda: DDP_RUN,
        "torchrun": lambda: TORCHRUN_RUN,
        "lightning": with_lightning,
    }
    live_through(armada, made[kind](), FreshBox(fleet, there))
    # The script's marker, and what it was writing when it was killed, are nobody's results.
    released = armada.run("hosts", "release", HOST, "--drain", "--ignore-work", "--wipe", "--yes")
    assert released.returncode == 0, released.stdout + released.stderr
