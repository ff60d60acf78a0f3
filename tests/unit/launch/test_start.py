"""What home records of a launch, while the daemon watches the run and somebody may stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from armada.errors import ArmadaError, Conflict, LinkLost, NotFound, OutcomeUnknown, ProvisionFailed, UnexpectedAnswer
from armada.foundation.progress import NullProgress
from armada.launch import start as launching
from armada.launch.plans.plan import Plan
from armada.store import runs
from armada.store.database import Database
from armada.verdicts.states import Verdict

RUN = "q-aaaaaa"
STOPPED = Verdict("cancelled", "killed_by_user", None, 0, 0, runs.OWN_WORD)
STOPPED_THERE = Verdict("cancelled", "killed_by_user", None, 0, 1, "the host's record")
RUNS = Verdict("running", None, None, 1, 3)
FAILED = Verdict("failed", "exit_3", None, 1, 5)
CLAIMED = Verdict("submitted", None, "claimed on the host, not started yet", 0, 0)
NOT_THERE = Verdict("unknown", "not_on_host", None, 0, 0)


class Host:
    """Takes the run or refuses it; before its answer arrives, somebody else records something."""

    home = None
    host = SimpleNamespace(name="box")

    def __init__(self, database: Database, meanwhile: Verdict | None, error: ArmadaError | None = None) -> None:
        self._database = database
        self._meanwhile = meanwhile
        self._error = error
        self.stopped = 0
        self.stops_fail = False
        self.refusal: ArmadaError | None = None

    def call_all(self, calls: list[Any]) -> list[Any]:
        if self.stops_fail:
            raise LinkLost("the link broke")
        self.stopped += len(calls)
        return [self.refusal for _ in calls]

    def call(self, _: object, /, **__: Any) -> None:
        if self._meanwhile is not None:
            runs.record(self._database, RUN, self._meanwhile)
        if self._error is not None:
            raise self._error


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "store.db") as found:
        runs.insert(found, run_id=RUN, name="q", host="box", task="command", experiment=None, spec={})
        yield found


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(launching, "CreateRun", lambda **_: None)
    monkeypatch.setattr(launching, "asking_home", lambda _: None)
    for name in ("observe", "refuse_failures", "record_plan", "keep_launch", "record_labels"):
        monkeypatch.setattr(launching, name, lambda *_, **__: None)
    monkeypatch.setattr(launching, "dataclasses", SimpleNamespace(replace=lambda each, **_: each))
    monkeypatch.setattr(launching, "provision_plan", lambda _database, _session, made, *_: made)
    experiment = SimpleNamespace(secrets=(), stop_grace_s=5.0)
    spec = SimpleNamespace(model_copy=lambda **_: None)
    host = SimpleNamespace(name="box", batch=None)
    made = SimpleNamespace(run_id=RUN, spec=spec, files={}, checks=(), experiment=experiment, host=host)
    return cast("Plan", made)


def hand_over(database: Database, host: Host, plan: Plan, *, again: bool = False) -> None:
    lock = database.path.parent / "lock"
    launching.start(database, host, plan, NullProgress(), lock=lock, again=again)  # type: ignore[arg-type]  # all that is used of a session


def known(database: Database) -> tuple[str, str | None]:
    run = runs.find(database, RUN)
    return run.state, run.reason


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (None, ("submitted", None)),
        (NOT_THERE, ("submitted", None)),
        (RUNS, ("running", None)),
        (FAILED, ("failed", "exit_3")),
    ],
)
def test_what_the_daemon_saw_before_the_answer_came_is_kept(
    database: Database, plan: Plan, seen: Verdict | None, left: tuple[str, str | None]
) -> None:
    host = Host(database, seen)
    hand_over(database, host, plan)
    assert (known(database), host.stopped) == (left, 0)


def test_a_run_that_was_stopped_on_its_way_is_stopped_on_its_host(database: Database, plan: Plan) -> None:
    host = Host(database, STOPPED)
    with pytest.raises(Conflict, match="was stopped while it was being prepared"):
        hand_over(database, host, plan)
    assert (known(database), host.stopped) == (("cancelled", "killed_by_user"), 1)


def test_a_run_that_was_stopped_on_its_way_and_cannot_be_stopped_on_its_host_is_polled(
    database: Database, plan: Plan
) -> None:
    host = Host(database, STOPPED)
    host.stops_fail = True
    with pytest.raises(LinkLost):
        hand_over(database, host, plan)
    assert known(database) == ("unknown", "link_lost")


@pytest.mark.parametrize(
    "refusal",
    [ArmadaError("No space left on device"), OutcomeUnknown("nobody can tell"), UnexpectedAnswer("it is none")],
)
def test_a_run_that_was_stopped_on_its_way_and_whose_host_refuses_to_stop_it_is_polled(
    database: Database, plan: Plan, refusal: ArmadaError
) -> None:
    host = Host(database, STOPPED)
    host.refusal = refusal
    with pytest.raises(OutcomeUnknown, match=f"may run nevertheless: {refusal.message}"):
        hand_over(database, host, plan)
    assert known(database) == ("unknown", "outcome_unknown")


def test_a_run_that_was_stopped_on_its_way_and_is_not_on_its_host_is_stopped(database: Database, plan: Plan) -> None:
    host = Host(database, STOPPED)
    host.refusal = NotFound("no run q-aaaaaa here")
    with pytest.raises(Conflict, match="was stopped while it was being prepared"):
        hand_over(database, host, plan)
    assert known(database) == ("cancelled", "killed_by_user")


def test_a_stop_just_before_the_submission_is_recorded_is_not_overwritten(
    database: Database, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any look at the store and the next write, another process may write."""
    set_state = runs.set_state

    def late(of: Database, run_id: str, state: str, **more: Any) -> bool:
        runs.record(of, run_id, STOPPED)
        return set_state(of, run_id, state, **more)

    monkeypatch.setattr(runs, "set_state", late)
    host = Host(database, None)
    with pytest.raises(Conflict, match="was stopped while it was being prepared"):
        hand_over(database, host, plan)
    assert (known(database), host.stopped) == (("cancelled", "killed_by_user"), 1)


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (None, ("failed", "submit_refused")),
        (CLAIMED, ("failed", "submit_refused")),
        (RUNS, ("running", None)),
        (Verdict("succeeded", None, None, 1, 5), ("succeeded", None)),
        (STOPPED, ("cancelled", "killed_by_user")),
    ],
)
def test_a_no_is_not_written_over_what_was_seen_of_the_run_meanwhile(
    database: Database, plan: Plan, seen: Verdict | None, left: tuple[str, str | None]
) -> None:
    with pytest.raises(ProvisionFailed):
        hand_over(database, Host(database, seen, ProvisionFailed("the disk is full")), plan)
    assert known(database) == left


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LinkLost("the link broke"), "link_lost"),
        (OutcomeUnknown("nobody can tell"), "outcome_unknown"),
        (UnexpectedAnswer("it is no answer"), "outcome_unknown"),
    ],
)
@pytest.mark.parametrize("seen", [None, NOT_THERE, CLAIMED, STOPPED, STOPPED_THERE, RUNS, FAILED])
def test_a_lost_answer_leaves_what_was_seen_of_the_run_meanwhile(
    database: Database, plan: Plan, seen: Verdict | None, error: ArmadaError, reason: str
) -> None:
    """A stop that found nothing on the host may have come before the request: it is unknown, and polled."""
    with pytest.raises(OutcomeUnknown):
        hand_over(database, Host(database, seen, error), plan)
    is_kept = seen in (RUNS, FAILED, STOPPED_THERE)
    assert known(database) == ((seen.state, seen.reason) if seen is not None and is_kept else ("unknown", reason))


