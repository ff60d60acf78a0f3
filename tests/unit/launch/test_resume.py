"""What home records when a run is submitted again and the answer is lost, or a no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.errors import ArmadaError, Conflict, LinkLost, OutcomeUnknown, UnexpectedAnswer, UsageError
from armada.launch import resume
from armada.launch.resume import NOTHING, Permits, refuse_other_settings, resume_run
from armada.paths import HomePaths
from armada.protocol.runs import SubmitRun
from armada.store import run_sync, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict
from tests.answers import answered

ENTRY = {
    "run_id": "q-aaaaaa",
    "exists": True,
    "evidence": {
        "submission": {"number": 1, "claimed": True, "job": {"submission": 1}},
        "supervisor": "dead",
        "state": {"state": "failed", "reason": "exit_3", "submission": 1, "attempt": 1, "seq": 5, "exit_code": 3},
        "attempt": {"number": 1, "run": {"submission": 1}, "exit": None},
    },
}


class Session:
    """Answers looks, and loses or refuses the hand-over."""

    host = Host.model_validate({"name": "box", "ssh": "box"})

    def __init__(self, home: HomePaths, error: ArmadaError) -> None:
        self.home = home
        self._error = error

    def call_all(self, questions: list[Any]) -> list[Any]:
        return answered(questions, [{"runs": [ENTRY]} for _ in questions])

    def call(self, request: SubmitRun, /, **_: Any) -> Any:
        assert request.submission == 2
        self.secrets = request.secrets
        raise self._error


def test_a_run_that_was_resumed_since_it_was_asked_for_is_not_resumed_again(tmp_path: Path) -> None:
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5), submission=1)
        asked_for = runs.find(database, "q-aaaaaa")
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 2, 9), submission=2)
        session = Session(HomePaths(tmp_path, tmp_path), AssertionError("the host was asked"))  # type: ignore[arg-type]
        with pytest.raises(Conflict, match="just resumed by another armada and is failed"):
            resume_run(database, session, asked_for)  # type: ignore[arg-type]  # all that is used


@pytest.mark.parametrize(
    ("error", "leaves", "state", "reason"),
    [
        (LinkLost("the link broke"), OutcomeUnknown, "unknown", "link_lost"),
        (OutcomeUnknown("nobody can tell"), OutcomeUnknown, "unknown", "outcome_unknown"),
        (Conflict("it was cancelled"), Conflict, "failed", "exit_3"),
    ],
)
def test_a_hand_over_without_an_answer_is_looked_at_again_and_a_no_changes_nothing(
    tmp_path: Path, error: ArmadaError, leaves: type[ArmadaError], state: str, reason: str
) -> None:
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5))
        run_sync.succeeded(database, "q-aaaaaa", began=1.0, next_due_at=None, final_of=1)
        with pytest.raises(leaves):
            resume_run(database, Session(HomePaths(tmp_path, tmp_path), error), runs.find(database, "q-aaaaaa"))  # type: ignore[arg-type]  # all that is used
        run = runs.find(database, "q-aaaaaa")
        assert (run.state, run.reason) == (state, reason)
        assert not run_sync.find(database, "q-aaaaaa").final_done


@pytest.mark.parametrize(
    ("seen", "number", "left"),
    [
        ("running", 2, ("running", None, 2)),
        ("submitted", 2, ("failed", "exit_3", 1)),
        ("submitted", 3, ("submitted", None, 3)),
    ],
    ids=["runs", "claimed", "another home's"],
)
def test_a_no_is_not_written_over_a_submission_that_was_seen_to_run_meanwhile(
    tmp_path: Path, seen: str, number: int, left: tuple[str, str | None, int]
) -> None:
    """Another home has resumed it, or it is the claim that a batch system's refusal takes back."""
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5))

        class Overtaken(Session):
            def call(self, request: SubmitRun, /, **options: Any) -> Any:
                runs.record(database, "q-aaaaaa", Verdict(seen, None, None, 2, 7), submission=number)
                return super().call(request, **options)

        session = Overtaken(HomePaths(tmp_path, tmp_path), Conflict("run q-aaaaaa has submission 2 already"))
        before = runs.find(database, "q-aaaaaa")
        with pytest.raises(Conflict):
            resume_run(database, session, before)  # type: ignore[arg-type]  # all that is used
        run = runs.find(database, "q-aaaaaa")
        assert (run.state, run.reason, run.submission) == left
        if number == 2 and seen == "submitted":
            assert (run.attempt, run.seq, run.because) == (before.attempt, before.seq, "its supervisor wrote the end")


