"""What a host deletes when it is cleared, and what keeps it: folders of runs as supervisors leave them, without a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.foundation import process_identity
from armada_agent.foundation.session import Call, Session
from armada_agent.host import roots
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths
from armada_agent.runs.wipe import forget_secrets, forget_wipe, wipe

from tests.leftovers import marked_processes

LAPTOP = {"id": "a" * 32, "label": "ann@laptop", "path": "/home/ann"}
DESKTOP = {"id": "b" * 32, "label": "ann@desktop", "path": "/home/ann"}
DEAD = {**process_identity.identify(), "pid": 2**22 + 1}


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(Session(str(tmp_path / "armada"), "", 1, sys.stdin.buffer, 0), 1)


def make(call: Call, run_id: str, supervisor: dict[str, Any] | None = None, state: str | None = None) -> RunPaths:
    """A run that was submitted once if it has a supervisor, living or not, and that may have ended.

    No other test has processes of a run of its name.
    """
    paths = RunPaths(call.root, run_id)
    Path(paths.outbox).mkdir(parents=True)
    Path(paths.spec).write_text(json.dumps({"run_id": run_id}))
    Path(paths.secrets).write_text("{}")
    if supervisor is not None:
        Path(paths.submission(1)).mkdir(parents=True)
        Path(paths.submission(1, "claim.json")).write_text("{}")
        job = {"submission": 1, "scheduler": "direct", "supervisor": supervisor, "guardian": None, "time": 1.0}
        Path(paths.submission(1, "job.json")).write_text(json.dumps(job))
    if state is not None:
        Path(paths.state).write_text(json.dumps({"state": state, "submission": 1, "attempt": 1, "seq": 1}))
    return paths


def test_secrets_go_of_what_has_ended_and_only_there_were_any(call: Call) -> None:
    ended, living = make(call, "wiped-1", DEAD, "failed"), make(call, "wiped-2", process_identity.identify(), "running")
    without = make(call, "wiped-3", DEAD, "failed")
    Path(without.secrets).unlink()
    assert forget_secrets(call, {}) == {"removed": ["wiped-1"], "kept": ["wiped-2"]}
    assert (Path(ended.secrets).exists(), Path(living.secrets).exists()) == (False, True)


def test_a_host_that_is_left_takes_no_secrets_of_what_came_since_it_was_judged(call: Call) -> None:
    for name in ("wiped-1", "wiped-2"):
        make(call, name)
    make(call, "wiped-3", DEAD, "failed")
    asked = {"leaves": True, "runs": ["wiped-1"]}
    assert forget_secrets(call, asked) == {"removed": ["wiped-1", "wiped-3"], "kept": ["wiped-2"]}
    assert forget_secrets(call, {"leaves": True}) == {"removed": ["wiped-2"], "kept": []}  # as an older home asks


@pytest.mark.parametrize("damage", ["a link", "waits"])
def test_secrets_stay_of_what_cannot_be_read_or_may_still_start(call: Call, damage: str, tmp_path: Path) -> None:
    kept = make(call, "wiped-1", DEAD, "failed")
    Path(kept.submission(1, "job.json")).unlink()
    if damage == "a link":
        Path(kept.folder, "submissions").rename(tmp_path / "away")
        Path(kept.folder, "submissions").symlink_to(tmp_path / "away")
    else:
        Path(kept.state).unlink()
    make(call, "wiped-2", DEAD, "failed")
    assert forget_secrets(call, {}) == {"removed": ["wiped-2"], "kept": ["wiped-1"]}


def test_a_living_supervisor_keeps_a_host_before_its_job_has_begun(call: Call) -> None:
    make(call, "wiped-1", process_identity.identify(), "queued")
    make(call, "wiped-2", DEAD, "failed")
    with pytest.raises(AgentError, match="wiped-1 is still alive"):
        wipe(call, {})


def test_a_job_that_outlived_its_supervisor_keeps_a_host_and_its_secrets(call: Call) -> None:
    make(call, "wiped-1", DEAD, "running")
    # Without the root's mark it would count for every test's run of this name, here and in the other workers.
    surroundings = {**os.environ, "ARMADA_RUN_ID": "wiped-1", "ARMADA_ROOT": call.root}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=surroundings) as job:
        with pytest.raises(AgentError, match="wiped-1 is still alive"):
            wipe(call, {})
        assert forget_secrets(call, {})["kept"] == ["wiped-1"]
        job.communicate()
    assert "runs" in wipe(call, {})["removed"]


def test_a_job_whose_folder_somebody_deleted_keeps_a_host(call: Call) -> None:
    make(call, "wiped-1", DEAD, "failed")
    with marked_processes(call.root) as start:
        start(RUN_ID="wiped-9")
        with pytest.raises(AgentError, match="wiped-9 is still alive"):
            wipe(call, {})
    assert "runs" in wipe(call, {})["removed"]


def test_what_only_helps_an_ended_run_keeps_no_host(call: Call) -> None:
    make(call, "wiped-1", DEAD, "failed")
    with marked_processes(call.root) as start:
        start(SUPERVISOR="wiped-1")
        assert "runs" in wipe(call, {})["removed"]


def test_a_submission_that_nothing_has_started_yet_keeps_a_host(call: Call) -> None:
    waits = make(call, "wiped-1", DEAD)
    Path(waits.submission(1, "job.json")).unlink()
    make(call, "wiped-2", DEAD, "failed")
    with pytest.raises(AgentError, match="wiped-1 may still start"):
        wipe(call, {})


def test_a_host_is_kept_for_what_another_home_lacks(call: Call) -> None:
    run = make(call, "wiped-1", DEAD, "failed")
    homes.register(run, DESKTOP)
    with pytest.raises(AgentError, match=r"ann@desktop .* has not fetched the end of its logs and outputs of wiped-1"):
        wipe(call, {"home": LAPTOP})
    assert Path(run.spec).exists()


def test_a_wiped_root_tells_other_homes_who_wiped_it_and_is_gone_otherwise(call: Call) -> None:
    run = make(call, "wiped-1", DEAD, "failed")
    homes.register(run, LAPTOP)
    answer = wipe(call, {"home": LAPTOP})
    assert (answer["left"], Path(call.root).exists()) == ([], False)
    homes.register(make(call, "wiped-2", DEAD, "failed"), DESKTOP)
    homes.forget(call, {"home": LAPTOP, "forget": DESKTOP["id"]})
    answer = wipe(call, {"home": LAPTOP})
    assert answer["left"] == ["root.json"]
    told = json.loads(Path(call.root, "root.json").read_text())
    assert [(each["root"], each["by"]) for each in told["wiped"]] == [(answer["root"], "ann@laptop")]
    assert wipe(call, {"home": LAPTOP})["left"] == ["root.json"]  # what was told stays


@pytest.mark.fault("the answer to a wipe is lost, and the home asks again", "it gets the same answer, not a conflict")
def test_a_wipe_whose_answer_was_lost_is_answered_again(call: Call) -> None:
    make(call, "wiped-1", DEAD, "failed")
    request: dict[str, Any] = {
        "home": LAPTOP,
        "root": roots.identify(call.root),
        "runs": [{"run_id": "wiped-1", "submission": 1}],
    }
    assert "runs" in wipe(call, request)["removed"]
    Path(call.root, "agent").mkdir(parents=True)  # the new connection puts the agent there again
    again = wipe(call, request)
    assert (again["removed"], again["root"], again["left"]) == (["agent"], request["root"], ["root.json"])
    assert request["root"] in roots.former_ids(call.root)
    assert forget_wipe(call, {"roots": [request["root"]]}) == {}
    assert not Path(call.root).exists()


def test_a_root_that_was_wiped_and_has_runs_by_now_is_another_one(call: Call) -> None:
    request: dict[str, Any] = {"home": LAPTOP, "root": roots.identify(call.root), "runs": []}
    wipe(call, request)
    run = make(call, "wiped-1", DEAD, "failed")
    with pytest.raises(AgentError, match="another root is here than the one that was checked"):
        wipe(call, request)
    forget_wipe(call, {"roots": [request["root"]]})
    assert (Path(run.state).exists(), roots.former_ids(call.root)) == (True, [])


def test_what_other_homes_need_of_a_wipe_stays_when_the_asker_has_its_answer(call: Call) -> None:
    homes.register(make(call, "wiped-1", DEAD, "failed"), DESKTOP)
    homes.forget(call, {"home": LAPTOP, "forget": DESKTOP["id"]})
    first = wipe(call, {"home": LAPTOP, "root": roots.identify(call.root)})["root"]
    second = wipe(call, {"home": LAPTOP, "root": roots.identify(call.root)})["root"]
    forget_wipe(call, {"roots": [first, second]})
    assert roots.former_ids(call.root) == [first]
