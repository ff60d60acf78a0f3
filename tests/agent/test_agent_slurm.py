"""What Slurm prints, and what is believed of it: recordings of 22.05, and answers that cannot be had from a healthy one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import slurm_answers, slurm_nodes

from tests.agent.conversation import Conversation, Refused, spec_of
from tests.waiting import eventually

QUEUE = """3|CANCELLED|None|node1|armada.a-1.1
5|PENDING|BeginTime||armada.b-1.1
8|COMPLETING|None|node2|armada.c-1.1
4|RUNNING|None|node2|a | name of | somebody's
9|CANCELLED by 1001|None|node2|armada.d-1.1
not a line of ours
"""
SACCT = """11|PREEMPTED|0:15|2026-11-20T14:00:17|node1|armada.a-1.1
11|COMPLETED|0:0|2026-11-20T15:00:17|node2|armada.a-1.1
12|FAILED|1:0|2026-11-20T15:00:17|node2|another
"""
SETTINGS = {"kind": "slurm", "poll_s": 0.05, "max_retries": 0, "requeue_at_time_limit": True}
SPEC = spec_of("a-1", "true", scheduler=SETTINGS)
# Prints what the test put beside it and notes that it was called, as `squeue` of a controller in trouble would.
PROGRAM = """#!/bin/sh
echo "$@" >> {folder}/{name}.calls
cat {folder}/{name}.out
exit $(cat {folder}/{name}.code)
"""
# `scontrol show job` answers for itself, about any id.
SCONTROL = """#!/bin/sh
name=scontrol
case "$*" in *"show job "*) name=job ;; esac
echo "$@" >> {folder}/$name.calls
cat {folder}/$name.out
exit $(cat {folder}/$name.code)
"""
INVALID = "slurm_load_jobs error: Invalid job id specified\n"
# As Slurm 20.11 to 24.11 print it, shortened.
SHOWN = "JobId={} JobName={} UserId=researcher(1000) JobState={} Reason=None NodeList=(null)\n"


def test_lines_of_squeue_become_rows() -> None:
    answer = slurm_answers.parse_queue(QUEUE)
    assert {name: row["state"] for name, row in answer.rows.items()} == {
        "armada.a-1.1": "CANCELLED",
        "armada.b-1.1": "PENDING",
        "armada.c-1.1": "COMPLETING",
        "a | name of | somebody's": "RUNNING",
        "armada.d-1.1": "CANCELLED",
    }
    assert answer.doubt is not None
    assert "not a line of ours" in answer.doubt


def test_of_two_jobs_of_one_name_the_living_one_counts() -> None:
    ended, waiting = "3|CANCELLED|None|n|x\n", "9|PENDING|Priority||x\n"
    assert slurm_answers.parse_queue(ended + waiting).rows["x"]["id"] == "9"
    assert slurm_answers.parse_queue(waiting + ended).rows["x"]["id"] == "9"


def test_the_last_record_of_a_requeued_job_counts() -> None:
    found = slurm_answers.parse_accounting(SACCT, "armada.a-1.1")
    assert found is not None
    assert (found["state"], found["node"]) == ("COMPLETED", "node2")
    assert slurm_answers.parse_accounting(SACCT, "armada.z-1.1") is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:4", 4),
        ("gpu:a100:4(S:0-1)", 4),
        ("gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:0)", 3),
        ("(null)", 0),
        ("mps:100", 0),
    ],
)
def test_gpus_are_counted(text: str, count: int) -> None:
    assert slurm_nodes.count_gres(text) == count


class Programs:
    """Stand-ins for Slurm's programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("squeue", "sbatch", "scancel", "scontrol", "sacct", "sinfo"):
            (folder / name).write_text(PROGRAM.format(folder=folder, name=name))
            (folder / name).chmod(0o755)
            self.say(name, "", code=0 if name != "sacct" else 1)
        (folder / "scontrol").write_text(SCONTROL.format(folder=folder))
        self.say("scontrol", "MinJobAge               = 300 sec\n")
        self.say("job", INVALID, code=1)

    def say(self, name: str, text: str, code: int = 0) -> None:
        for end, content in (("out", text), ("code", str(code))):
            new = self.folder / f"{name}.{end}.new"
            new.write_text(content)
            new.rename(self.folder / f"{name}.{end}")

    def calls(self, name: str) -> int:
        file = self.folder / f"{name}.calls"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Programs(folder)


