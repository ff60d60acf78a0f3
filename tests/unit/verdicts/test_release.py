"""What is said of a host that may go, when a job may live there, and what of a log is only there."""

from __future__ import annotations

from typing import Any

import pytest

from armada.protocol.records import Evidence
from armada.verdicts import release
from armada.verdicts.presence import AWAY_WORDS, UNKNOWN_WORDS, There
from armada.verdicts.proof import Proof
from armada.verdicts.release import CheckpointThere, Life, RunThere
from tests.answers import observation

CLAIMED = {"number": 2, "claimed": True, "job": None}


def evidence(**told: Any) -> Evidence:
    found = observation(
        {"run_id": "q-1", "exists": True, "evidence": {"supervisor": "dead", "processes": 0, **told}}
    ).evidence
    assert found is not None
    return found


def state(word: str, submission: int = 2) -> dict[str, Any]:
    return {"state": word, "attempt": 1, "seq": 4, "submission": submission}


def exited(word: str, submission: int) -> dict[str, Any]:
    return {"number": 1, "run": None, "exit": {"state": word, "submission": submission}}


@pytest.mark.parametrize(
    ("told", "life"),
    [
        ({}, Life.NONE),
        ({"supervisor": "none"}, Life.NONE),
        ({"supervisor": "alive"}, Life.LIVES),
        ({"supervisor": "unknown"}, Life.LIVES),
        ({"processes": 1}, Life.LIVES),
        ({"supervisor": "unknown", "lacks_end": True}, Life.ENDING),
        ({"supervisor": "unknown", "lacks_end": True, "processes": 1}, Life.LIVES),
        ({"supervisor": "unknown", "lacks_end": True, "scheduler": {"state": "ending"}}, Life.ENDING),
        ({"scheduler": {"state": "gone"}, "supervisor": "unknown"}, Life.GUESSED_GONE),
        ({"scheduler": {"state": "gone"}, "supervisor": "unknown", "processes": 1}, Life.LIVES),
        ({"scheduler": {"state": "ended"}}, Life.NONE),
        ({"scheduler": {"state": "ended"}, "processes": 1}, Life.LIVES),
        ({"scheduler": {"state": "pending"}, "supervisor": "alive"}, Life.LIVES),
        ({"submission": CLAIMED}, Life.MAY_BEGIN),
        ({"submission": CLAIMED, "state": state("failed", 1)}, Life.MAY_BEGIN),
        ({"submission": CLAIMED, "state": state("queued")}, Life.MAY_BEGIN),
        ({"submission": CLAIMED, "state": state("cancelled")}, Life.NONE),
        # Its supervisor was killed between the exit and the state.
        ({"submission": CLAIMED, "state": state("running"), "attempt": exited("failed", 2)}, Life.NONE),
        ({"submission": CLAIMED, "state": state("running"), "attempt": exited("failed", 1)}, Life.LIVES),
        ({"submission": CLAIMED, "state": state("running"), "attempt": exited("requeued", 2)}, Life.LIVES),
        ({"submission": {**CLAIMED, "claimed": False}}, Life.NONE),
        ({"submission": {**CLAIMED, "job": {"submission": 2}}}, Life.NONE),
    ],
)
def test_a_job_lives_unless_its_end_is_known(told: dict[str, Any], life: Life) -> None:
    assert release.life_of(evidence(**told)) is life


@pytest.mark.parametrize(
    ("told", "forgotten"),
    [
        ({}, True),
        ({"stop_wished": False}, False),
        ({"processes": 1}, False),
        ({"scheduler": {"state": "ended"}}, False),
    ],
)
def test_only_a_stopped_run_that_its_scheduler_forgot_is_settled_by_a_second_stop(
    told: dict[str, Any], forgotten: bool
) -> None:
    gone = {"supervisor": "unknown", "scheduler": {"state": "gone"}, "stop_wished": True, **told}
    assert release.was_stopped_and_forgotten(evidence(**gone)) is forgotten


def test_of_a_run_without_records_nobody_knows_whether_it_was_stopped() -> None:
    assert release.life_of(None) is Life.UNREADABLE
    assert not release.was_stopped_and_forgotten(None)


def test_a_cluster_is_nobodys_to_destroy() -> None:
    assert release.may_go("box", "direct") == "box can be destroyed: nothing would be lost"
    assert release.may_go("hpc", "slurm") == "hpc: everything is at home; nothing of yours is needed there"
    assert release.must_stay("box", "direct", "this") == "box must not be destroyed yet: this would be lost"
    words = "hpc: not everything is at home; this would be lost if you deleted your files there"
    assert release.must_stay("hpc", "slurm", "this") == words


@pytest.mark.parametrize("ignore_work", [False, True])
def test_the_middle_of_a_log_is_lost_until_a_person_says_that_it_does_not_count(ignore_work: bool) -> None:
    seen = RunThere("q-1", "box", known=True, life=Life.NONE, log_left=(3000, 9000))
    (item,) = release.judge(seen, ignore_work=ignore_work)
    assert item.lost is not ignore_work
    assert item.what == "3.0 kB in the middle of its log of 9.0 kB are only there (sync.log_limit)"
    assert release.judge(RunThere("q-1", "box", known=True, life=Life.NONE, log_left=(0, 9000))) == []


@pytest.mark.parametrize(
    ("there", "words", "hint"), [(There.AWAY, AWAY_WORDS, ""), (There.UNKNOWN, UNKNOWN_WORDS, "armada rm q-1 --force")]
)
def test_what_is_not_seen_is_said_to_be_below_another_root_only_if_home_knows_its_root(
    there: There, words: str, hint: str
) -> None:
    (item,) = release.judge_missing(
        release.RunMissing("q-1", there, settled=False, processes=0, queued=None, left=None)
    )
    assert item.lost
    assert item.what == words
    assert hint in (item.hint or "")


def test_an_optimizer_state_of_a_checkpoint_that_cannot_be_read_there_is_lost() -> None:
    there = CheckpointThere(5, 7, Proof.PROVEN, lacking=True, unreadable="outbox/d")
    (item,) = release.judge(RunThere("q-1", "box", known=True, life=Life.NONE, checkpoints=[there]))
    words = "without its optimizer state, which cannot be fetched: outbox/d/MANIFEST.json there cannot be read"
    assert (item.what, item.lost) == (f"checkpoint-5 is at home {words}", True)
