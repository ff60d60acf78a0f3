"""What home did not judge is not deleted: a run's folder that changed since, another root, a run that came to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.foundation.session import Call
from armada_agent.host import roots
from armada_agent.paths import RunPaths
from armada_agent.runs import outputs
from armada_agent.runs.folders import remove
from armada_agent.runs.wipe import wipe

from tests.agent.test_agent_wipe import DEAD, call, make
from tests.agent.test_agent_wipe_meanwhile import submit_again

__all__ = ["call"]

ONE, TWO = "c" * 64, "d" * 64


def judged(call: Call, run_id: str) -> dict[str, Any]:
    """What home says that it judged, by the host's own list."""
    (entry,) = outputs.look(call, {"runs": [{"run_id": run_id}]})["runs"]
    digests = [each["digest"] for each in entry["outbox"]] + entry["unreadable"]
    told = {name: entry[name] for name in ("submission", "attempt", "announced")}
    return {"run_id": run_id, "judged": {**told, "checkpoints": digests}}


@pytest.fixture
def run(call: Call) -> RunPaths:
    """An ended run with one attempt and one checkpoint."""
    made = make(call, "unjudged-1", DEAD, "failed")
    Path(made.attempt(1)).mkdir(parents=True)
    Path(made.checkpoint(ONE)).mkdir()
    return made


CAME: list[tuple[Callable[[RunPaths], object], str]] = [
    (lambda run: Path(run.attempt(2)).mkdir(), "began again"),
    (lambda run: Path(run.checkpoint(TWO)).mkdir(), "got a checkpoint"),
    (lambda run: Path(run.outbox, ".new-7").mkdir(), "got a checkpoint"),
]


@pytest.mark.fault("a run is resumed while rm reads its copies", "nothing is deleted, and rm says so")
@pytest.mark.parametrize(("act", "words"), [(submit_again, "was submitted again"), *CAME])
def test_what_came_to_a_run_since_it_was_judged_is_not_deleted(
    call: Call, run: RunPaths, act: Callable[[RunPaths], object], words: str
) -> None:
    question = judged(call, run.run_id)
    act(run)
    with pytest.raises(AgentError, match=f"unjudged-1 {words} since it was looked at; nothing was deleted") as no:
        remove(call, question)
    assert (no.value.kind, Path(run.checkpoint(ONE)).is_dir()) == ("conflict", True)
    assert remove(call, {"run_id": run.run_id}) == {}  # an older home, or a person who accepts every loss


def test_what_was_judged_is_deleted_also_if_a_checkpoint_is_gone(call: Call, run: RunPaths) -> None:
    Path(run.checkpoint(TWO)).mkdir()
    question = judged(call, run.run_id)
    shutil.rmtree(run.checkpoint(TWO))
    assert remove(call, question) == {}
    assert not Path(run.folder).exists()


@pytest.mark.parametrize(
    "told",
    [7, {}, {"announced": 0}, {"checkpoints": ["x"], "announced": 0}, {"checkpoints": [], "announced": -1}],
)
def test_what_says_nothing_of_what_was_judged_is_refused(call: Call, run: RunPaths, told: object) -> None:
    with pytest.raises(AgentError) as no:
        remove(call, {"run_id": run.run_id, "judged": told})
    assert (no.value.kind, Path(run.folder).exists()) == ("bad_request", True)


@pytest.mark.fault("another disk is mounted at a root right before it is wiped", "nothing of it is deleted")
def test_another_root_than_the_judged_one_is_not_wiped(call: Call) -> None:
    make(call, "unjudged-1", DEAD, "failed")
    name = roots.identify(call.root)
    question = {"root": name, "runs": [{"run_id": "unjudged-1", "submission": 1}]}
    away = Path(call.root).rename(Path(call.root + "-away"))
    run = make(call, "unjudged-1", DEAD, "failed")
    with pytest.raises(AgentError, match="another root is here than the one that was checked") as no:
        wipe(call, question)
    assert (no.value.kind, Path(run.state).exists()) == ("conflict", True)
    shutil.rmtree(call.root)
    away.rename(call.root)
    assert "runs" in wipe(call, question)["removed"]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda call: make(call, "unjudged-2", DEAD, "failed"), "unjudged-2 was put here while the host was checked"),
        (lambda call: submit_again(RunPaths(call.root, "unjudged-1")), "unjudged-1 was submitted again"),
    ],
)
def test_a_run_that_home_did_not_judge_keeps_its_host(call: Call, act: Callable[[Call], object], words: str) -> None:
    run = make(call, "unjudged-1", DEAD, "failed")
    act(call)
    Path(run.state).write_text('{"state": "failed", "submission": 2, "attempt": 1, "seq": 2}')
    with pytest.raises(AgentError, match=f"{words}.*; nothing was deleted"):
        wipe(call, {"root": roots.identify(call.root), "runs": [{"run_id": "unjudged-1", "submission": 1}]})
    assert Path(run.state).exists()
    assert "runs" in wipe(call, {})["removed"]  # an older home does not say what it judged


@pytest.mark.fault("a job is requeued while home judges its host", "nothing is wiped, and the wipe names the run")
@pytest.mark.parametrize(("act", "words"), CAME)
def test_what_came_to_a_run_since_home_judged_its_host_keeps_the_host(
    call: Call, run: RunPaths, act: Callable[[RunPaths], object], words: str
) -> None:
    (of_folder, name) = (judged(call, run.run_id)["judged"], roots.identify(call.root))
    question = {"root": name, "runs": [{"run_id": run.run_id, **of_folder}]}
    act(run)
    with pytest.raises(AgentError, match=f"unjudged-1 {words} since it was looked at; nothing was deleted") as no:
        wipe(call, question)
    assert (no.value.kind, Path(run.checkpoint(ONE)).is_dir()) == ("conflict", True)
    assert "runs" in wipe(call, {"runs": [{"run_id": run.run_id, "submission": 1}]})["removed"]  # an older home


def test_a_host_is_wiped_of_what_home_judged_also_if_a_checkpoint_is_gone(call: Call, run: RunPaths) -> None:
    Path(run.checkpoint(TWO)).mkdir()
    question = {"runs": [{"run_id": run.run_id, **judged(call, run.run_id)["judged"]}]}
    shutil.rmtree(run.checkpoint(TWO))
    assert "runs" in wipe(call, question)["removed"]


@pytest.mark.parametrize(
    "told",
    [
        7,
        [7],
        [{}],
        [{"run_id": "a", "submission": "x"}],
        [{"run_id": "a", "attempt": -1}],
        [{"run_id": "a", "announced": "x"}],
        [{"run_id": "a", "checkpoints": ["x"]}],
        [{"run_id": "a", "checkpoints": 7}],
    ],
)
def test_runs_that_are_none_are_refused(call: Call, told: object) -> None:
    with pytest.raises(AgentError) as no:
        wipe(call, {"runs": told})
    assert no.value.kind == "bad_request"
