"""Runs from creation to their end, over every interpreter on the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.conversation import Conversation, Host, Refused, spec_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = "a'b\"c $(touch pwned) `x` \n;|&\\ é 💥"


def test_a_command_runs_and_its_end_is_recorded(
    converse: Callable[..., Conversation], python: str, agent: Path
) -> None:
    host = Host(converse(python, code=agent))
    answer = host.launch("hello-1", "sh", "-c", "echo out; echo err >&2; pwd")
    assert answer["outcome"] == "started"
    assert answer["job"]["submission"] == 1
    state = host.await_end("hello-1")
    assert (state["state"], state["exit_code"], state["reason"], state["attempt"]) == ("succeeded", 0, None, 1)
    assert state["queued_at"] <= state["started_at"] <= state["ended_at"]
    assert host.output("hello-1") == f"out\nerr\n{host.folder('hello-1')}/work\n"
    told = json.loads((host.folder("hello-1") / "attempts/1/exit.json").read_text())
    assert (told["state"], told["exit_code"]) == ("succeeded", 0)
    run = json.loads((host.folder("hello-1") / "attempts/1/run.json").read_text())
    assert run["submission"] == 1
    assert run["process"]["pid"] != run["supervisor"]["pid"]
    seqs = [event["seq"] for event in host.events("hello-1")]
    assert seqs == list(range(1, len(seqs) + 1))
    assert state["seq"] == seqs[-1]


@pytest.mark.parametrize(
    ("script", "reason", "code", "number"),
    [("exit 7", "exit_7", 7, None), ("kill -9 $$", "signal_SIGKILL", None, 9)],
)
def test_a_failure_says_how(host: Host, script: str, reason: str, code: int | None, number: int | None) -> None:
    host.launch("bad-1", "sh", "-c", script)
    state = host.await_end("bad-1")
    assert (state["state"], state["reason"], state["exit_code"], state["signal"]) == ("failed", reason, code, number)


def test_failure_json_knows_better_than_the_exit_code(this_host: Host) -> None:
    script = 'echo \'{"reason": "oom", "message": "42 GiB"}\' > "$ARMADA_RUN_DIR/attempts/$ARMADA_ATTEMPT/failure.json"; exit 1'
    this_host.launch("bad-2", "sh", "-c", script)
    state = this_host.await_end("bad-2")
    assert (state["reason"], state["message"], state["exit_code"]) == ("oom", "42 GiB", 1)


def test_a_missing_program_is_named(host: Host) -> None:
    host.launch("bad-3", "no-such-program-here")
    state = host.await_end("bad-3")
    assert (state["state"], state["reason"]) == ("failed", "command_not_found")
    assert "no-such-program-here" in state["message"]


def test_a_program_that_may_not_be_executed_is_named(this_host: Host, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    this_host.launch("bad-4", str(script))
    assert this_host.await_end("bad-4")["reason"] == "command_not_executable"


def test_hostile_text_stays_literal(python: str, converse: Callable[..., Conversation]) -> None:
    # LANG=C is what cron and many containers have; Python 3.6 then thinks in ASCII.
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "LANG": "C"}
    host = Host(converse(python, environment=environment))
    show = "import os,sys; sys.stdout.buffer.write(os.environb[b'ODD'] + b'|' + os.fsencode(sys.argv[1]))"
    host.launch("odd-1", sys.executable, "-c", show, HOSTILE, job={"env": {"ODD": HOSTILE}}, name=HOSTILE)
    assert host.await_end("odd-1")["state"] == "succeeded"
    assert host.output("odd-1") == f"{HOSTILE}|{HOSTILE}"
    assert not list(host.root.rglob("pwned"))


def test_the_job_sees_its_own_environment_only(converse: Callable[..., Conversation]) -> None:
    foreign = {"PYTHONPATH": "/foreign", "VIRTUAL_ENV": "/foreign", "ARMADA_RUN_ID": "outer-1", "OF_THE_SHELL": "yes"}
    host = Host(converse(environment={**os.environ, **foreign}))
    host.launch("env-1", "env", "-0", job={"env": {"OWN": "1"}}, secrets={"TOKEN": "s3cret"})
    host.await_end("env-1")
    pairs = dict(item.split("=", 1) for item in host.output("env-1").split("\0") if item)
    assert pairs["ARMADA_RUN_ID"] == "env-1"
    assert pairs["ARMADA_ATTEMPT"] == "1"
    assert pairs["ARMADA_RUN_DIR"] == str(host.folder("env-1"))
    assert pairs["ARMADA_ROOT"] == str(host.root)
    assert (pairs["CUDA_VISIBLE_DEVICES"], pairs["ARMADA_GPUS"], pairs["CUDA_DEVICE_ORDER"]) == ("", "", "PCI_BUS_ID")
    assert (pairs["OWN"], pairs["TOKEN"], pairs["HOME"]) == ("1", "s3cret", os.environ["HOME"])
    assert not {"PYTHONPATH", "VIRTUAL_ENV", "ARMADA_SUPERVISOR", "OF_THE_SHELL"} & set(pairs)


def test_secrets_are_private_and_gone_at_the_end(this_host: Host) -> None:
    this_host.create("secret-1", "true", secrets={"TOKEN": "s3cret"})
    stored = this_host.folder("secret-1") / "secrets.env"
    assert stored.stat().st_mode & 0o777 == 0o600
    assert json.loads(stored.read_text()) == {"TOKEN": "s3cret"}
    this_host.call("run.submit", run_id="secret-1", submission=1)
    this_host.await_end("secret-1")
    texts = [path.read_bytes() for path in this_host.folder("secret-1").rglob("*") if path.is_file()]
    assert not stored.exists()
    assert not any(b"s3cret" in text for text in texts)


def test_a_job_whose_declared_secret_is_missing_is_not_started(
    converse: Callable[..., Conversation],
) -> None:
    """The host's own variable of that name may be the key of another account."""
    host = Host(converse(environment={**os.environ, "TOKEN": "of the host"}))
    host.launch("secret-2", "sh", "-c", "touch began", secrets={"OTHER": "x"}, job={"secrets": ["TOKEN", "OTHER"]})
    state = host.await_end("secret-2")
    assert (state["state"], state["reason"]) == ("failed", "secrets_missing")
    assert "TOKEN; `armada resume secret-2` sends them again" in state["message"]
    assert not (host.folder("secret-2") / "work" / "began").exists()


