"""Arrays that are refused, or may be, and jobs of them that have another's id."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_agent.engines import htcondor
from armada_agent.engines.engine import EngineError, Handed
from armada_agent.paths import RunPaths

from tests.agent.conversation import Conversation, Refused
from tests.agent.test_agent_arrays import (
    QUEUE,
    SHOWN,
    argv,
    begin,
    job,
    look,
    lose_the_answer,
    names,
    programs,
    start,
)
from tests.agent.test_agent_slurm import INVALID, Programs

__all__ = ["begin", "programs"]  # fixtures


def test_an_array_of_which_a_job_has_begun_was_not_refused(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(2)
    taken = host.root / "runs" / cells[1] / "submissions" / "1" / "taken.json"
    script = f'#!/bin/sh\necho \'{{"job_id": "100_1"}}\' > {taken}\necho invalid partition >&2\nexit 1\n'
    (programs.folder / "sbatch").write_text(script)
    with pytest.raises(Refused, match="invalid partition") as caught:
        start(host, cells)
    assert caught.value.kind == "outcome_unknown"
    assert [(host.root / "runs" / each / "submissions" / "1" / "claim.json").exists() for each in cells] == [True, True]
    programs.say("squeue", QUEUE)
    start(host, cells)
    assert [job(host, each) for each in cells] == ["100_0", "100_1"]


@pytest.mark.parametrize(("script", "is_refused"), [("kill -9 $$", False), ("echo 33.0 - 33.1", False), ("", True)])
def test_a_condor_submit_that_was_killed_or_told_an_id_has_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, is_refused: bool
) -> None:
    (tmp_path / "condor_submit").write_text(f"#!/bin/sh\n{script}\necho no such file >&2\nexit 1\n")
    (tmp_path / "condor_submit").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    paths = RunPaths(str(tmp_path), "a-1")
    Path(paths.folder).mkdir(parents=True)
    with pytest.raises(EngineError) as caught:
        htcondor.submit(Handed(paths, 1), os.open(tmp_path, os.O_RDONLY))
    assert caught.value.refused == is_refused


def test_cells_of_a_refused_array_end_with_it_where_the_request_is_about_others(
    begin: Callable[[], Conversation], programs: Programs
) -> None:
    host, cells = begin(), names(4)
    lose_the_answer(host, programs, cells[:3])
    programs.say("sbatch", "sbatch: error: invalid partition specified: nope\n", code=1)
    with pytest.raises(Refused, match="invalid partition"):
        start(host, cells[2:])
    found = [look(host, each) for each in cells]
    ends = [each["state"] and (each["state"]["state"], each["state"]["reason"]) for each in found]
    assert ends == [("failed", "never_started")] * 2 + [None] * 2
    assert [each["submission"] is None for each in found] == [False, False, True, True]
    programs.say("sbatch", "100\n")
    outcomes = {cell["run_id"]: cell["outcome"] for cell in start(host, cells[2:])["cells"]}
    assert outcomes == dict.fromkeys(cells[2:], "claimed")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (SHOWN.format(101, 0, "armada.other-1.array1"), 0),
        ("Job 100_0 not found\n", 1),  # of an array that has no such job, and of one that is none; 20.11, 22.05, 24.11
        (INVALID, 1),
    ],
)
def test_a_job_of_an_array_that_is_not_this_cell_any_more_is_not_cancelled(
    begin: Callable[[], Conversation], programs: Programs, said: str, code: int
) -> None:
    host, cells = begin(), names(3)
    start(host, cells)
    programs.say("squeue", QUEUE)
    programs.say("job", said, code=code)
    assert "problem" not in host.call("run.stop", run_id=cells[0], grace_s=5)
    assert argv(programs, "scancel") == []
