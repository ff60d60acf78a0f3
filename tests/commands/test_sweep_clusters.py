"""`armada sweep` on a batch system: one array, each cell a run, one launch however often it is interrupted."""

from __future__ import annotations

import functools
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import moments
from tests.chance import dice
from tests.commands import array_slurm
from tests.conftest import Armada, eventually

GO = 'echo "+$X" >> {0}/marks; until [ -e {0}/go ]; do sleep 0.05; done; echo "-$X" >> {0}/marks'


@pytest.fixture
def slurm(armada: Armada) -> Path:
    """This machine as a cluster."""
    return array_slurm.make_cluster(armada.folder, armada.env)


def sweep(armada: Armada, *words: str, script: str = GO, **more: Any) -> str:
    armada.command("sh", "-c", script.format(armada.folder), env={"X": "0"}, **more)
    told: dict[str, Any] = armada.json("sweep", "exp.yaml", "--host", "local", *words)
    return str(told["sweep"])


def marks(armada: Armada) -> list[str]:
    file = armada.folder / "marks"
    return file.read_text().split() if file.exists() else []


def calls(slurm: Path) -> list[str]:
    file = slurm / "sbatch.calls"
    return file.read_text().splitlines() if file.exists() else []


def states(armada: Armada, name: str) -> list[str]:
    return [cell["state"] for cell in armada.json("sweep", "show", name)["cells"]]


def test_cells_are_one_array_with_a_limit(armada: Armada, slurm: Path) -> None:
    name = sweep(armada, "--grid", "env.X=1,2,3,4", "--parallel", "2")
    eventually(lambda: len(marks(armada)) == 2)
    assert "--array=0-3%2" in calls(slurm)[0]
    eventually(lambda: sorted(states(armada, name)) == ["queued", "queued", "running", "running"])
    (armada.folder / "go").touch()
    eventually(lambda: states(armada, name) == ["succeeded"] * 4)
    assert sorted(marks(armada)) == [f"{sign}{x}" for sign in "+-" for x in range(1, 5)]
    assert len(calls(slurm)) == 1


def test_a_sweep_is_stopped_extended_and_its_failed_cells_retried(armada: Armada, slurm: Path) -> None:
    fails = '[ "$X" != 1 ] || [ -e {0}/mended ] || exit 3; ' + GO
    name = sweep(armada, "--grid", "env.X=1,2,3", "--parallel", "1", script=fails)
    eventually(lambda: marks(armada) == ["+2"])
    assert armada.run("sweep", "stop", name, "--grace", "1").returncode == 0
    assert states(armada, name) == ["failed", "cancelled", "cancelled"]
    (armada.folder / "mended").touch()
    (armada.folder / "go").touch()
    assert armada.json("sweep", "retry", name, "--reason", "exit_3")["resumed"] == [f"{name}-001"]
    armada.json("sweep", "extend", name, "--grid", "env.X=4,5")
    eventually(lambda: states(armada, name) == ["succeeded", "cancelled", "cancelled", "succeeded", "succeeded"])
    assert f"--job-name=armada.{name}.array2" in calls(slurm)[-1]
    assert "+3" not in marks(armada)


def test_a_cell_that_somebody_removed_is_resumed_if_that_is_asked_for(armada: Armada, slurm: Path) -> None:
    name = sweep(armada, "--grid", "env.X=1,2", "--parallel", "1")
    eventually(lambda: marks(armada) == ["+1"])
    subprocess.run([slurm / "scancel", "100_1"], check=True)
    eventually(lambda: states(armada, name) == ["running", "cancelled"])
    (armada.folder / "go").touch()
    left = armada.json("sweep", "retry", name)
    assert left["resumed"] == []
    assert left["left"] == {f"{name}-002": "removed: somebody removed it from the queue; `--reason removed` resumes it"}
    assert armada.json("sweep", "retry", name, "--reason", "removed")["resumed"] == [f"{name}-002"]
    eventually(lambda: states(armada, name) == ["succeeded"] * 2)


def test_cells_that_request_different_resources_are_several_arrays_that_keep_the_limit(
    armada: Armada, slurm: Path
) -> None:
    words = ["--grid", "resources.cpus=1,2", "--grid", "env.X=1,2", "--parallel", "3"]
    armada.command("sh", "-c", "true", env={"X": "0"})
    shown = armada.run("sweep", "exp.yaml", "--host", "local", *words)
    assert shown.returncode == 0, shown.stderr
    assert "slurm arrays 100 with 2 cells, 2 at once, 101 with 2 cells, 1 at once" in shown.stdout
    assert [next(word for word in line.split() if "array=" in word) for line in calls(slurm)] == [
        "--array=0-1",
        "--array=0-1%1",
    ]


def test_an_array_that_is_refused_is_reported_with_slurms_words_and_can_be_launched_again(
    armada: Armada, slurm: Path
) -> None:
    (slurm / "refuses").write_text("Batch job submission failed: Invalid account specified")
    armada.command("sh", "-c", "true", env={"X": "0"})
    words = ["sweep", "exp.yaml", "--host", "local", "--grid", "env.X=1,2"]
    refused = armada.run(*words)
    assert refused.returncode != 0
    assert "Invalid account specified" in refused.stderr
    (slurm / "refuses").unlink()
    name = armada.json(*words)["sweep"]
    eventually(lambda: states(armada, name) == ["succeeded"] * 2)


def test_two_hundred_cells_are_one_submission(armada: Armada, slurm: Path) -> None:
    values = ",".join(map(str, range(200)))
    armada.command("sh", "-c", "true", env={"X": "0"})
    dry = armada.run("sweep", "exp.yaml", "--host", "local", "--grid", f"env.X={values}", "--dry-run")
    assert "200 on local, as many at once as its queue allows" in dry.stdout
    (slurm / "refuses").write_text("no")
    armada.run("sweep", "exp.yaml", "--host", "local", "--grid", f"env.X={values}", "--parallel", "8", "--yes")
    (line,) = calls(slurm)
    assert "--array=0-199%8" in line


@pytest.mark.fault("kill -9 of `armada sweep` on a cluster", "the same command again; one array, each cell starts once")
def test_a_sweep_killed_at_any_point_and_repeated_is_one_array(armada: Armada, slurm: Path) -> None:
    chance = dice(11)
    (armada.folder / "go").touch()
    for number in (1, 2, 3):
        step = moments.of_a_launch(armada)[number]
        armada.command("sh", "-c", GO.format(armada.folder), env={"X": "0"}, name=f"cut-{number}")
        words = ["sweep", "exp.yaml", "--host", "local", "--grid", f"env.X={number}a,{number}b"]
        launch = armada.start(*words)
        moments.end_after(launch, step, launch.kill, chance)
        _, err = launch.communicate()
        assert launch.returncode in (0, -signal.SIGKILL), err
        if launch.returncode != 0:
            armada.json(*words)
        own = {run["sweep"] for run in armada.json("ps", "--cached") if run["name"].startswith(f"cut-{number} ")}
        for name in own:
            eventually(functools.partial(lambda each: states(armada, each) == ["succeeded"] * 2, name))
            assert sum(f"--job-name=armada.{name}.array" in line for line in calls(slurm)) == 1
        told = [mark for mark in marks(armada) if mark.startswith(f"+{number}")]
        assert sorted(told) == sorted([f"+{number}a", f"+{number}b"] * len(own))