def test_nothing_of_a_run_is_readable_by_others(this_host: Host) -> None:
    this_host.launch("private-1", "true")
    this_host.await_end("private-1")
    for path in this_host.folder("private-1").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_the_same_spec_again_changes_nothing_and_another_conflicts(host: Host) -> None:
    assert host.create("twice-1", "true")["created"] is True
    assert host.create("twice-1", "true")["created"] is False
    with pytest.raises(Refused) as refused:
        host.create("twice-1", "false")
    assert refused.value.kind == "conflict"


def test_the_code_is_copied_so_that_a_job_cannot_change_the_snapshot(this_host: Host, tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "pkg").mkdir(parents=True)
    (code / "pkg/run.sh").write_text("#!/bin/sh\necho changed > pkg/run.sh\n")
    (code / "pkg/run.sh").chmod(0o755)
    this_host.launch("code-1", "pkg/run.sh", job={"code": str(code)})
    assert this_host.await_end("code-1")["state"] == "succeeded"
    assert (this_host.folder("code-1") / "work/pkg/run.sh").read_text() == "changed\n"
    assert "echo" in (code / "pkg/run.sh").read_text()


def test_code_that_is_not_there_makes_no_run(this_host: Host) -> None:
    with pytest.raises(Refused) as refused:
        this_host.create("code-2", "true", job={"code": str(this_host.root / "code/none")})
    assert refused.value.kind == "not_found"
    assert list((this_host.root / "runs").iterdir()) == []


