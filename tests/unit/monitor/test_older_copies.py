"""What an older copy of a host's disk changes of an end that was seen: nothing, until something else shows life."""

from __future__ import annotations

from typing import Any

import pytest

from armada.monitor.look import Folder, Look
from armada.monitor.observe import record_look
from armada.protocol.observation import Moment, Observation
from armada.store import runs
from armada.store.database import Database
from tests.unit.monitor.observations import ended_by_slurm, entry, of_slurm


def see_in_turn(database: Database, *observations: dict[str, Any]) -> list[runs.Run]:
    """Have one boot of a host answer so, one after the other; what is known of the run after each."""
    known = []
    for seconds, seen in enumerate(observations):
        moment = Moment.model_validate({"boot": "b", "seconds": float(seconds)})
        look = Look(Observation.model_validate(seen), Folder(True, None, ()), moment)
        record_look(database, runs.find(database, seen["run_id"]), look)
        known.append(runs.find(database, seen["run_id"]))
    return known


def claimed(number: int = 2) -> dict[str, Any]:
    """A run of Slurm that failed and was resumed: nothing has started the submission that was claimed."""
    seen = failed()
    seen["evidence"]["submission"] = {"number": number, "claimed": True, "job": None}
    return seen


def failed(refused: int | None = None) -> dict[str, Any]:
    seen = of_slurm("ended", state="failed", reason="exit_3")
    seen["evidence"] |= {"supervisor": "dead", "scheduler": None, "refused": refused}
    return seen


@pytest.mark.fault(
    "a resume is refused by a batch system after a poll saw its claim, and whoever asked is killed",
    "the run is as before the resume, without a word of its disk",
)
@pytest.mark.parametrize("doubt", [None, "link_lost"])
def test_a_claim_that_was_seen_and_refused_afterwards_counts_no_more(database: Database, doubt: str | None) -> None:
    (before,) = see_in_turn(database, failed())
    runs.set_state(database, "q-aaaaaa", "submitted")
    (seen,) = see_in_turn(database, claimed())
    assert (seen.state, seen.submission) == ("submitted", 2)
    if doubt is not None:
        runs.set_state(database, "q-aaaaaa", "unknown", reason=doubt)
    _, run = see_in_turn(database, claimed() if doubt is None else failed(2), failed(2))
    assert run[:12] == before[:12]
    assert (run.submission, run.told_at) == (1, None)
    assert "its host refused submission 2" in (run.because or "")


@pytest.mark.parametrize(
    ("last", "refused"),
    [(claimed(), None), (claimed(3), 2), (of_slurm("pending"), 2), (of_slurm("running", seq=9), 2)],
    ids=["an older agent does not say it", "another one", "it waited", "it began"],
)
def test_an_older_copy_of_a_disk_refuses_no_submission_of_which_more_was_seen(
    database: Database, last: dict[str, Any], refused: int | None
) -> None:
    last["evidence"]["submission"] = {
        **last["evidence"]["submission"],
        "number": max(2, last["evidence"]["submission"]["number"]),
    }
    *_, run = see_in_turn(database, failed(), last, failed(refused), failed(refused))
    assert (run.state, run.reason) == ("unknown", "put_back")


@pytest.mark.parametrize("seen_claimed", [False, True])
def test_a_launch_that_was_refused_stays_so_whoever_looks_at_its_folder(
    database: Database, *, seen_claimed: bool
) -> None:
    """Its folder is there without a submission: the host took the claim back, or refused before it."""
    bare = failed()
    bare["evidence"] |= {"submission": None, "supervisor": "none", "state": None, "attempt": None}
    first = claimed(1)
    first["evidence"] |= {"state": None, "attempt": None}
    if seen_claimed:
        see_in_turn(database, first)
    runs.set_state(database, "q-aaaaaa", "failed", reason="submit_refused", message="no such partition")
    *_, run = see_in_turn(database, bare, bare)
    assert (run.state, run.reason, run.message) == ("failed", "submit_refused", "no such partition")
    bare["evidence"]["processes"] = 1
    *_, run = see_in_turn(database, bare)
    assert run.state != "failed", "it lives: somebody started it by hand"


@pytest.mark.parametrize(
    ("word", "state"),
    [("unknown", "failed"), ("ending", "failed"), ("gone", "failed"), ("pending", "queued"), ("held", "queued")],
)
def test_of_an_older_copy_of_a_disk_only_slurms_queue_revises_an_end_that_slurm_told(
    database: Database, word: str, state: str
) -> None:
    older = of_slurm(word, seq=3)
    older["evidence"]["scheduler"]["seen_at"] = 4e9  # after whatever its supervisor wrote
    _, told, *later = see_in_turn(database, of_slurm("running"), ended_by_slurm(), older, older, older)
    assert (told.state, told.reason, told.is_only_told) == ("failed", "node_failure", True)
    assert [run.state for run in later] == [state] * 3


def test_an_end_stays_with_its_time_and_its_reason_however_often_an_older_copy_of_its_disk_is_seen(
    database: Database,
) -> None:
    ended = entry(state={"state": "failed", "reason": "oom", "message": "no memory", "seq": 6, "ended_at": 9.5})
    ended["evidence"]["state"]["exit_code"] = 3
    older = entry()
    older["evidence"] |= {"supervisor": "dead", "rebooted": True, "processes": 0}
    known, *later = see_in_turn(database, ended, older, older, older)
    assert (known.state, known.reason) == ("failed", "oom")
    for run in later:
        assert (run.state, run.reason, run.ended_at, run.exit_code) == ("failed", "oom", 9.5, 3)
        assert (run.attempt, run.seq) == (known.attempt, known.seq)
        assert run.message == (
            "no memory; its host shows an older state of it than before; its disk may have been restored from a snapshot"
        )