def test_an_end_that_only_its_batch_system_told_stays_one_when_a_resume_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job may be put back into the queue: it is still polled."""
    job = {"submission": 1, "scheduler": "slurm", "job_id": "11"}
    ended = {"state": "ended", "detail": "NODE_FAIL", "reason": "node_failure"}
    state = {"state": "running", "submission": 1, "attempt": 1, "seq": 5}
    told = {"submission": {"number": 1, "claimed": True, "job": job}, "supervisor": "dead", "scheduler": ended}
    monkeypatch.setitem(ENTRY, "evidence", {**told, "state": state, "attempt": {"number": 1, "run": {"submission": 1}}})
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        session = Session(HomePaths(tmp_path, tmp_path), Conflict("the partition has no room for it"))
        with pytest.raises(Conflict):
            resume_run(database, session, runs.find(database, "q-aaaaaa"))  # type: ignore[arg-type]  # all that is used
        run = runs.find(database, "q-aaaaaa")
        assert (run.state, run.reason, run.is_only_told) == ("failed", "node_failure", True)
        assert [each.run_id for each in runs.every(database, watched=True)] == ["q-aaaaaa"]


def test_a_run_that_is_seen_to_run_just_before_it_is_submitted_is_not_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another home has resumed it. The host's refusal would be written over what runs."""

    def late(database: Database, run: runs.Run, _confirmed: object) -> dict[str, str]:
        runs.record(database, run.run_id, Verdict("running", None, None, 2, 7), submission=2)
        return {}

    monkeypatch.setattr(resume, "_secrets", late)
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5))
        session = Session(HomePaths(tmp_path, tmp_path), Conflict("run q-aaaaaa has submission 2 already"))
        with pytest.raises(Conflict, match="it is running now; nothing was started"):
            resume_run(database, session, runs.find(database, "q-aaaaaa"))  # type: ignore[arg-type]  # all that is used
        run = runs.find(database, "q-aaaaaa")
        assert (run.state, run.reason, run.submission) == ("running", None, 2)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LinkLost("the link broke"), "link_lost"),
        (OutcomeUnknown("nobody can tell"), "outcome_unknown"),
        (UnexpectedAnswer("it is no answer"), "outcome_unknown"),
    ],
)
@pytest.mark.parametrize(
    ("seen", "submission", "is_kept"),
    [
        (Verdict("running", None, None, 2, 7), 2, True),
        (Verdict("succeeded", None, None, 2, 9), 2, True),
        (Verdict("submitted", None, None, 1, 5), 2, False),
        (Verdict("failed", "exit_3", None, 1, 5), 1, False),
    ],
    ids=["runs", "has ended", "claimed", "not there yet"],
)
def test_a_lost_answer_is_not_written_over_a_submission_that_was_seen_meanwhile(
    tmp_path: Path, error: ArmadaError, reason: str, seen: Verdict, submission: int, is_kept: bool
) -> None:
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5))

        class Watched(Session):
            def call(self, request: SubmitRun, /, **options: Any) -> Any:
                assert runs.record(database, "q-aaaaaa", seen, submission=submission)
                return super().call(request, **options)

        session = Watched(HomePaths(tmp_path, tmp_path), error)
        with pytest.raises(OutcomeUnknown):
            resume_run(database, session, runs.find(database, "q-aaaaaa"))  # type: ignore[arg-type]  # all that is used
        run = runs.find(database, "q-aaaaaa")
        assert (run.state, run.reason) == ((seen.state, seen.reason) if is_kept else ("unknown", reason))


@pytest.mark.parametrize(("claimed", "leaves"), [(2, OutcomeUnknown), (1, Conflict)])
def test_a_resume_that_was_claimed_and_never_started_is_submitted_under_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claimed: int, leaves: type[ArmadaError]
) -> None:
    """What waits for its first start is left to whoever launched it, such as the dispatcher of a sweep."""
    waiting = {"submission": {"number": claimed, "claimed": True, "job": None}, "supervisor": "none"}
    before: Any = ENTRY["evidence"]
    monkeypatch.setitem(ENTRY, "evidence", {**before, **waiting} if claimed == 2 else {**waiting, "state": None})
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("submitted", None, None, 1, 5), submission=claimed)
        session = Session(HomePaths(tmp_path, tmp_path), OutcomeUnknown("its supervisor did not start it within 15 s"))
        with pytest.raises(leaves):
            resume_run(database, session, runs.find(database, "q-aaaaaa"))  # type: ignore[arg-type]  # all that is used
        assert runs.find(database, "q-aaaaaa").state == ("unknown" if claimed == 2 else "submitted")