@pytest.fixture
def slurm_host(
    programs: Programs, some_python: str, unpacked: Path, root: Path
) -> Iterator[Callable[[], Conversation]]:
    """A function that begins another conversation with a host whose Slurm is the stand-in."""
    open_ones: list[Conversation] = []

    def begin() -> Conversation:
        environment = {**os.environ, "PATH": f"{programs.folder}:{os.environ['PATH']}"}
        open_ones.append(Conversation(some_python, unpacked, root, environment))
        return open_ones[-1]

    yield begin
    for conversation in open_ones:
        conversation.hang_up()


def hand_over(host: Conversation, programs: Programs, **secrets: str) -> None:
    programs.say("sbatch", "11;cluster\n")
    spec = {**SPEC, "job": {**SPEC["job"], "secrets": list(secrets)}}
    host.call("run.create", run_id="a-1", spec=spec, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets=secrets)
    assert host.call("run.submit", run_id="a-1", submission=1)["job"]["job_id"] == "11"


def look(host: Conversation) -> dict[str, Any]:
    (run,) = host.call("run.observe", runs=[{"run_id": "a-1", "metrics_offset": 0, "events_offset": 0}])["runs"]
    scheduler_status: dict[str, Any] = run["evidence"]["scheduler"]
    return scheduler_status


def becomes(host: Conversation, state: str) -> None:
    eventually(lambda: look(host)["state"] == state)


def been_away(host: Conversation, seconds: float, looks: int) -> None:
    """Have the job missed for so long already."""
    file = host.root / "runs" / "a-1" / "submissions" / "1" / "liveness.json"
    kept = json.loads(file.read_text())
    (reader,) = kept["readers"]
    for word in ("since", "still"):
        reader["watch"][word] -= seconds
    reader["watch"]["looks"] = looks
    file.write_text(json.dumps(kept))


