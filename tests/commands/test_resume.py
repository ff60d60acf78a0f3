"""`armada resume`: the same run goes on after a bad end, once for each time it is asked."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
from typing import Any

import pytest

from armada.errors import ArmadaError
from armada.rpc.session import HostSession
from tests.commands.test_sweep_faults import InProcess
from tests.conftest import Armada, eventually
from tests.supervisors import kill_both

TWICE = 'echo "attempt $ARMADA_ATTEMPT"; [ -e been ] && exit 0; touch been; exit 3'


def test_a_failed_run_goes_on_where_it_was(armada: Armada) -> None:
    launched = armada.json("launch", "--host", "local", armada.command("sh", "-c", TWICE), "--follow", rc=6)
    assert (launched["state"], launched["exit_code"]) == ("failed", 3)
    run_id = launched["run_id"]
    resumed = armada.json("resume", run_id, "--follow")
    assert (resumed["run_id"], resumed["state"], resumed["reason"]) == (run_id, "succeeded", None)
    assert resumed["exit_code"] == 0
    assert armada.run("logs", run_id).stdout == "attempt 1\nattempt 2\n"
    assert (resumed["submission"], resumed["attempt"]) == (2, 2)
    again = armada.run("resume", run_id)
    assert again.returncode == 8
    assert "it succeeded" in again.stderr


def test_a_stopped_run_goes_on_and_can_be_stopped_again(armada: Armada) -> None:
    experiment = armada.command("sh", "-c", "echo begun; sleep 1000")
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    for _ in range(2):
        refused = armada.run("resume", run_id)
        assert refused.returncode == 8, refused.stderr
        assert armada.run("stop", run_id, "--grace", "0").returncode == 0
        assert armada.json("resume", run_id)["state"] in ("submitted", "queued", "running")
        eventually(lambda: armada.json("ps")[0]["state"] == "running")
    (run,) = armada.json("ps")
    assert (run["reason"], run["exit_code"], run["ended_at"]) == (None, None, None)
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0
    assert armada.json("ps")[0]["state"] == "cancelled"


def test_a_resume_with_other_settings_starts_nothing_and_names_the_launch_that_does(armada: Armada) -> None:
    experiment = armada.command("false")
    run_id = armada.json("launch", "--host", "local", experiment, "--follow", rc=6)["run_id"]
    refused = armada.run("resume", run_id, "--set", "env.A=1")
    assert refused.returncode == 2
    assert f"{run_id} keeps the settings that it was launched with" in refused.stderr
    assert "armada launch --host local" in refused.stderr
    assert armada.json("ps")[0]["submission"] == 1
    assert "--set" not in armada.run("resume", "--help").stdout


def test_secrets_reach_the_resumed_job_and_are_gone_after_it(armada: Armada) -> None:
    canary = "s3cr3t-canary-value"
    armada.env["MY_TOKEN"] = canary
    script = 'printf %s "$MY_TOKEN" | sha256sum; [ -e been ] && exit 0; touch been; exit 3'
    experiment = armada.command("sh", "-c", script, secrets=["MY_TOKEN"])
    run_id = armada.json("launch", "--host", "local", experiment, "--follow", rc=6)["run_id"]
    del armada.env["MY_TOKEN"]
    refused = armada.run("resume", run_id)
    assert refused.returncode == 2
    assert "MY_TOKEN is not set" in refused.stderr
    armada.env["MY_TOKEN"] = canary
    assert armada.json("resume", run_id, "--follow")["state"] == "succeeded"
    told = armada.run("logs", run_id).stdout
    assert told.count(hashlib.sha256(canary.encode()).hexdigest()) == 2
    assert not (armada.local_runs / run_id / "secrets.env").exists()
    for path in armada.folder.rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path


@pytest.mark.fault("kill -9 of supervisor and job, then `armada resume`", "the run goes on as its next attempt")
def test_a_run_whose_supervisor_and_job_were_killed_goes_on(armada: Armada) -> None:
    script = "[ -e been ] && exit 0; touch been; echo begun; sleep 1000"
    run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", script))["run_id"]
    folder = armada.local_runs / run_id
    eventually((folder / "attempts" / "1" / "run.json").exists)
    eventually((folder / "work" / "been").exists)
    record = json.loads((folder / "attempts" / "1" / "run.json").read_text())
    kill_both(json.loads((folder / "submissions" / "1" / "job.json").read_text()))
    os.killpg(record["process"]["pid"], signal.SIGKILL)
    eventually(lambda: armada.json("ps")[0]["state"] == "failed")
    assert armada.json("resume", run_id, "--follow")["state"] == "succeeded"
    assert sorted(path.name for path in (folder / "attempts").iterdir()) == ["1", "2"]


def test_what_was_never_launched_cannot_be_resumed(armada: Armada) -> None:
    assert armada.run("resume", "nothing-like-it").returncode == 7


def test_a_run_that_its_host_does_not_have_cannot_be_resumed(armada: Armada) -> None:
    file = armada.command("false")
    run_id = armada.json("launch", "--host", "local", file, "--follow", rc=6)["run_id"]
    shutil.rmtree(armada.local_runs / run_id)
    refused = armada.run("resume", run_id)
    assert refused.returncode == 7, refused.stderr
    assert f"local has no files of {run_id}" in refused.stderr
    again = f"armada launch --host local {shlex.quote(str((armada.folder / file).resolve()))}"
    assert f"→ launch its experiment again: {again}\n" in refused.stderr
    (run,) = armada.json("ps", "--cached")
    assert (run["state"], run["reason"]) == ("failed", "exit_1")


@pytest.mark.fault(
    "a launch is refused once its folder is on the host", "it stays refused, and can be resumed or removed"
)
@pytest.mark.parametrize("then", ["resume", "rm"])
def test_a_run_whose_launch_was_refused_can_be_resumed_and_removed(
    armada: Armada, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    call = HostSession.call

    def refusing(self: HostSession, request: Any, *more: Any, **options: Any) -> Any:
        if getattr(request, "method", None) != "run.create":
            return call(self, request, *more, **options)
        call(self, request.model_copy(update={"submission": None}), *more, **options)
        raise ArmadaError("no space left on the device")

    with monkeypatch.context() as patched:
        patched.setattr(HostSession, "call", refusing)
        assert InProcess(armada, monkeypatch).run("launch", "--host", "local", armada.command("true")) != 0
    (run,) = armada.json("ps", "--cached")
    assert (run["state"], run["reason"]) == ("failed", "submit_refused")
    if then == "resume":
        assert armada.json("resume", run["run_id"], "--follow")["state"] == "succeeded"
    assert armada.run("sync", "now", run["run_id"]).returncode == 0
    assert armada.run("rm", run["run_id"], "--yes").stdout == f"{run['run_id']} forgotten\n"
    assert not (armada.local_runs / run["run_id"]).exists()
