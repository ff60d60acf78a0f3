"""A run's folder that somebody deletes while the run lives."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Armada, eventually
from tests.supervisors import kill_both

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIDY = "while :; do sleep 0.05; done"
WRITES_AGAIN = 'while :; do mkdir -p "$ARMADA_RUN_DIR/results"; date > "$ARMADA_RUN_DIR/results/now"; sleep 0.05; done'


def living(armada: Armada, run_id: str) -> list[str]:
    """Commands of a run's job and supervisor."""
    said = subprocess.run(["ps", "axeww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    root = armada.local_runs.parent
    marks = (f"ARMADA_RUN_ID={run_id}", f" supervise --root {root} --run {run_id} ")
    alive = [line for line in said.splitlines() if line.split()[1][0] not in "ZX"]
    return [line for line in alive if any(mark in line for mark in marks)]


def remove_all(folder: Path) -> None:
    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)  # the job may be writing
        return not (folder / "spec.json").exists()

    eventually(is_gone)


def remove_all_but_the_folder(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def launch(armada: Armada, script: str) -> str:
    experiment = armada.command("sh", "-c", script)
    run_id: str = armada.json("launch", "--host", "local", experiment)["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    return run_id


@pytest.mark.parametrize("script", [TIDY, WRITES_AGAIN], ids=["the job writes nothing", "the job makes it again"])
@pytest.mark.parametrize("remove", [remove_all, remove_all_but_the_folder])
def test_a_run_whose_folder_was_deleted_is_said_to_be_and_can_be_stopped_and_forgotten(
    armada: Armada, script: str, remove: Callable[[Path], None]
) -> None:
    run_id = launch(armada, script)
    remove(armada.local_runs / run_id)
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("running", "folder_removed")
    assert f"its folder on local was removed while it ran; the job continues: armada stop {run_id} ends it" in " ".join(
        armada.run("show", run_id).stdout.split()
    )
    assert "of its processes are alive there" in armada.run("why", run_id).stdout
    for refused in (("rm", run_id, "--force"), ("resume", run_id)):
        assert armada.run(*refused).returncode == 8
    assert living(armada, run_id)
    stopped = armada.run("stop", run_id, "--grace", "1")
    assert stopped.returncode == 0, stopped.stderr
    eventually(lambda: not living(armada, run_id))  # its supervisor ends just after it wrote so
    (run,) = armada.json("ps", "--all")
    assert (run["state"], run["reason"]) == ("cancelled", "killed_by_user")
    assert "its folder on local was removed while it ran" in armada.run("show", run_id).stdout
    assert armada.run("rm", run_id, "--force").returncode == 0
    assert armada.json("ps", "--all") == []
    assert not (armada.local_runs / run_id).exists()


def test_a_job_that_saves_again_after_its_folder_was_deleted_is_not_said_to_have_ended_before_it_has(
    armada: Armada,
) -> None:
    saves = 'while :; do mkdir -p "$ARMADA_RUN_DIR/outbox/.new-5"; sleep 0.05; done'
    run_id = launch(armada, saves)
    folder = armada.local_runs / run_id
    (job,) = folder.glob("submissions/*/job.json")
    kill_both(json.loads(job.read_text()))  # else its supervisor would end it a moment later
    remove_all(folder)
    digest = folder / "outbox" / ("a" * 64)
    digest.mkdir(parents=True)  # a checkpoint that it finished since: the folder counts as the run's again
    assert living(armada, run_id)
    stopped = armada.run("stop", run_id, "--grace", "1")
    assert not [each for each in living(armada, run_id) if "ARMADA_RUN_ID" in each], stopped.stdout + stopped.stderr


def test_a_run_that_ended_after_its_folder_was_deleted_is_not_said_to_have_ended_well(armada: Armada) -> None:
    run_id = launch(armada, f"while [ ! -e {armada.folder}/enough ]; do sleep 0.05; done")
    remove_all(armada.local_runs / run_id)
    armada.json("ps")
    (armada.folder / "enough").touch()
    eventually(lambda: not living(armada, run_id))
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("unknown", "not_on_host")
    for _ in range(2):
        assert "removed while it ran; none of its processes is there" in armada.run("show", run_id).stdout
    assert not (armada.local_runs / run_id).exists()
    assert armada.run("rm", run_id).returncode == 0


def test_a_root_that_is_away_ends_nothing(armada: Armada) -> None:
    run_id = launch(armada, TIDY)
    root, away = armada.local_runs.parent, armada.folder / "away"
    root.rename(away)
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("unknown", "root_away")
    assert armada.run("stop", run_id, "--grace", "1").returncode == 9
    assert living(armada, run_id)
    shutil.rmtree(root)  # only an agent can tell whether its job lives
    away.rename(root)
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0
    eventually(lambda: not living(armada, run_id))  # its supervisor ends just after it wrote so


def test_what_a_job_saved_after_its_folder_was_deleted_is_not_deleted_with_it(armada: Armada) -> None:
    run_id = launch(armada, TIDY)
    folder = armada.local_runs / run_id
    remove_all(folder)
    (folder / "outbox" / ".new-5").mkdir(parents=True)
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0
    refused = armada.run("rm", run_id, "--force")
    assert refused.returncode == 8
    assert f"rm -rf {folder}" in refused.stderr
    assert (folder / "outbox" / ".new-5").exists()
    os.rmdir(folder / "outbox" / ".new-5")  # noqa: PTH106
    assert armada.run("rm", run_id).returncode == 0


def test_a_run_whose_root_is_away_is_not_forgotten_unless_a_person_says_so(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("true"), "--follow")["run_id"]
    armada.json("sync", "now", run_id)
    root, away = armada.local_runs.parent, armada.folder / "away"
    root.rename(away)
    assert armada.run("rm", run_id, "--dry-run").returncode == 8
    refused = armada.run("rm", run_id)
    assert refused.returncode == 8, refused.stderr
    assert "a file system may not be mounted there" in refused.stderr
    assert f"armada rm {run_id} --force" in refused.stderr
    assert not root.exists()
    away.rename(root)
    assert armada.run("rm", run_id).returncode == 0
    assert not (root / "runs" / run_id).exists()


def test_a_run_that_an_older_release_put_somewhere_is_not_forgotten_while_its_folder_is_not_seen(
    armada: Armada,
) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("true"), "--follow")["run_id"]
    armada.json("sync", "now", run_id)
    with closing(sqlite3.connect(armada.folder / "home" / "state" / "armada.db")) as store, store:
        store.execute("UPDATE runs SET root_id = NULL")
    folder, away = armada.local_runs / run_id, armada.folder / "away"
    folder.rename(away)
    for words in (("rm", run_id, "--dry-run"), ("rm", run_id)):
        refused = armada.run(*words)
        assert refused.returncode == 8, refused.stderr
        assert "home does not know which folder it was put into" in refused.stderr
    away.rename(folder)
    assert armada.run("rm", run_id).returncode == 0
    assert not folder.exists()


@pytest.mark.parametrize("name", ["{}.old", "{}-old", ".{}"])
def test_a_run_whose_folder_was_renamed_is_not_forgotten(armada: Armada, name: str) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("true"), "--follow")["run_id"]
    folder = armada.local_runs / run_id
    other = folder.with_name(name.format(run_id))
    folder.rename(other)
    for words in (("rm", run_id, "--dry-run"), ("rm", run_id)):
        refused = armada.run(*words)
        assert refused.returncode == 8
        assert f"{other.name} lies among the runs there: somebody may have renamed it" in refused.stderr
    other.rename(folder)
    armada.json("sync", "now", run_id)
    assert armada.run("rm", run_id).returncode == 0


@pytest.mark.fault("the folder of runs is a mount point, and its disk is away", "nothing of it counts as removed")
@pytest.mark.parametrize("linked", [False, True], ids=["a mount point", "a link"])
def test_a_folder_of_runs_that_is_away_ends_nothing(armada: Armada, linked: bool) -> None:
    run_id = launch(armada, TIDY)
    disk = armada.folder / "disk"
    armada.local_runs.rename(disk)
    if linked:
        armada.local_runs.symlink_to(armada.folder / "nothing")
    else:
        armada.local_runs.mkdir()
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("unknown", "unreadable" if linked else "root_away")
    assert "a file system may not be mounted" in armada.run("show", run_id).stdout.replace("\n", " ")
    assert armada.run("stop", run_id, "--grace", "1").returncode == (1 if linked else 9)
    assert armada.run("rm", run_id).returncode != 0
    assert armada.run("hosts", "release", "local").returncode == (1 if linked else 8)
    assert living(armada, run_id)
    if linked:
        armada.local_runs.unlink()
    else:
        shutil.rmtree(armada.local_runs)
    disk.rename(armada.local_runs)
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0
    eventually(lambda: not living(armada, run_id))


def test_a_run_whose_folder_cannot_be_read_is_forgotten_by_force_alone(armada: Armada) -> None:
    run_id: str = armada.json("launch", "--host", "local", armada.command("true"))["run_id"]
    armada.await_end(run_id)
    armada.local_runs.rename(armada.folder / "disk")
    armada.local_runs.symlink_to(armada.folder / "nothing")
    refused = armada.run("rm", run_id)
    assert (refused.returncode, "a file system may not be mounted" in refused.stderr) == (8, True), refused.stderr
    done = armada.run("rm", run_id, "--force")
    assert done.returncode == 0, done.stderr
    assert "its files on the host stay there: " in done.stdout
    assert (armada.folder / "disk" / run_id / "spec.json").exists()
