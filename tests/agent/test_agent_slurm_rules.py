"""What is concluded of Slurm's answers about one job, case by case, and what it is told when a job is to be stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import engine, slurm, slurm_answers, slurm_controller, slurm_queue
from armada_agent.engines.engine import EngineError, Handed, HandedArray
from armada_agent.paths import SweepPaths

from tests.agent.doubted_job import INVALID, MINE, OTHERS, SHOWN, SILENT, Clock, DoubtedJob

ROW = {"id": "11", "state": "RUNNING", "reason": "None", "node": "n1", "name": "armada.a-1.1"}


def queue(*rows: dict[str, str], doubt: str | None = None) -> Callable[..., slurm_answers.Answer]:
    return lambda *_: slurm_answers.Answer({row["name"]: row for row in rows}, doubt)


def asked_of(monkeypatch: pytest.MonkeyPatch, said: str) -> list[list[str]]:
    """Have the controller answer everything so; return a list of what it is asked."""
    told: list[list[str]] = []

    def ask(argv: list[str]) -> tuple[str, str]:
        told.append(argv)
        return said, ""

    monkeypatch.setattr(slurm_controller, "ask", ask)
    return told


def test_nothing_is_known_of_a_job_before_slurm_has_answered_once(cluster: DoubtedJob) -> None:
    cluster.say("squeue", "", code=1, beside=SILENT)
    seen = cluster.look()
    assert (seen["state"], seen["seen_at"]) == ("unknown", None)
    assert "Unable to contact" in seen["error"]


def test_an_answer_from_before_a_job_was_handed_over_says_nothing_of_its_absence(cluster: DoubtedJob) -> None:
    for text, states in ((OTHERS, ("unknown", "pending")), (OTHERS + MINE.format("RUNNING"), ("running", "running"))):
        Path(cluster.paths.root, "schedulers/squeue.json").unlink(missing_ok=True)
        cluster.say("squeue", text)
        slurm.look(cluster.handed, 3600.0, cluster.clock)
        handed = Handed(cluster.paths, 1, {"job_id": "11", "time": time.time()})
        assert slurm.look(handed, 3600.0, cluster.clock)["state"] == states[0]
        cluster.say_attempt("failed", 7)  # another submission's: this one has not begun
        assert slurm.look(handed, 3600.0, cluster.clock)["state"] == states[1]
        cluster.say_attempt(None, 1)
        (Path(cluster.paths.folder) / "attempts/1/exit.json").unlink(missing_ok=True)


def test_a_job_that_a_whole_answer_lacks_is_said_to_be_missing_and_no_more(cluster: DoubtedJob) -> None:
    cluster.say("squeue", OTHERS)
    assert cluster.look()["message"] == "not in the queue's last answer"


def test_an_end_that_was_not_believed_is_not_remembered(cluster: DoubtedJob) -> None:
    cluster.say("squeue", MINE.format("CANCELLED by 0"))
    assert cluster.live(100)[-1] == "running"
    cluster.say("squeue", OTHERS)
    cluster.say("scontrol", INVALID, code=1)
    assert cluster.be_silent(20) == ["running"]


def test_an_end_that_was_believed_is_remembered_by_every_machine_until_slurm_shows_the_job(cluster: DoubtedJob) -> None:
    cluster.say("squeue", MINE.format("FAILED"))
    cluster.beat()
    assert cluster.be_silent(300)[-1] == "ended"
    cluster.say("squeue", OTHERS)
    cluster.say("scontrol", INVALID, code=1)
    assert cluster.be_silent(40) == ["ended", "ended"]
    other = Clock("two")
    for _ in range(2):
        assert cluster.look(other)["state"] == "ended"
        other.seconds += 2
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="FAILED"))
    assert set(cluster.be_silent(400)) == {"ended"}
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="RUNNING"))
    assert cluster.be_silent(1200, every_s=120)[-1] == "running"
    cluster.say("scontrol", INVALID, code=1)
    assert cluster.be_silent(1200, every_s=120)[-1] == "gone"


@pytest.mark.parametrize("reader", ["one", "two"])
def test_an_answer_that_slurm_gave_long_ago_is_no_news(cluster: DoubtedJob, reader: str) -> None:
    """A preempted job is shown as failed at first; the answers since were refused."""
    cluster.leave()
    cluster.say("squeue", MINE.format("FAILED"))
    looks = {name: Clock(name) for name in ("one", "two")}
    assert cluster.look(looks[reader])["state"] == "unknown"
    slurm_queue.Queue(cluster.paths.root, 0.0, looks["one"])  # asked again for another run
    cluster.say("squeue", "", code=1, beside=SILENT)
    looks[reader].seconds += 600
    assert cluster.look(looks[reader])["state"] == "unknown"
    cluster.say("squeue", MINE.format("FAILED"))
    Path(cluster.paths.root, "schedulers/squeue.json").unlink()  # it pauses after an error
    assert cluster.look(looks[reader])["state"] == "ended"


def test_accounting_decides_only_of_a_job_that_it_has(cluster: DoubtedJob) -> None:
    cluster.say("scontrol", INVALID, code=1)
    cluster.say("sacct", "11|TIMEOUT|0:0|2026-11-20T15:00:17|n1|armada.a-1.1\n")
    cluster.beat()
    assert cluster.be_silent(400)[-1] == "ended"
    assert cluster.look()["detail"] == "TIMEOUT"


def test_a_job_that_slurm_shows_by_its_id_is_as_shown_and_not_gone(cluster: DoubtedJob) -> None:
    cluster.never_begin()
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="FAILED"))
    assert cluster.be_silent(400)[-1] == "ended"


@pytest.mark.parametrize(
    ("own", "whole", "state"),
    [
        ("PENDING", None, "pending"),
        ("PENDING", "CANCELLED", "pending"),
        (None, "CANCELLED", "ended"),
        (None, "PENDING", "gone"),
        (None, None, "gone"),
    ],
)
def test_a_row_of_a_whole_array_counts_for_its_jobs_only_once_it_is_over(
    cluster: DoubtedJob, own: str | None, whole: str | None, state: str
) -> None:
    cluster.never_begin()
    job = {"job_id": "11_2", "time": 1.0, "array": {"sweep": "s-1", "number": 1, "index": 2}}
    name = "armada.s-1.array1"
    rows = [f"11_2|{own}|None||{name}\n" if own else "", f"11|{whole}|None||{name}\n" if whole else ""]
    cluster.say("squeue", OTHERS + "".join(rows))
    cluster.say("scontrol", INVALID, code=1)
    handed = Handed(cluster.paths, 1, job)
    seen = [slurm.look(handed, 0.0, cluster.clock)["state"]]
    for _ in range(4):
        cluster.clock.seconds += 20
        seen.append(slurm.look(handed, 0.0, cluster.clock)["state"])
    assert seen[-1] == state


@pytest.mark.parametrize(
    ("state", "has_begun", "grace_s", "is_gentle"),
    [
        ("running", True, 5.0, True),
        ("running", True, 0.0, False),
        ("pending", True, 5.0, False),
        ("unknown", True, 5.0, True),
        ("unknown", True, 0.0, False),
        ("unknown", False, 5.0, False),
    ],
)
def test_only_what_runs_or_may_run_has_its_grace(
    cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch, state: str, has_begun: bool, grace_s: float, is_gentle: bool
) -> None:
    told = asked_of(monkeypatch, SHOWN.format(name="armada.a-1.1", state="RUNNING"))
    if not has_begun:
        cluster.never_begin()
    slurm.cancel(cluster.handed, engine.scheduler_status(state, 1.0), grace_s)
    cancelled = ["scancel", *(["--batch", "--signal=TERM"] if is_gentle else []), "11"]
    assert told == [["scontrol", "--oneliner", "show", "job", "11"], cancelled]


@pytest.mark.parametrize("state", ["pending", "held", "running", "unknown", "gone"])
@pytest.mark.parametrize("grace_s", [0.0, 5.0])
def test_a_job_that_has_another_name_is_not_cancelled(
    cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch, state: str, grace_s: float
) -> None:
    """A controller that lost its state gives ids anew, also to jobs of the same user."""
    told = asked_of(monkeypatch, SHOWN.format(name="armada.b-1.1", state="RUNNING"))
    slurm.cancel(cluster.handed, engine.scheduler_status(state, 1.0), grace_s)
    assert [argv[0] for argv in told] == ["scontrol"]


def test_a_job_that_nobody_can_name_is_not_cancelled(cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    told = asked_of(monkeypatch, "No jobs in the system\n")
    with pytest.raises(EngineError, match="scontrol show job 11 said 'No jobs in the system'") as error:
        slurm.cancel(cluster.handed, engine.scheduler_status("running", 1.0), 5.0)
    assert ([argv[0] for argv in told], error.value.refused) == (["scontrol"], False)


@pytest.mark.parametrize(("words", "raises"), [("Invalid job id specified", False), ("cannot be reached", True)])
def test_a_job_that_is_over_is_cancelled_already_and_no_other(
    cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch, words: str, raises: bool
) -> None:
    def ask(_argv: list[str]) -> None:
        raise EngineError(words)

    monkeypatch.setattr(slurm_controller, "ask", ask)
    status = engine.scheduler_status(engine.PENDING, 1.0)
    if raises:
        with pytest.raises(EngineError, match=words):
            slurm.cancel(cluster.handed, status, 5.0)
    else:
        slurm.cancel(cluster.handed, status, 5.0)


class TestLookUp:
    """A submission whose answer was lost: whether Slurm has it decides whether it is made once more."""

    @pytest.fixture(autouse=True)
    def asked(self, cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.say_asked(cluster.handed.file("asked.json"), {"time": time.time() - 1000})
        self.say(forgotten_after=lambda: 300.0, ask_accounting=lambda *_: None, ask=queue())

    def say(self, **answers: Callable[..., Any]) -> None:
        for name, answer in answers.items():
            self.monkeypatch.setattr(slurm_queue, name, answer)

    def say_asked(self, path: str, value: object) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value) if value is not None else "{")

    def test_a_job_in_the_queue_is_the_one(self, cluster: DoubtedJob) -> None:
        self.say(ask=queue(ROW, doubt="half an answer"))
        assert slurm.look_up(cluster.handed) == "11"

    def test_half_an_answer_says_nothing(self, cluster: DoubtedJob) -> None:
        self.say_asked(cluster.handed.file("asked.json"), {"time": time.time()})
        self.say(ask=queue(doubt="half an answer"))
        with pytest.raises(EngineError, match="half an answer"):
            slurm.look_up(cluster.handed)

    def test_what_slurm_cannot_have_forgotten_yet_was_never_made(self, cluster: DoubtedJob) -> None:
        self.say_asked(cluster.handed.file("asked.json"), {"time": time.time() - 100})
        assert slurm.look_up(cluster.handed) is None

    def test_at_the_instant_from_which_it_may_have_forgotten_the_job_it_is_not_relied_on(
        self, cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.say_asked(cluster.handed.file("asked.json"), {"time": 1000.0})
        monkeypatch.setattr(time, "time", lambda: 1300.0)
        with pytest.raises(EngineError, match="there is no accounting database"):
            slurm.look_up(cluster.handed)

    @pytest.mark.parametrize("asked", [{"time": 1.0}, {"time": "yesterday"}, {}, None])
    def test_what_it_may_have_forgotten_is_unknown_without_accounting(self, cluster: DoubtedJob, asked: object) -> None:
        self.say_asked(cluster.handed.file("asked.json"), asked)
        with pytest.raises(EngineError, match="there is no accounting database"):
            slurm.look_up(cluster.handed)

    def test_accounting_knows_whether_it_was_made(self, cluster: DoubtedJob) -> None:
        self.say(ask_accounting=lambda *_: {"id": "11"})
        assert slurm.look_up(cluster.handed) == "11"
        self.say(ask_accounting=lambda *_: {})
        assert slurm.look_up(cluster.handed) is None

    def test_an_array_is_found_by_any_of_its_jobs_or_by_accounting(self, cluster: DoubtedJob) -> None:
        array = HandedArray(SweepPaths(cluster.paths.root, "s-1"), 1, ["a-1"], None, None)
        self.say_asked(array.file("asked.json"), {"time": 1.0})
        self.say(ask=queue({**ROW, "id": "12_0", "name": slurm_answers.row_name(array.name, 0)}))
        assert slurm.look_up_many(array) == "12"
        self.say(ask=queue(ROW), ask_accounting=lambda *_: {"id": "13_0"})
        assert slurm.look_up_many(array) == "13"
        self.say(ask_accounting=lambda *_: {})
        assert slurm.look_up_many(array) is None