@pytest.mark.parametrize(
    ("seen", "is_there"), [(RUNS, True), (FAILED, True), (NOT_THERE, False), (None, False), (STOPPED, False)]
)
def test_an_earlier_launch_that_arrived_late_is_the_run(
    database: Database, plan: Plan, seen: Verdict | None, is_there: bool
) -> None:
    host = Host(database, seen, Conflict("run q-aaaaaa exists here with another spec"))
    if is_there:
        hand_over(database, host, plan, again=True)
    else:
        with pytest.raises(Conflict):
            hand_over(database, host, plan, again=True)


@pytest.mark.parametrize("error", [ProvisionFailed("no space"), KeyboardInterrupt()], ids=["fails", "is interrupted"])
@pytest.mark.parametrize("seen", [None, RUNS, STOPPED])
def test_provisioning_that_fails_says_nothing_of_a_run_that_was_seen_or_stopped_meanwhile(
    database: Database, plan: Plan, monkeypatch: pytest.MonkeyPatch, seen: Verdict | None, error: BaseException
) -> None:
    """The request of an interrupted launch of the same may arrive late."""

    def provision(*_: object) -> Plan:
        if seen is not None:
            runs.record(database, RUN, seen)
        raise error

    monkeypatch.setattr(launching, "provision_plan", provision)
    with pytest.raises(type(error)):
        hand_over(database, Host(database, None), plan, again=True)
    usual = ("failed", "provision_failed") if isinstance(error, ProvisionFailed) else ("cancelled", "interrupted")
    assert known(database) == ((seen.state, seen.reason) if seen is not None else usual)
