"""Submitters of which nobody knows what they did, and stops of jobs that wait again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.agent.conversation import Conversation, Refused
from tests.agent.test_agent_slurm import SHOWN, SPEC, Programs, hand_over, programs, slurm_host

__all__ = ["programs", "slurm_host"]  # fixtures


@pytest.mark.parametrize(
    ("text", "seq"),
    [
        ('{"state": "queued", "submission": 1, "attempt": 0, "seq": 4}', 5),
        ('{"state": "queued", "submission": 0, "attempt": 0, "seq": 4}', 1),
        (None, 1),
    ],
)
def test_a_stop_before_the_first_attempt_is_the_next_record_of_a_job_that_was_preempted(
    slurm_host: Callable[[], Conversation], programs: Programs, text: str | None, seq: int
) -> None:
    """A lower one counts as an older copy of the host's disk."""
    host = slurm_host()
    hand_over(host, programs)
    state = host.root / "runs" / "a-1" / "state.json"
    if text is not None:
        state.write_text(text)
    programs.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    programs.say("job", SHOWN.format(11, "armada.a-1.1", "PENDING"))
    assert host.call("run.stop", run_id="a-1", grace_s=0.0)["outcome"] == "cancelled_before_start"
    found = json.loads(state.read_text())
    assert (found["state"], found["attempt"], found["seq"]) == ("cancelled", 0, seq)


@pytest.mark.parametrize(
    "script",
    ["kill -9 $$", "exit 137", "echo '11;cluster'; exit 1"],
    ids=["killed", "killed in a wrapper", "told its id"],
)
def test_a_submitter_that_was_killed_or_told_a_jobs_id_has_not_refused_it(
    slurm_host: Callable[[], Conversation], programs: Programs, script: str
) -> None:
    host = slurm_host()
    (programs.folder / "sbatch").write_text(f"#!/bin/sh\n{script}\n")
    host.call("run.create", run_id="a-1", spec=SPEC, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets={})
    with pytest.raises(Refused) as caught:
        host.call("run.submit", run_id="a-1", submission=1)
    assert caught.value.kind == "outcome_unknown"
    programs.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    assert host.call("run.submit", run_id="a-1", submission=1)["job"]["job_id"] == "11"


def test_a_job_that_has_begun_was_not_refused(slurm_host: Callable[[], Conversation], programs: Programs) -> None:
    host = slurm_host()
    taken = host.root / "runs" / "a-1" / "submissions" / "1" / "taken.json"
    script = f'#!/bin/sh\necho \'{{"job_id": "11"}}\' > {taken}\necho invalid partition >&2\nexit 1\n'
    (programs.folder / "sbatch").write_text(script)
    host.call("run.create", run_id="a-1", spec=SPEC, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets={})
    with pytest.raises(Refused, match="invalid partition") as caught:
        host.call("run.submit", run_id="a-1", submission=1)
    assert (caught.value.kind, (taken.parent / "claim.json").exists()) == ("outcome_unknown", True)
    assert host.call("run.submit", run_id="a-1", submission=1)["job"]["job_id"] == "11"


@pytest.mark.parametrize("older", [False, True], ids=["", "asked by an older agent"])
def test_a_job_whose_answer_and_plan_are_lost_is_found_where_it_was_asked_for(
    slurm_host: Callable[[], Conversation], programs: Programs, older: bool
) -> None:
    host = slurm_host()
    programs.say("sbatch", "Socket timed out\n", code=1)
    host.call("run.create", run_id="a-1", spec=SPEC, files={"launch/job.sbatch": "#!/bin/sh\n"}, secrets={})
    with pytest.raises(Refused):
        host.call("run.submit", run_id="a-1", submission=1)
    run = host.root / "runs" / "a-1"
    asked = run / "submissions" / "1" / "asked.json"
    assert json.loads(asked.read_text())["scheduler"] == "slurm"
    (run / "spec.json").unlink()
    programs.say("squeue", "11|PENDING|Priority||armada.a-1.1\n")
    if older:
        asked.write_text('{"time": 1}')
        with pytest.raises(Refused, match="unknown which batch system") as caught:
            host.call("run.stop", run_id="a-1", grace_s=0.0)
        assert (caught.value.kind, programs.calls("scancel")) == ("outcome_unknown", 0)
        return
    programs.say("job", SHOWN.format(11, "armada.a-1.1", "PENDING"))
    assert host.call("run.stop", run_id="a-1", grace_s=0.0)["outcome"] == "cancelled_before_start"
    assert programs.calls("scancel") == 1
