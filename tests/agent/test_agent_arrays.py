"""Cells of a sweep as one array of jobs: submitted once, each a run of its own, whatever is killed or lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import array_records, htcondor, htcondor_schedd, slurm_answers
from armada_agent.engines.engine import EngineError, Handed, HandedArray, Place, read_place
from armada_agent.foundation import files
from armada_agent.paths import RunPaths, SweepPaths

from tests.agent.conversation import Conversation, Refused, spec_of
from tests.agent.test_agent_slurm import SETTINGS, Programs

QUEUE = """100_0|RUNNING|None|n1|armada.grid-1.array1
100_1|PENDING|JobArrayTaskLimit||armada.grid-1.array1
100_2|PENDING|JobArrayTaskLimit||armada.grid-1.array1
7_3|RUNNING|None|n2|somebody.elses
8+0|RUNNING|None|n2|a heterogeneous job
"""
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"
CONFIG = "MinJobAge               = 300 sec\nMaxArraySize            = {}\n"


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    found = Programs(folder)
    found.say("sbatch", "100\n")
    return found


@pytest.fixture
def begin(programs: Programs, some_python: str, unpacked: Path, root: Path) -> Iterator[Callable[[], Conversation]]:
    """A function that begins another conversation with a host whose Slurm is the stand-in."""
    open_ones: list[Conversation] = []

    def another() -> Conversation:
        environment = {**os.environ, "PATH": f"{programs.folder}:{os.environ['PATH']}"}
        open_ones.append(Conversation(some_python, unpacked, root, environment))
        return open_ones[-1]

    yield another
    for conversation in open_ones:
        conversation.hang_up()


def names(count: int) -> list[str]:
    return [f"grid-1-{number:03}" for number in range(1, count + 1)]


def start(
    host: Conversation, cells: list[str], parallel: int = 2, *, create: bool = True, **more: Any
) -> dict[str, Any]:
    asked = [
        {
            "run_id": each,
            "spec": spec_of(each, "true", scheduler=SETTINGS),
            "files": {"launch/job.sbatch": "#!/bin/sh\n"},
        }
        for each in cells
        if create
    ]
    arrays = more.pop("arrays", [{"cells": cells, "files": {"job.sbatch": "#!/bin/sh\n"}}])
    return host.call("sweep.start", sweep="grid-1", parallel=parallel, cells=asked, arrays=arrays, **more)


def lose_the_answer(host: Conversation, programs: Programs, cells: list[str]) -> None:
    """Hand cells over to a Slurm of which nobody knows afterwards whether it has them."""
    programs.say("sbatch", TIMED_OUT, code=1)
    with pytest.raises(Refused):
        start(host, cells)


def argv(programs: Programs, name: str = "sbatch") -> list[list[str]]:
    file = programs.folder / f"{name}.calls"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def job(host: Conversation, run_id: str) -> Any:
    file = host.root / "runs" / run_id / "submissions" / "1" / "job.json"
    return json.loads(file.read_text())["job_id"] if file.exists() else None


def look(host: Conversation, run_id: str) -> dict[str, Any]:
    asked = [{"run_id": run_id, "metrics_offset": 0, "events_offset": 0}]
    found: dict[str, Any] = host.call("run.observe", runs=asked)["runs"][0]["evidence"]
    return found


def test_cells_become_one_array_and_each_finds_its_run(begin: Callable[[], Conversation], programs: Programs) -> None:
    host, cells = begin(), names(3)
    answer = start(host, cells)
    assert answer == {
        "cells": [{"run_id": each, "outcome": "claimed"} for each in cells],
        "arrays": [{"job_id": "100", "cells": 3, "limit": 2}],
    }
    (words,) = argv(programs)
    folder = host.root / "sweeps" / "grid-1" / "arrays" / "1"
    assert {"--array=0-2%2", "--job-name=armada.grid-1.array1", f"--output={folder}/%a/scheduler.log"} <= set(words)
    assert (folder / "cells.txt").read_text().split() == cells
    assert [(folder / str(index)).resolve().name for index in range(3)] == cells
    assert [job(host, each) for each in cells] == ["100_0", "100_1", "100_2"]
    programs.say("squeue", QUEUE)
    states = [look(host, each)["scheduler"]["state"] for each in cells]
    assert states == ["running", "pending", "pending"]


def test_handing_over_twice_submits_one_array(begin: Callable[[], Conversation], programs: Programs) -> None:
    cells = names(3)
    start(begin(), cells)
    answer = start(begin(), cells)
    assert ({cell["outcome"] for cell in answer["cells"]}, answer["arrays"]) == ({"already"}, [])
    assert programs.calls("sbatch") == 1


def test_cells_may_come_in_several_requests_and_are_submitted_with_the_last(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(4)
    created = start(host, cells[:2], arrays=None)
    assert {cell["outcome"] for cell in created["cells"]} == {"created"}
    assert not look(host, cells[0])["submission"]
    arrays = [{"cells": cells, "files": {"job.sbatch": "#!/bin/sh\n"}}]
    answer = start(host, cells[2:], parallel=9, arrays=arrays)
    assert [cell["outcome"] for cell in answer["cells"]] == ["claimed"] * 4
    assert "--array=0-3" in argv(programs)[0]


def test_an_array_whose_answer_was_lost_is_found_by_its_name(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(3)
    programs.say("sbatch", TIMED_OUT, code=1)
    with pytest.raises(Refused) as lost:
        start(host, cells)
    assert lost.value.kind == "outcome_unknown"
    assert look(host, cells[0])["submission"] == {"number": 1, "claimed": True, "job": None}
    programs.say("squeue", QUEUE)
    assert host.call("sweep.tend", sweeps=["grid-1"]) == {"sweeps": [{"sweep": "grid-1", "waiting": 0}]}
    assert [job(host, each) for each in cells] == ["100_0", "100_1", "100_2"]
    assert programs.calls("sbatch") == 1


def test_an_array_that_slurm_may_have_forgotten_is_not_submitted_again(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(2)
    lose_the_answer(host, programs, cells)
    asked = host.root / "sweeps" / "grid-1" / "arrays" / "1" / "asked.json"
    asked.write_text(json.dumps({"time": json.loads(asked.read_text())["time"] - 3600}))
    with pytest.raises(Refused, match="it is unknown whether slurm already has") as unknown:
        start(host, cells)
    assert unknown.value.kind == "outcome_unknown"
    with pytest.raises(Refused, match="it is unknown whether slurm already has"):
        host.call("run.stop", run_id=cells[0], grace_s=1)
    assert host.call("sweep.tend", sweeps=["grid-1"])["sweeps"][0]["waiting"] == 2
    assert programs.calls("sbatch") == 1
    programs.say("sacct", "100_0|COMPLETED|0:0|Unknown|n1|armada.grid-1.array1\n")
    start(host, cells)
    assert job(host, cells[1]) == "100_1"


def test_an_array_of_which_nothing_is_known_keeps_no_other_cells_waiting(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(4)
    lose_the_answer(host, programs, cells[:2])
    (host.root / "sweeps" / "grid-1" / "arrays" / "1" / "array.json").write_text("{")
    programs.say("sbatch", "101\n")
    start(host, cells[2:])
    assert [job(host, each) for each in cells] == [None, None, "101_0", "101_1"]


@pytest.mark.parametrize("left", ["array.json", "claims", "asked.json", "job.json"])
def test_a_hand_over_killed_at_any_step_is_completed_by_tending(
    begin: Callable[[], Conversation], programs: Programs, left: str
) -> None:
    host, cells = begin(), names(3)
    start(host, cells)
    array = host.root / "sweeps" / "grid-1" / "arrays" / "1"
    steps = ["array.json", "claims", "asked.json", "job.json"]
    undone = steps[steps.index(left) + 1 :]
    (array / "done.json").unlink()
    for name in undone:
        for path in [array / name] if name != "claims" else []:
            path.unlink()
    for each in cells[1:]:
        for name in ["job.json", *(["claim.json", "array.json"] if "claims" in undone else [])]:
            (host.root / "runs" / each / "submissions" / "1" / name).unlink()
    was_submitted = "asked.json" not in undone
    programs.say("squeue", QUEUE if was_submitted else "")
    programs.say("sbatch", "100\n")
    host.call("sweep.tend", sweeps=["grid-1"])
    assert [job(host, each) for each in cells] == ["100_0", "100_1", "100_2"]
    assert programs.calls("sbatch") == (1 if was_submitted else 2)


def test_a_refused_array_leaves_no_claims(begin: Callable[[], Conversation], programs: Programs) -> None:
    host, cells = begin(), names(2)
    programs.say("sbatch", "sbatch: error: invalid partition specified: nope\n", code=1)
    with pytest.raises(Refused, match="invalid partition") as refused:
        start(host, cells, secrets={"KEY": "1"})
    assert refused.value.kind == "scheduler"
    assert look(host, cells[0])["submission"] is None
    secrets = [host.root / "runs" / each / "secrets.env" for each in cells]
    assert [each.exists() for each in secrets] == [False, False]
    programs.say("sbatch", "100\n")
    assert {cell["outcome"] for cell in start(host, cells, secrets={"KEY": "1"})["cells"]} == {"claimed"}
    assert [each.exists() for each in secrets] == [True, True]


def test_a_refused_array_says_nothing_of_one_that_an_earlier_request_submitted(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(4)
    start(host, cells[:2])
    programs.say("sbatch", "sbatch: error: invalid partition specified: nope\n", code=1)
    with pytest.raises(Refused, match="invalid partition") as refused:
        start(host, cells)
    assert refused.value.kind == "outcome_unknown"
    assert [look(host, each)["submission"] is None for each in cells] == [False, False, True, True]


def test_an_array_that_is_refused_while_nobody_waits_ends_its_cells(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(2)
    lose_the_answer(host, programs, cells)
    programs.say("sbatch", "sbatch: error: invalid partition specified: nope\n", code=1)
    assert host.call("sweep.tend", sweeps=["grid-1"])["sweeps"][0]["waiting"] == 0
    state = look(host, cells[0])["state"]
    assert (state["state"], state["reason"]) == ("failed", "never_started")
    assert "invalid partition" in state["message"]


def test_more_cells_than_an_array_may_have_become_several_that_keep_the_limit_together(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(5)
    programs.say("scontrol", CONFIG.format(2))
    answer = start(host, cells, parallel=2)
    assert [(each["cells"], each["limit"]) for each in answer["arrays"]] == [(2, 1), (2, 1), (1, 1)]
    throttles = [next(word for word in words if word.startswith("--array=")) for words in argv(programs)]
    assert throttles == ["--array=0-1%1", "--array=0-1%1", "--array=0-0"]
    assert ["--dependency=afterany:100" in words for words in argv(programs)] == [False, False, True]


def test_a_cell_that_was_stopped_before_is_not_submitted(begin: Callable[[], Conversation], programs: Programs) -> None:
    host, cells = begin(), names(3)
    start(host, cells, arrays=None)
    host.call("run.stop", run_id=cells[1], grace_s=1)
    outcomes = {cell["run_id"]: cell["outcome"] for cell in start(host, cells)["cells"]}
    assert outcomes == {cells[0]: "claimed", cells[1]: "cancelled", cells[2]: "claimed"}
    assert "--array=0-1" in argv(programs)[0]


def test_one_cell_is_cancelled_by_its_own_id(begin: Callable[[], Conversation], programs: Programs) -> None:
    host, cells = begin(), names(3)
    start(host, cells)
    programs.say("squeue", QUEUE)
    programs.say("job", SHOWN.format(100, 2, "armada.grid-1.array1"))
    assert host.call("run.stop", run_id=cells[2], grace_s=5)["outcome"] == "cancelled_before_start"
    programs.say("job", SHOWN.format(101, 0, "armada.grid-1.array1").replace("PENDING", "RUNNING"))
    assert host.call("run.stop", run_id=cells[0], grace_s=5)["outcome"] == "stopping"
    assert argv(programs, "scancel") == [["100_2"], ["--batch", "--signal=TERM", "100_0"]]


def test_a_job_of_an_array_that_has_ended_already_can_be_stopped(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(3)
    start(host, cells)
    programs.say("squeue", QUEUE)
    programs.say("job", SHOWN.format(101, 0, "armada.grid-1.array1").replace("PENDING", "FAILED"))
    programs.say("scancel", "", code=229)  # as Slurm 22.05 does, without a word
    assert host.call("run.stop", run_id=cells[0], grace_s=5)["outcome"] == "stopping"
    programs.say("scancel", "", code=1)
    with pytest.raises(Refused, match="exit code 1"):
        host.call("run.stop", run_id=cells[0], grace_s=5)


def test_jobs_that_somebody_cancelled_while_they_waited_are_one_row(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(3)
    lose_the_answer(host, programs, cells)
    programs.say(
        "squeue", "100|CANCELLED|JobArrayTaskLimit||armada.grid-1.array1\n"
    )  # recorded from 20.11, 22.05, 24.11
    start(host, cells)
    assert job(host, cells[2]) == "100_2"
    # The word of Slurm alone is believed after a while, as for every job.
    assert {look(host, each)["scheduler"]["detail"] for each in cells} == {"CANCELLED"}


def test_a_cell_is_submitted_again_as_a_job_of_its_own(begin: Callable[[], Conversation], programs: Programs) -> None:
    host, cells = begin(), names(2)
    start(host, cells)
    programs.say("squeue", QUEUE)
    host.call("run.stop", run_id=cells[1], grace_s=5)
    programs.say("sbatch", "205\n")
    job_file = host.root / "runs" / cells[1] / "launch" / "job.sbatch"
    job_file.write_text("#!/bin/sh\narmada_submission=${1:-1}\n")
    assert host.call("run.submit", run_id=cells[1], submission=2)["job"]["job_id"] == "205"
    assert f"--job-name=armada.{cells[1]}.2" in argv(programs)[1]


@pytest.mark.parametrize(
    "arrays",
    [
        [{"cells": ["grid-1-001", "grid-1-001"], "files": {"job.sbatch": ""}}],
        [{"cells": ["../grid-1"], "files": {"job.sbatch": ""}}],
        [{"cells": ["grid-1-001"], "files": {"../job.sbatch": ""}}],
        [{"cells": ["grid-1-001"], "files": {"array.json": ""}}],
        [{"cells": "grid-1-001", "files": {}}],
        ["grid-1-001"],
        {"cells": []},
    ],
)
def test_arrays_that_make_no_sense_are_refused_and_nothing_is_submitted(
    begin: Callable[[], Conversation], programs: Programs, arrays: object
) -> None:
    host = begin()
    with pytest.raises(Refused) as refused:
        host.call("sweep.start", sweep="grid-1", parallel=1, cells=[], arrays=arrays)
    assert refused.value.kind == "bad_request"
    assert programs.calls("sbatch") == 0


@pytest.mark.parametrize("damage", ["", "[]", '{"cells": []}', '{"cells": [3]}', '{"cells": ["a-1"], "limit": 0}'])
def test_a_damaged_record_of_an_array_is_reported_and_never_read_as_not_submitted(
    begin: Callable[[], Conversation], programs: Programs, damage: str
) -> None:
    host, cells = begin(), names(2)
    lose_the_answer(host, programs, cells)
    (host.root / "sweeps" / "grid-1" / "arrays" / "1" / "array.json").write_text(damage)
    with pytest.raises(Refused) as refused:
        start(host, cells)
    assert refused.value.kind == "outcome_unknown"
    assert programs.calls("sbatch") == 1


@pytest.mark.parametrize(
    ("sizes", "limit", "shares"),
    [
        ([3], 2, [(2, None)]),
        ([3, 3], None, [(None, None), (None, None)]),
        ([3, 3], 6, [(None, None), (None, None)]),
        ([3, 3], 5, [(3, None), (2, None)]),
        ([3, 3, 3], 2, [(1, None), (1, None), (1, 0)]),
        ([9, 9, 9], 1, [(1, None), (1, 0), (1, 1)]),
    ],
)
def test_arrays_keep_a_limit_together(sizes: list[int], limit: int | None, shares: list[tuple[Any, Any]]) -> None:
    assert array_records.share(sizes, limit) == shares


def handed(tmp_path: Path, index: int) -> Handed:
    place = Place("grid-1", 1, index).as_json()
    return Handed(RunPaths(str(tmp_path), "grid-1-001"), 1, {"job_id": f"100_{index}", "time": 1.0, "array": place})


SHOWN = "JobId={} ArrayJobId=100 ArrayTaskId={} JobName={} JobState=PENDING Reason=Priority NodeList=(null)\n"


@pytest.mark.parametrize("tasks", ["3", "2-11%3", "1,3,5"])
def test_scontrol_shows_one_job_or_all_that_wait(tmp_path: Path, tasks: str) -> None:
    row = slurm_answers.parse_job(SHOWN.format(104, tasks, "armada.grid-1.array1"), handed(tmp_path, 3))
    assert row is not None
    assert (row["id"], row["state"]) == ("100_3", "PENDING")


def test_scontrol_about_another_job_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        slurm_answers.parse_job(SHOWN.format(104, "4", "armada.grid-1.array1"), handed(tmp_path, 3))
    assert slurm_answers.parse_job(SHOWN.format(104, "3", "somebody.elses"), handed(tmp_path, 3)) is None


def test_a_job_whose_id_is_an_array_now_is_another_one(tmp_path: Path) -> None:
    alone = Handed(RunPaths(str(tmp_path), "a-1"), 1, {"job_id": "100", "time": 1.0})
    name = "armada.grid-1.array1"
    said = SHOWN.format(100, "1-4%1", name) + SHOWN.format(101, 0, name).replace("PENDING", "RUNNING")
    assert slurm_answers.parse_job(said, alone) is None


def test_accounting_is_read_by_index() -> None:
    said = "100_1|FAILED|1:0|Unknown|n1|a\n100_11|COMPLETED|0:0|Unknown|n1|a\n100_[12-20%3]|PENDING|0:0|Unknown||a\n"
    found = [slurm_answers.parse_accounting(said, "a", index) for index in (1, 11, 2, 12)]
    assert [row and row["state"] for row in found] == ["FAILED", "COMPLETED", None, None]


def test_jobs_that_htcondor_adds_later_wait_and_one_question_answers_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"#!/bin/sh\necho call >> {tmp_path}/calls\ncat {tmp_path}/said\n"
    (tmp_path / "condor_q").write_text(script)
    (tmp_path / "condor_q").chmod(0o755)
    (tmp_path / "said").write_text("5\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "sweeps" / "grid-1" / "arrays" / "1").mkdir(parents=True)

    def job_of(index: int) -> Handed:
        told = {"job_id": f"33.{index}", "time": 1.0, "array": Place("grid-1", 1, index).as_json()}
        return Handed(RunPaths(str(tmp_path), "grid-1-001"), 1, told)

    assert [htcondor_schedd.is_to_come(job_of(index)) for index in (4, 5, 11)] == [False, True, True]
    assert (tmp_path / "calls").read_text().count("call") == 1
    kept = tmp_path / "sweeps" / "grid-1" / "arrays" / "1" / "factory.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "at": 1.0}))
    (tmp_path / "said").write_text("")  # somebody removed the whole array
    assert not htcondor_schedd.is_to_come(job_of(11))


def test_the_last_stopped_cell_takes_the_whole_array_from_htcondor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "condor_rm").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\necho not found; exit 1\n')
    (tmp_path / "condor_rm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cells = names(2)
    array_records.write(HandedArray(SweepPaths(str(tmp_path), "grid-1"), 1, cells, 1, None), {"job.sub": ""})
    for run_id in cells:
        Path(RunPaths(str(tmp_path), run_id).folder).mkdir(parents=True)
        Path(RunPaths(str(tmp_path), run_id).spec).write_text("{}")
    for index, run_id in enumerate(cells):
        paths = RunPaths(str(tmp_path), run_id)
        told = {"job_id": f"33.{index}", "time": 1.0, "array": Place("grid-1", 1, index).as_json()}
        Path(paths.stop).write_text(json.dumps({"time": 1.0, "grace_s": 1.0, "submission": 1}))
        htcondor.cancel(Handed(paths, 1, told), {}, 1.0)
    assert (tmp_path / "calls").read_text().splitlines() == [
        '-constraint ClusterId == 33 && ProcId == 0 && ArmadaSubmission == "armada.grid-1-001.1"',
        '-constraint ClusterId == 33 && ProcId == 1 && ArmadaSubmission == "armada.grid-1-002.1"',
        '-constraint ClusterId == 33 && ArmadaArray == "armada.grid-1.array1"',
    ]


def test_a_cell_whose_plan_is_gone_or_whose_resume_was_interrupted_still_needs_its_array(tmp_path: Path) -> None:
    sweep, cells = SweepPaths(str(tmp_path), "grid-1"), names(3)
    array_records.write(HandedArray(sweep, 1, cells, 1, None), {"job.sub": ""})
    ended, lost, interrupted = (RunPaths(str(tmp_path), run_id) for run_id in cells)
    for paths in (ended, lost, interrupted):
        Path(paths.submission(1)).mkdir(parents=True)
        Path(paths.submission(1, "claim.json")).write_text("{}")
    Path(ended.spec).write_text("{}")
    Path(ended.state).write_text('{"state": "succeeded"}')
    Path(interrupted.spec).write_text("{}")
    Path(interrupted.submission(2)).mkdir()
    assert not array_records.is_all_stopped(sweep, 1)
    Path(lost.state).write_text('{"state": "failed"}')
    assert not array_records.is_all_stopped(sweep, 1)
    Path(interrupted.submission(2, "claim.json")).write_text("{}")
    assert array_records.is_all_stopped(sweep, 1)


@pytest.mark.parametrize(
    "told", [3, [], {}, {"sweep": "../x", "number": 1, "index": 0}, {"sweep": "a", "number": True, "index": 0}]
)
def test_a_damaged_place_is_an_unreadable_record(told: object) -> None:
    with pytest.raises(files.UnreadableError):
        read_place(told)


def test_two_homes_that_hand_over_the_same_cells_at_once_submit_one_array(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    cells = names(4)
    asked = {
        "sweep": "grid-1",
        "parallel": 2,
        "cells": [{"run_id": each, "spec": spec_of(each, "true", scheduler=SETTINGS), "files": {}} for each in cells],
        "arrays": [{"cells": cells, "files": {"job.sbatch": "#!/bin/sh\n"}}],
    }
    flights = [(host, host.ask("sweep.start", asked)) for host in (begin(), begin())]
    outcomes = [{cell["outcome"] for cell in host.answer(number)["cells"]} for host, number in flights]
    assert sorted(map(sorted, outcomes)) == [["already"], ["claimed"]]
    assert programs.calls("sbatch") == 1


def test_the_allowance_is_asked_for_once_for_all_cells(
    begin: Callable[[], Conversation], programs: Programs, tmp_path: Path
) -> None:
    quota = tmp_path / "quota"
    quota.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho 500 h left\n")
    quota.chmod(0o755)
    host, cells = begin(), names(3)
    settings = {**SETTINGS, "quota": [str(quota)]}
    asked = [{"run_id": each, "spec": spec_of(each, "true", scheduler=settings), "files": {}} for each in cells]
    host.call(
        "sweep.start", sweep="grid-1", parallel=1, cells=asked, arrays=[{"cells": cells, "files": {"job.sbatch": ""}}]
    )
    assert (tmp_path / "asked").read_text().split() == ["asked"]
    left = [host.call("run.quota", run_id=each)["before"]["text"] for each in cells]
    assert left == ["500 h left"] * 3
