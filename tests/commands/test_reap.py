"""Processes that ended runs left: which of them `armada hosts reap` ends, and which it leaves alone."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada, eventually
from tests.leftovers import marked_processes
from tests.supervisors import kill_both

Leave = Callable[..., "subprocess.Popen[bytes]"]
LIVES_ON = "while :; do sleep 0.05; done"


@pytest.fixture
def leave(armada: Armada) -> Iterator[Leave]:
    """Start a process as a run's job would have."""
    with marked_processes(armada.local_runs.parent) as start:
        yield lambda run_id, *argv: start(*argv, RUN_ID=run_id)


@pytest.fixture
def ended(armada: Armada) -> str:
    """A run that has ended well."""
    run_id: str = armada.json("launch", "--host", "local", armada.command("true"), "--follow")["run_id"]
    mark = f"ARMADA_SUPERVISOR={run_id}".encode()
    eventually(lambda: not any(mark in each for each in surroundings()), "the end of what saw to it")
    return run_id


def surroundings() -> Iterator[bytes]:
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            yield place.read_bytes()


def seen(armada: Armada, *arguments: str) -> dict[str, Any]:
    """What there is, as left by run id."""
    found = armada.json("hosts", "reap", "--dry-run", "local", *arguments)
    return {each["run_id"]: each["left"] for each in found["runs"]}


def test_what_an_ended_run_left_is_listed_and_ended_after_a_yes(armada: Armada, ended: str, leave: Leave) -> None:
    assert "no processes without a supervisor" in armada.run("hosts", "reap", "local").stdout
    left = leave(ended)
    before = armada.json("ps", "--all")
    asked = armada.run("hosts", "reap", "local")
    assert asked.returncode == 2
    assert f"{ended}: it has ended; 1 process\n    {left.pid} sleep, for " in asked.stdout
    assert "End 1 process of 1 run on local? Nobody is there to be asked, so nothing was ended" in asked.stderr
    told = armada.json("hosts", "reap", "--dry-run", "local")
    assert (told["ended"], [each["pid"] for each in told["runs"][0]["processes"]]) == (False, [left.pid])
    assert left.poll() is None
    done = armada.run("hosts", "reap", "local", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("ended on local: 1 process\n")
    assert left.wait(60) != 0
    assert [each["state"] for each in armada.json("ps", "--all")] == [each["state"] for each in before]
    assert seen(armada) == {}


def test_ended_is_said_only_once_all_are_gone(armada: Armada, ended: str, leave: Leave) -> None:
    up = armada.folder / "up"
    stubborn = leave(ended, "sh", "-c", f"trap '' TERM; : > {up}; {LIVES_ON}")
    eventually(up.exists)
    assert armada.run("hosts", "reap", "local", "--yes", "--grace", "1").returncode == 0
    assert stubborn.poll() == -signal.SIGKILL


def test_a_living_run_and_one_whose_supervisor_died_are_left_alone(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", LIVES_ON))["run_id"]
    assert seen(armada) == {}
    (job,) = (armada.local_runs / run_id).glob("submissions/*/job.json")
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    kill_both(json.loads(job.read_text()))
    eventually(lambda: seen(armada) == {run_id: "lives"}, "its job without a supervisor")
    told = armada.run("hosts", "reap", "local", "--yes").stdout
    assert f"· {run_id}: no end of it is recorded: its job may go on without its supervisor" in told
    assert f"→ armada stop {run_id}, if it shall end" in told
    assert armada.json("hosts", "reap", "local", "--yes", run_id)["ended"] is False
    assert seen(armada) == {run_id: "lives"}
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0


def test_what_is_left_of_a_removed_folder_is_ended_but_not_of_one_that_is_away(
    armada: Armada, ended: str, leave: Leave
) -> None:
    left = leave(ended)
    root, away = armada.local_runs.parent, armada.folder / "away"
    root.rename(away)
    assert seen(armada) == {ended: "away"}
    assert armada.json("hosts", "reap", "local", "--yes")["ended"] is False
    shutil.rmtree(root)  # the agent's own; the disk comes back
    away.rename(root)
    shutil.rmtree(root / "runs" / ended)
    assert seen(armada) == {ended: "removed"}
    assert armada.json("hosts", "reap", "local", "--yes", "--grace", "1")["ended"] is True
    assert left.wait(60) != 0


def test_what_another_home_started_is_ended_only_by_its_name(armada: Armada, ended: str, leave: Leave) -> None:
    left = leave(ended)
    state = armada.folder / "other" / "state"
    state.mkdir(parents=True)
    (state / "local").symlink_to(armada.local_runs.parent)
    other = dataclasses.replace(armada, env={**armada.env, "ARMADA_HOME": str(state.parent)})
    told = other.run("hosts", "reap", "local", "--yes")
    assert (told.returncode, left.poll()) == (0, None)
    assert f"→ armada hosts reap local {ended}, if its owner agrees" in told.stdout
    assert other.json("hosts", "reap", "local", "--yes", ended)["ended"] is True
    assert left.wait(60) != 0


def test_a_run_without_such_processes_is_not_found(armada: Armada, ended: str) -> None:
    refused = armada.run("hosts", "reap", "local", ended, "--yes")
    assert refused.returncode == 7
    assert f"every process of {ended} there has a supervisor, or there is none" in refused.stderr


def test_names_that_programs_make_up_lead_nowhere(armada: Armada, leave: Leave, ended: str) -> None:
    made_up = [leave(name) for name in ("../../etc", "a/b", "", "x" * 300, "never-was")]
    assert seen(armada) == {"never-was": "unknown"}
    assert armada.json("hosts", "reap", "local", "--yes")["ended"] is False
    assert [each.poll() for each in made_up] == [None] * len(made_up)
