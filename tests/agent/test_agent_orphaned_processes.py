"""Processes without a supervisor, as a host's agent lists them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from armada_agent.foundation import process_identity

from tests.agent.conversation import Host, Refused
from tests.leftovers import marked_processes
from tests.waiting import eventually


@pytest.fixture
def leave(root: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    with marked_processes(root) as start:
        yield start


def end(host: Host, run_id: str) -> None:
    """Launch a run that ends at once, and wait until nothing sees to it any more."""
    host.launch(run_id, "true")
    host.await_end(run_id)
    eventually(lambda: host.look(run_id)["evidence"]["supervisor"] == "dead")
    job = host.look(run_id)["evidence"]["submission"]["job"]
    eventually(lambda: process_identity.judge(job["guardian"]) == "dead", "the end of its guardian")


def test_what_an_ended_run_left_is_listed_with_its_age(
    host: Host, leave: Callable[..., subprocess.Popen[bytes]]
) -> None:
    end(host, "orphan-1")
    assert host.call("host.orphans")["runs"] == []
    left, other = leave(RUN_ID="orphan-1"), leave(RUN_ID="orphan-1", ROOT="/another")
    (run,) = host.call("host.orphans")["runs"]
    assert (run["run_id"], run["exists"], run["has_ended"]) == ("orphan-1", True, True)
    assert run["count"] == len(run["processes"]) == 1
    assert (run["processes"][0]["pid"], run["processes"][0]["name"], run["processes"][0]["gpus"]) == (
        left.pid,
        "sleep",
        [],
    )
    assert run["processes"][0]["age_s"] >= 0.0
    assert other.poll() is None


def test_a_run_with_a_supervisor_has_none(host: Host) -> None:
    host.launch("orphan-2", "sh", "-c", "echo up; exec sleep 1000")
    eventually(lambda: "up" in host.output("orphan-2"))
    assert host.call("host.orphans")["runs"] == []


def test_records_that_cannot_be_read_prove_no_end(host: Host, leave: Callable[..., subprocess.Popen[bytes]]) -> None:
    end(host, "orphan-3")
    leave(RUN_ID="orphan-3")
    state = Path(host.folder("orphan-3"), "state.json")
    state.unlink()
    state.mkdir()
    (run,) = host.call("host.orphans")["runs"]
    assert (run["run_id"], run["exists"], run["has_ended"]) == ("orphan-3", True, False)


def test_of_many_processes_the_first_are_listed_and_all_are_counted(
    host: Host, leave: Callable[..., subprocess.Popen[bytes]]
) -> None:
    for _ in range(53):
        leave(RUN_ID="never-was")
    answer = host.call("host.orphans")
    assert [(each["exists"], each["has_ended"], each["count"], len(each["processes"])) for each in answer["runs"]] == [
        (False, None, 53, 50)
    ]
    assert answer["root"]


def test_only_what_an_ended_run_left_is_ended_where_that_is_asked(host: Host) -> None:
    host.launch("orphan-4", "sh", "-c", "echo up; exec sleep 1000")
    eventually(lambda: "up" in host.output("orphan-4"))
    with pytest.raises(Refused, match="run orphan-4 has not ended, or was resumed"):
        host.call("run.stop", run_id="orphan-4", grace_s=1, only_ended=True)
    assert not (Path(host.folder("orphan-4")) / "stop.json").exists()
    host.call("run.stop", run_id="orphan-4", grace_s=1)
    assert host.await_end("orphan-4")["state"] == "cancelled"
    eventually(lambda: host.look("orphan-4")["evidence"]["supervisor"] == "dead")
    assert host.call("run.stop", run_id="orphan-4", grace_s=1, only_ended=True)["outcome"] == "already_ended"