def test_an_empty_answer_is_believed_only_when_it_persists(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    becomes(host, "running")
    programs.say("squeue", "")
    becomes(host, "unknown")
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    becomes(host, "running")
    assert not (host.root / "runs" / "a-1" / "submissions" / "1" / "liveness.json").exists()


def test_a_job_that_stays_away_is_gone(slurm_host: Callable[[], Conversation], programs: Programs) -> None:
    host = slurm_host()
    hand_over(host, programs)
    becomes(host, "unknown")
    been_away(host, 40, looks=2)
    programs.say("job", INVALID, code=1)
    becomes(host, "gone")


def test_a_job_that_is_only_gone_keeps_its_secrets_until_a_person_ends_it(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs, TOKEN="x")
    becomes(host, "unknown")
    been_away(host, 40, looks=2)
    programs.say("job", INVALID, code=1)
    becomes(host, "gone")
    secrets = host.root / "runs" / "a-1" / "secrets.env"
    assert secrets.exists()
    assert host.call("host.forget_secrets", leaves=True)["kept"] == ["a-1"]
    with pytest.raises(Refused, match="is still alive"):
        host.call("host.wipe")
    with pytest.raises(Refused, match="is still alive"):
        host.call("run.remove", run_id="a-1")
    host.call("run.stop", run_id="a-1", grace_s=0.0)
    state = host.root / "runs" / "a-1" / "state.json"
    assert eventually(lambda: state.exists() and json.loads(state.read_text())["state"] == "cancelled")
    assert not secrets.exists()


GONE = "slurm_load_jobs error: Invalid job id specified\n"
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
ENDED = "JobId=11 JobName=armada.a-1.1 JobState=NODE_FAIL Reason=None NodeList=n1\n"


@pytest.mark.parametrize(
    ("queue", "by_id", "code", "stay"),
    [
        ("11|NODE_FAIL|None|n1|armada.a-1.1\n", GONE, 1, True),
        ("", ENDED, 0, True),
        ("", DOWN, 1, True),
        ("", GONE, 1, False),
    ],
    ids=["listed", "known by its id", "not to be asked", "forgotten"],
)
def test_a_job_that_its_scheduler_says_has_ended_leaves_no_secrets_once_it_cannot_be_requeued(
    slurm_host: Callable[[], Conversation], programs: Programs, queue: str, by_id: str, code: int, stay: bool
) -> None:
    host = slurm_host()
    hand_over(host, programs, TOKEN="x")
    secrets = host.root / "runs" / "a-1" / "secrets.env"
    programs.say("squeue", "11|NODE_FAIL|None|n1|armada.a-1.1\n")
    becomes(host, "ended")
    assert secrets.exists()
    programs.say("job", by_id, code=code)
    programs.say("squeue", queue)
    been_away(host, 7200, looks=2)
    asked = programs.calls("squeue")
    eventually(lambda: [look(host), programs.calls("squeue") > asked + 1][1])
    assert eventually(lambda: look(host)["state"] == "ended" and secrets.exists() is stay)


@pytest.mark.parametrize("leaves", [False, True])
def test_who_leaves_takes_the_secrets_of_a_job_that_is_still_listed(
    slurm_host: Callable[[], Conversation], programs: Programs, *, leaves: bool
) -> None:
    host = slurm_host()
    hand_over(host, programs, TOKEN="x")
    programs.say("squeue", "11|NODE_FAIL|None|n1|armada.a-1.1\n")
    becomes(host, "ended")
    assert host.call("host.forget_secrets", leaves=leaves)["removed"] == (["a-1"] if leaves else [])


def test_a_gone_job_can_be_handed_over_again(slurm_host: Callable[[], Conversation], programs: Programs) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("job", INVALID, code=1)
    becomes(host, "unknown")
    been_away(host, 40, looks=2)
    becomes(host, "gone")
    (host.root / "runs" / "a-1" / "launch" / "job.sbatch").write_text("# armada_submission\n")
    programs.say("sbatch", "12;cluster\n")
    assert host.call("run.submit", run_id="a-1", submission=2)["job"]["job_id"] == "12"


def test_accounting_knows_how_a_job_that_is_gone_ended(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("sacct", "11|TIMEOUT|0:0|2026-11-20T15:00:17|node2|armada.a-1.1\n")
    becomes(host, "unknown")
    been_away(host, 40, looks=9)
    programs.say("job", INVALID, code=1)
    seen = eventually(lambda: (s := look(host))["state"] == "ended" and s)
    assert (seen["detail"], seen["reason"]) == ("TIMEOUT", "time_limit")


def test_how_a_job_ended_is_remembered_when_slurm_has_forgotten_the_job(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|NODE_FAIL|None|n1|armada.a-1.1\n")
    becomes(host, "ended")
    programs.say("squeue", "")
    been_away(host, 7200, looks=2)
    asked, seen = programs.calls("squeue"), []

    def is_asked_twice_more() -> bool:
        seen.append(look(host))
        return programs.calls("squeue") >= asked + 2

    eventually(is_asked_twice_more)
    assert {(each["state"], each["reason"], each["detail"]) for each in seen} == {
        ("ended", "node_failure", "NODE_FAIL")
    }
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    becomes(host, "running")
    programs.say("squeue", "")
    becomes(host, "unknown")  # that end was another one's


def test_an_end_is_not_recalled_of_a_job_that_has_written_since(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|NODE_FAIL|None|n1|armada.a-1.1\n")
    becomes(host, "ended")
    (host.root / "runs" / "a-1" / "output.log").write_text("I live\n")
    programs.say("squeue", "")
    becomes(host, "unknown")


def test_an_end_is_not_recalled_of_a_job_that_slurm_shows_by_its_id(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|NODE_FAIL|None|n1|armada.a-1.1\n")
    becomes(host, "ended")
    programs.say("job", "JobId=11 JobName=armada.a-1.1 JobState=PENDING Reason=BeginTime NodeList=(null)\n")
    programs.say("squeue", "")
    becomes(host, "pending")
    programs.say("job", INVALID, code=1)
    been_away(host, 120, looks=2)
    becomes(host, "unknown")  # it came back after that end


def test_a_controller_that_is_down_changes_only_the_age(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    before = eventually(lambda: (s := look(host))["state"] == "running" and s)
    programs.say("squeue", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", code=1)
    after = eventually(lambda: (s := look(host))["error"] and s)
    assert after["state"] == "running"
    assert before["seen_at"] <= after["seen_at"] < eventually(lambda: host.call("host.facts")["time"])
    assert "Unable to contact" in after["error"]


def test_a_stop_while_the_controller_is_down_is_recorded_and_says_so(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    eventually(lambda: look(host)["state"] == "running")
    programs.say("job", SHOWN.format(11, "armada.a-1.1", "RUNNING"))
    down = "scancel: error: Kill job error on job id 11: Unable to contact slurm controller (connect failure)\n"
    programs.say("scancel", down, code=1)
    answer = host.call("run.stop", run_id="a-1", grace_s=5.0)
    assert answer["outcome"] == "stopping"
    assert "Unable to contact slurm controller" in answer["problem"]
    assert json.loads((host.root / "runs" / "a-1" / "stop.json").read_text())["grace_s"] == 5.0
    programs.say("scancel", "scancel: error: Access/permission denied\n", code=1)
    with pytest.raises(Refused, match="permission denied"):
        host.call("run.stop", run_id="a-1", grace_s=5.0)


def test_a_job_whose_dependency_failed_is_not_said_to_wait() -> None:
    assert "never starts: stop it" in str(slurm_answers.explain_reason("DependencyNeverSatisfied"))
    assert slurm_answers.explain_reason("Dependency") == "waiting for another job"


@pytest.mark.parametrize(
    ("nodes", "failed"), [("n1|down*\n", "n1 (down*)"), ("n1|idle\n", None), ("", None), ("n1\x00||\ngarbage", None)]
)
def test_a_job_that_waits_again_says_that_its_node_failed(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, nodes: str, failed: str | None
) -> None:
    monkeypatch.setenv("PATH", f"{programs.folder}:{os.environ['PATH']}")
    programs.say("sinfo", nodes)
    ran = slurm_answers.parse_queue("11|RUNNING|None|n1|x\n12|RUNNING|None|--all;n[1-2]|y\n").rows
    waits = slurm_answers.parse_queue("11|PENDING|BeginTime||x\n12|PENDING|BeginTime||y\n").rows
    slurm_nodes.note_failed(ran, waits)
    assert (waits["x"].get("failed"), waits["y"].get("failed")) == (failed, None)
    programs.say("sinfo", "n1|idle\n")
    later = slurm_answers.parse_queue("11|PENDING|BeginTime||x\n").rows
    slurm_nodes.note_failed(waits, later)
    assert later["x"].get("failed") == failed
    assert programs.calls("sinfo") == 1


def test_everybody_who_looks_shares_one_answer(slurm_host: Callable[[], Conversation], programs: Programs) -> None:
    host = slurm_host()
    hand_over(host, programs)
    spec = host.root / "runs" / "a-1" / "spec.json"
    spec.write_text(json.dumps({**SPEC, "scheduler": {**SETTINGS, "poll_s": 3600.0}}))
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    for conversation in (host, slurm_host(), slurm_host()):
        for _ in range(3):
            look(conversation)
    assert programs.calls("squeue") == 1


def test_a_lost_answer_is_looked_up_and_nothing_is_handed_over_twice(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    programs.say(
        "sbatch", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n", code=1
    )
    host.call("run.create", run_id="a-1", spec=SPEC, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets={})
    with pytest.raises(Refused) as first:
        host.call("run.submit", run_id="a-1", submission=1)
    assert first.value.kind == "outcome_unknown"
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    assert host.call("run.submit", run_id="a-1", submission=1)["job"]["job_id"] == "11"
    assert host.call("run.submit", run_id="a-1", submission=1)["outcome"] == "already"
    assert programs.calls("sbatch") == 1


def test_a_job_that_could_not_start_now_is_answered_with_its_wait_and_one_that_never_could_with_its_refusal(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    asked: dict[str, Any] = {"scheduler": "slurm", "file": "#!/bin/sh\n#SBATCH --cpus-per-task=1\n"}
    assert host.call("scheduler.check", **asked) == {"refusal": None, "wait": None, "starts_in_s": None}
    programs.say("sbatch", "allocation failure: Requested node configuration is not available\n", code=1)
    assert "Requested node" in host.call("scheduler.check", **asked)["refusal"]
    programs.say("sinfo", "main*|n1|drain|8|64000|(null)|new disks|\n")
    answer = host.call("scheduler.check", **asked)
    assert (answer["refusal"], answer["wait"].endswith("n1 (drain: new disks)")) == (None, True)


def test_what_cannot_be_known_is_never_handed_over_again(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    programs.say("sbatch", "Socket timed out\n", code=1)
    host.call("run.create", run_id="a-1", spec=SPEC, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets={})
    with pytest.raises(Refused):
        host.call("run.submit", run_id="a-1", submission=1)
    asked = host.root / "runs" / "a-1" / "submissions" / "1" / "asked.json"
    asked.write_text(json.dumps({"time": json.loads(asked.read_text())["time"] - 3600}))  # Slurm has forgotten by now
    with pytest.raises(Refused, match="it is unknown whether") as caught:
        host.call("run.submit", run_id="a-1", submission=1)
    assert caught.value.kind == "outcome_unknown"
    assert programs.calls("sbatch") == 1


def test_a_job_is_asked_for_and_stopped_though_its_plan_is_gone(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|PENDING|Priority||armada.a-1.1\n")
    (host.root / "runs" / "a-1" / "spec.json").unlink()
    becomes(host, "pending")
    programs.say("job", SHOWN.format(11, "armada.a-1.1", "PENDING"))
    assert host.call("run.stop", run_id="a-1", grace_s=0.0)["outcome"] == "cancelled_before_start"
    assert (programs.folder / "scancel.calls").read_text().split() == ["11"]
    with pytest.raises(Refused, match=r"the plan of run a-1, spec\.json, is no longer on its host"):
        host.call("run.submit", run_id="a-1", submission=2)


def test_a_folder_of_a_submission_without_a_claim_hides_no_job(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    """Whoever was ended between the two submitted nothing; the same request, repeated, finds the job that lives."""
    host = slurm_host()
    hand_over(host, programs)
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    (host.root / "runs" / "a-1" / "submissions" / "2").mkdir()
    becomes(host, "running")
    (listed,) = host.call("run.list")["runs"]
    assert listed["submission"] == 1
    with pytest.raises(Refused) as caught:
        host.call("run.submit", run_id="a-1", submission=2)
    assert (caught.value.kind, programs.calls("sbatch")) == ("conflict", 1)


def test_a_refused_job_may_be_mended_and_handed_over_again(
    slurm_host: Callable[[], Conversation], programs: Programs
) -> None:
    host = slurm_host()
    programs.say("sbatch", "sbatch: error: invalid partition specified: nope\n", code=1)
    host.call("run.create", run_id="a-1", spec=SPEC, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets={})
    with pytest.raises(Refused, match="invalid partition") as caught:
        host.call("run.submit", run_id="a-1", submission=1)
    assert caught.value.kind == "scheduler"
    hand_over(host, programs)