@pytest.mark.parametrize("run_id", ["../escape", "", "UPPER", "a/b", "a" * 65, "-a", ".new", 7, None, "a\n"])
def test_a_run_id_that_is_none_is_refused_everywhere(shared_host: Host, run_id: Any) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("run.create", {"spec": spec_of("x", "true"), "files": {}, "secrets": {}}),
        ("run.submit", {"submission": 1}),
        ("run.log", {}),
        ("run.stop", {"grace_s": 1}),
        ("run.remove", {}),
        ("outbox.manifest", {"digest": "0" * 64}),
    ]
    for method, params in calls:
        with pytest.raises(Refused) as refused:
            shared_host.call(method, run_id=run_id, **params)
        assert refused.value.kind == "bad_request", method
    with pytest.raises(Refused) as refused:
        shared_host.call("run.observe", runs=[{"run_id": run_id, "metrics_offset": 0, "events_offset": 0}])
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize(
    "change",
    [
        {"job": {"argv": []}},
        {"job": {"argv": ["a\0b"]}},
        {"job": {"argv": ["\ud800"]}},
        {"job": {"env": {"A=B": "x"}}},
        {"job": {"env": {"A": 5}}},
        {"job": {"code": "relative"}},
        {"gpus": -1},
        {"gpus": True},
        {"run_id": "other-1"},
        {"format": 2},
        {"outbox": {"keep": 0}},
        {"stop_grace_s": "long"},
    ],
)
def test_a_spec_that_cannot_work_is_refused(shared_host: Host, change: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        shared_host.call("run.create", run_id="spec-1", spec=spec_of("spec-1", "true", **change), files={}, secrets={})
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize("name", ["launch/../x", "/etc/x", "launch/", "x", "launch/.hidden", "launch/a/b"])
def test_a_launch_file_stays_in_its_folder(shared_host: Host, name: str) -> None:
    with pytest.raises(Refused) as refused:
        shared_host.call("run.create", run_id="file-1", spec=spec_of("file-1", "true"), files={name: "x"}, secrets={})
    assert refused.value.kind == "bad_request"


def test_launch_files_are_written_and_the_run_is_listed_and_removed(this_host: Host) -> None:
    spec = spec_of("list-1", "true")
    this_host.call("run.create", run_id="list-1", spec=spec, files={"launch/command.json": "é"}, secrets={})
    assert (this_host.folder("list-1") / "launch/command.json").read_text("utf-8") == "é"
    listed = this_host.call("run.list")["runs"]
    assert listed == [{"run_id": "list-1", "state": "preparing", "created_at": 1700000000.0, "submission": None}]
    folder = this_host.folder("list-1")
    folder.rename(folder.with_name("list-1 old"))
    folder.with_name("odd\n\x1b").write_text("")
    folder.with_name(".list-1").mkdir()
    folder.with_name(".list-1.17-2.tmp").mkdir()  # of what is being made, or deleted
    assert this_host.call("run.list") == {"runs": [], "strange": [".list-1", "list-1 old", "odd??"]}
    folder.with_name(".list-1").rmdir()
    folder.with_name("list-1 old").rename(folder)
    folder.with_name("odd\n\x1b").unlink()
    assert this_host.call("run.remove", run_id="list-1") == {}
    assert this_host.call("run.list") == {"runs": []}
    with pytest.raises(Refused) as refused:
        this_host.call("run.remove", run_id="list-1")
    assert refused.value.kind == "not_found"


def test_plans_are_handed_out_again_and_what_is_wrong_with_one_is_said(this_host: Host) -> None:
    spec = spec_of("whole-1", "true", "x" * 3_000_000)
    for run_id in ("whole-1", "whole-2", "torn-1", "empty-1"):
        this_host.call("run.create", run_id=run_id, spec={**spec, "run_id": run_id}, files={}, secrets={})
    (this_host.folder("torn-1") / "spec.json").write_text('{"run_id": "torn')
    (this_host.folder("empty-1") / "spec.json").unlink()
    asked = ["torn-1", "empty-1", "none-1", "whole-1", "whole-2"]
    found = {entry["run_id"]: entry for entry in this_host.call("run.specs", run_ids=asked)["specs"]}
    assert found["whole-1"] == {"run_id": "whole-1", "spec": spec, "problem": None}
    assert {run_id: entry["spec"] for run_id, entry in found.items() if run_id != "whole-1"} == dict.fromkeys(asked[:3])
    assert "JSON" in found["torn-1"]["problem"]
    assert found["empty-1"]["problem"] == found["none-1"]["problem"] == "there is no spec.json"
    assert "whole-2" not in found  # an answer holds 4 MiB; it is asked for again
    assert this_host.call("run.specs", run_ids=["whole-2"])["specs"][0]["spec"]["run_id"] == "whole-2"
    with pytest.raises(Refused):
        this_host.call("run.specs", run_ids=["../etc"])


def test_what_lives_is_not_removed(this_host: Host) -> None:
    this_host.launch("alive-1", "sleep", "1000")
    this_host.await_state("alive-1", "running")
    with pytest.raises(Refused) as refused:
        this_host.call("run.remove", run_id="alive-1")
    assert refused.value.kind == "conflict"
    this_host.call("run.stop", run_id="alive-1", grace_s=1)
    this_host.await_end("alive-1")
    eventually(lambda: this_host.look("alive-1")["evidence"]["supervisor"] == "dead")
    this_host.call("run.remove", run_id="alive-1")


def starts(host: Host, run_id: str) -> int:
    return (host.folder(run_id) / "work/starts").read_text().count("start")


COUNT = ("sh", "-c", "echo start >> starts; exec sleep 1000")


def test_a_second_submit_starts_nothing(host: Host) -> None:
    first = host.launch("once-1", *COUNT)
    again = host.call("run.submit", run_id="once-1", submission=1)
    assert again == {"outcome": "already", "job": first["job"]}
    host.await_state("once-1", "running")
    host.call("run.stop", run_id="once-1", grace_s=1)
    host.await_end("once-1")
    assert host.call("run.submit", run_id="once-1", submission=1)["outcome"] == "already"
    assert starts(host, "once-1") == 1


def test_twenty_submits_at_once_start_one_job(some_python: str, converse: Callable[..., Conversation]) -> None:
    conversations = [converse(some_python) for _ in range(4)]
    host = Host(conversations[0])
    host.create("race-1", *COUNT)
    asked = [(c, c.ask("run.submit", {"run_id": "race-1", "submission": 1})) for c in conversations * 5]
    answers = [conversation.answer(number) for conversation, number in asked]
    assert [answer["outcome"] for answer in answers].count("started") == 1
    assert len({json.dumps(answer["job"], sort_keys=True) for answer in answers}) == 1
    host.await_state("race-1", "running")
    eventually((host.folder("race-1") / "work/starts").exists)
    assert starts(host, "race-1") == 1


def test_supervisors_that_race_past_the_lock_start_one_job(this_host: Host, agent: Path) -> None:
    this_host.create("race-2", *COUNT)
    claim = this_host.folder("race-2") / "submissions/1/claim.json"
    claim.parent.mkdir(parents=True)
    claim.write_text('{"time": 1, "by": "test"}')
    argv = [
        sys.executable,
        str(agent),
        "supervise",
        "--root",
        str(this_host.root),
        "--run",
        "race-2",
        "--submission",
        "1",
    ]
    racing = [
        subprocess.Popen(argv, start_new_session=True, env={**os.environ, "ARMADA_SUPERVISOR": "x"}) for _ in range(8)
    ]
    assert [process.wait() for process in racing] == [0] * 8
    this_host.await_state("race-2", "running")
    eventually((this_host.folder("race-2") / "work/starts").exists)

    # The losers have ended once nobody but the winner and its guardian hold the run's folder.
    def supervisors() -> list[Path]:
        return [p for p in Path("/proc").glob("[0-9]*/cmdline") if _holds(p, os.fsencode(this_host.root))]

    eventually(lambda: len(supervisors()) == 2)
    assert starts(this_host, "race-2") == 1


def _holds(path: Path, text: bytes) -> bool:
    try:
        return text in path.read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("moment", range(0, 12, 1 if "ARMADA_FAULT_KILLS" in os.environ else 4))
def test_a_submit_killed_at_any_moment_and_repeated_starts_one_job(
    converse: Callable[..., Conversation], moment: int
) -> None:
    doomed = converse()
    Host(doomed).create("cut-1", *COUNT)
    doomed.ask("run.submit", {"run_id": "cut-1", "submission": 1})
    killer = threading.Timer(moment * 0.025, lambda: os.kill(doomed.process.pid, signal.SIGKILL))
    killer.start()
    doomed.process.wait()
    host = Host(converse())
    host.call("run.submit", run_id="cut-1", submission=1)
    host.await_state("cut-1", "running")
    eventually((host.folder("cut-1") / "work/starts").exists)
    host.call("run.stop", run_id="cut-1", grace_s=0)
    host.await_end("cut-1")
    assert starts(host, "cut-1") == 1


def test_a_claim_nobody_took_up_may_be_retried(this_host: Host) -> None:
    this_host.create("claim-1", "true")
    claim = this_host.folder("claim-1") / "submissions/1/claim.json"
    claim.parent.mkdir()
    claim.write_text('{"time": 1, "by": "a submit that was killed"}')
    assert this_host.look("claim-1")["evidence"]["supervisor"] == "none"
    assert this_host.call("run.submit", run_id="claim-1", submission=1)["outcome"] == "started"
    assert this_host.await_end("claim-1")["state"] == "succeeded"
    assert "killed" in claim.read_text()


def test_another_submission_of_an_active_run_conflicts(this_host: Host) -> None:
    this_host.launch("second-1", "sleep", "1000")
    this_host.await_state("second-1", "running")
    for number in (2, 7):
        with pytest.raises(Refused) as refused:
            this_host.call("run.submit", run_id="second-1", submission=number)
        assert refused.value.kind == "conflict"
    this_host.call("run.stop", run_id="second-1", grace_s=0)
    this_host.await_end("second-1")
    assert this_host.call("run.submit", run_id="second-1", submission=2)["outcome"] == "started"
    state = this_host.await_state("second-1", "running", submission=2)
    assert state["attempt"] == 2


def test_an_unknown_run_cannot_be_submitted(this_host: Host) -> None:
    with pytest.raises(Refused) as refused:
        this_host.call("run.submit", run_id="none-1", submission=1)
    assert refused.value.kind == "not_found"


def test_the_job_outlives_the_conversation(host: Host, converse: Callable[..., Conversation], python: str) -> None:
    host.launch("outlive-1", "sh", "-c", "until [ -e go ]; do sleep 0.05; done; echo done")
    assert host.conversation.hang_up() == 0
    later = Host(converse(python))
    later.await_state("outlive-1", "running")
    (later.folder("outlive-1") / "work/go").touch()
    assert later.await_end("outlive-1")["state"] == "succeeded"
    assert later.output("outlive-1") == "done\n"


def test_a_run_can_be_made_and_handed_over_in_one_question_however_often_it_is_asked(host: Host) -> None:
    asked: dict[str, Any] = {
        "run_id": "both-1",
        "spec": spec_of("both-1", "sh", "-c", "echo $PIN >> out"),
        "files": {},
        "secrets": {"PIN": "7"},
    }
    first = host.call("run.create", **asked, submission=1)
    assert (first["created"], first["submitted"]["outcome"]) == (True, "started")
    second = host.call("run.create", **asked, submission=1)
    assert (second["created"], second["submitted"]["outcome"]) == (False, "already")
    assert second["submitted"]["job"] == first["submitted"]["job"]
    assert host.await_end("both-1")["state"] == "succeeded"
    assert (host.folder("both-1") / "work" / "out").read_text() == "7\n"


def test_a_run_that_is_refused_is_not_handed_over(this_host: Host) -> None:
    spec = spec_of("both-2", "true", job={"code": "/no/such/folder"})
    with pytest.raises(Refused, match="not on this host"):
        this_host.call("run.create", run_id="both-2", spec=spec, files={}, secrets={}, submission=1)
    assert not this_host.folder("both-2").exists()