@pytest.mark.parametrize(
    ("permits", "variables"),
    [
        (NOTHING, {}),
        (Permits(restart_if_damaged=True), {"ARMADA_RESTART_IF_DAMAGED": "2"}),
        (
            Permits(restart_if_damaged=True, accept_changes=True),
            {"ARMADA_RESTART_IF_DAMAGED": "2", "ARMADA_ACCEPT_CHANGES": "2"},
        ),
    ],
)
def test_a_permit_names_the_submission_that_it_is_for(
    tmp_path: Path, permits: Permits, variables: dict[str, str]
) -> None:
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5))
        session = Session(HomePaths(tmp_path, tmp_path), Conflict("no"))
        with pytest.raises(Conflict):
            resume_run(database, session, runs.find(database, "q-aaaaaa"), permits=permits)  # type: ignore[arg-type]  # all that is used
        assert session.secrets == variables


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        (
            "sft",
            (
                "a new run that starts with its weights: armada launch --host box exp.yaml --set "
                "train.learning_rate=1e-5 --set 'train.optimizer={name: sgd}' --set start_from=q-aaaaaa"
            ),
        ),
        (
            "command",
            (
                "a new run: armada launch --host box exp.yaml --set train.learning_rate=1e-5 "
                "--set 'train.optimizer={name: sgd}'"
            ),
        ),
    ],
)
def test_other_settings_are_refused_with_the_launch_that_has_them(tmp_path: Path, task: str, hint: str) -> None:
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task=task, experiment="exp.yaml", spec={})
        run = runs.find(database, "q-aaaaaa")
        refuse_other_settings(database, run, [])
        with pytest.raises(UsageError, match="keeps the settings that it was launched with") as refused:
            refuse_other_settings(database, run, ["train.learning_rate=1e-5", "train.optimizer={name: sgd}"])
        assert refused.value.hint == hint


@pytest.mark.fault(
    "a host rewrites the plan of a run before `armada recover`", "no variable of the shell is sent to it"
)
def test_what_only_the_host_asks_for_is_sent_once_a_person_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OWN_TOKEN", "OTHER_TOKEN"):
        monkeypatch.setenv(name, f"the value of {name}")
    job = {"argv": ["true"], "secrets": ["OWN_TOKEN", "OTHER_TOKEN"]}
    spec = {"job": job, "adopted": {"unconfirmed_secrets": ["OTHER_TOKEN"]}}
    with Database(tmp_path / "store.db") as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec=spec)
        runs.record(database, "q-aaaaaa", Verdict("failed", "exit_3", None, 1, 5))
        session, run = Session(HomePaths(tmp_path, tmp_path), Conflict("refused")), runs.find(database, "q-aaaaaa")
        words = "only its host, box, says that it needs these variables of your environment: OTHER_TOKEN$"
        with pytest.raises(Conflict, match=words) as told:
            resume_run(database, session, run)  # type: ignore[arg-type]  # all that is used
        assert told.value.hint == "to send their values to box: armada resume q-aaaaaa --secrets OTHER_TOKEN"
        assert not hasattr(session, "secrets")
        adopted = {**spec, "adopted": {"unconfirmed_secrets": ["OWN_TOKEN", "OTHER_TOKEN"]}}
        database.connection.execute("UPDATE runs SET spec = ?", (json.dumps(adopted),))
        with pytest.raises(Conflict, match=r"OWN_TOKEN$") as told:
            resume_run(database, session, run, confirmed=["OTHER_TOKEN"])  # type: ignore[arg-type]  # all that is used
        assert str(told.value.hint).endswith("armada resume q-aaaaaa --secrets OWN_TOKEN,OTHER_TOKEN")
        database.connection.execute("UPDATE runs SET spec = ?", (json.dumps(spec),))
        with pytest.raises(UsageError, match="q-aaaaaa does not ask for HOME"):
            resume_run(database, session, run, confirmed=["HOME"])  # type: ignore[arg-type]  # all that is used
        with pytest.raises(Conflict, match="refused"):
            resume_run(database, session, run, confirmed=["OTHER_TOKEN"])  # type: ignore[arg-type]  # all that is used
    assert session.secrets == {name: f"the value of {name}" for name in ("OWN_TOKEN", "OTHER_TOKEN")}
