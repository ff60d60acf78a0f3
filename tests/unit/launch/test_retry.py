"""Which lost runs are resumed without anybody, and how long one that was refused is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.errors import ArmadaError, Conflict, HostUnreachable, OutcomeUnknown
from armada.home import own
from armada.launch.retry import AGAIN_S, RECENT_S, Retries
from armada.paths import HomePaths
from armada.store import runs, sweeps
from armada.store.database import Database
from armada.store.runs import Run
from armada.verdicts.states import Verdict
from tests.answers import Answering

NOW = 2_000_000_000.0
LOST = {"supervisor": "dead", "rebooted": True, "may_have_succeeded": False}


class Host(Answering):
    """A host that lost runs, and says what a test says of each of them."""

    def __init__(self) -> None:
        self.host = SimpleNamespace(name="box", batch=None, local=False, root=None)
        self.evidence: dict[str, Any] | None = LOST
        self.home: HomePaths | None = None
        self.asked: list[str] = []
        self.resumed: list[str] = []
        self.error: Callable[[], ArmadaError] | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> Any:
        assert method == "run.observe"
        (asked,) = params["runs"]
        self.asked.append(asked["run_id"])
        self.meanwhile()
        return {"root": "r", "runs": [{"run_id": asked["run_id"], "exists": True, "evidence": self.evidence}]}

    def retry(self, _database: Database, _session: object, run: Run, _words: str) -> None:
        self.resumed.append(run.run_id)
        self.meanwhile()
        if self.error is not None:
            raise self.error()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr("armada.launch.retry.retry", made.retry)
    return made


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "store.db") as found:
        yield found


@pytest.mark.fault("one lost run's part of an answer does not fit", "the other ones of its host are resumed")
def test_a_run_whose_part_of_an_answer_does_not_fit_keeps_no_other_from_being_resumed(
    database: Database, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(database, "q-1")
    lose(database, "q-2", ago_s=30.0)
    retries, said = Retries(host), host.said  # type: ignore[arg-type]  # all that is used

    def misfit(method: str, params: dict[str, Any], /, **options: Any) -> Any:
        answer = said(method, params, **options)
        return {**answer, "runs": [{"run_id": "q-1", "exists": 7}]} if host.asked[-1] == "q-1" else answer

    monkeypatch.setattr(host, "said", misfit)
    assert retries.look(database, NOW) == ["q-2"]
    runs.set_state(database, "q-2", "running")
    asked = list(host.asked)
    assert (retries.look(database, NOW + AGAIN_S - 1), host.asked) == ([], asked)
    monkeypatch.setattr(host, "said", said)
    assert retries.look(database, NOW + AGAIN_S) == ["q-1"]


def lose(
    database: Database,
    run_id: str = "q-1",
    *,
    reason: str = "host_rebooted",
    submission: int = 1,
    retries: int | None = 2,
    ago_s: float = 60.0,
    **spec: Any,
) -> None:
    experiment = {} if retries is None else {"retries": retries}
    spec = {"experiment": experiment, **spec}
    runs.insert(database, run_id=run_id, name="q", host="box", task="sft", experiment=None, spec=spec)
    fail(database, run_id, reason=reason, submission=submission)
    query = "UPDATE runs SET created_at = ?, observed_at = ?, ended_at = ? WHERE run_id = ?"
    with database.transaction() as connection:
        connection.execute(query, (NOW - ago_s, NOW - ago_s, NOW - ago_s, run_id))


def fail(database: Database, run_id: str = "q-1", *, reason: str = "host_rebooted", submission: int = 1) -> None:
    runs.record(database, run_id, Verdict("failed", reason, "lost", 1, submission), submission=submission)


def retries(host: Host) -> Retries:
    return Retries(host)  # type: ignore[arg-type]  # all that is used of a session


def test_what_was_lost_is_resumed_as_often_as_its_experiment_says(database: Database, host: Host) -> None:
    lose(database, "q-1")
    lose(database, "q-2", submission=2)
    lose(database, "q-3", submission=3)
    lose(database, "q-4", retries=None)
    lose(database, "q-5", reason="exit_1")
    lose(database, "q-6", ago_s=RECENT_S + 60)
    assert retries(host).look(database, NOW) == host.resumed == ["q-1", "q-2"]


def test_only_the_run_that_was_asked_for_is_resumed(database: Database, host: Host) -> None:
    for run_id in ("q-1", "q-2"):
        lose(database, run_id)
    assert retries(host).look(database, NOW, only="q-2") == ["q-2"]


@pytest.mark.fault(
    "a home is copied while a run of it on this machine has retries left", "the copy does not run it again"
)
@pytest.mark.parametrize(
    ("local", "root", "launcher", "resumed"),
    [
        (True, None, "a" * 32, []),
        (True, "/srv/runs", "a" * 32, ["mine"]),
        (False, None, "a" * 32, ["mine"]),
        (True, None, None, ["mine"]),
    ],
    ids=["of the original", "another root", "a host", "its own"],
)
def test_a_copy_of_a_home_leaves_the_runs_of_the_original_on_this_machine_alone(
    database: Database,
    host: Host,
    tmp_path: Path,
    local: bool,
    root: str | None,
    launcher: str | None,
    resumed: list[str],
) -> None:
    paths = HomePaths(tmp_path / "config", tmp_path / "state")
    paths.make()
    vars(host.host).update(local=local, root=root)
    host.home = paths
    lose(database, "mine", home={"id": launcher or own(paths).id, "label": "ann@laptop", "path": "/home/ann"})
    retries(host).look(database, NOW)
    assert host.resumed == resumed
    if not resumed:
        assert "this home is a copy of the one that launched it" in str(runs.find(database, "mine").message)


def test_a_batch_system_requeues_what_its_nodes_lose(database: Database, host: Host) -> None:
    lose(database)
    host.host.batch = "slurm"
    assert (retries(host).look(database, NOW), host.resumed) == ([], [])


def test_a_cell_of_a_stopped_sweep_is_left_alone(
    database: Database, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(database)
    monkeypatch.setattr("armada.launch.retry.is_of_stopped_sweep", lambda *_: True)
    assert (retries(host).look(database, NOW), host.resumed) == ([], [])


@pytest.mark.parametrize(("submission", "resumed"), [(1, False), (0, True)])
def test_a_pruned_cell_whose_stop_did_not_arrive_is_left_alone(
    database: Database, host: Host, submission: int, resumed: bool
) -> None:
    lose(database)
    run = runs.find(database, "q-1")
    entry = {"submission": submission, "step": 100, "value": 1.0, "why": "pruned at step 100"}
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET sweep = 'grid' WHERE run_id = ?", (run.run_id,))
    settings = {"prune": {"at": [100], "pruned": {run.run_id: entry}}}
    sweeps.insert(database, name="grid", title="grid", experiment=None, launch_key="", settings=settings)
    assert bool(retries(host).look(database, NOW)) is resumed


@pytest.mark.parametrize(
    ("evidence", "reason", "watch", "resumed"),
    [
        (LOST, "host_rebooted", True, True),
        ({**LOST, "may_have_succeeded": True}, "host_rebooted", False, False),
        ({**LOST, "may_have_succeeded": None}, "host_rebooted", True, False),
        ({**LOST, "may_have_succeeded": None}, "host_rebooted", False, False),
        ({**LOST, "may_have_succeeded": None}, "supervisor_lost", False, False),
        (LOST, "supervisor_lost", True, False),  # it was lost before the restart
        (LOST, "supervisor_lost", False, True),
        ({**LOST, "rebooted": False}, "supervisor_lost", True, True),
        (None, "host_rebooted", True, False),
        (None, "supervisor_lost", True, False),
    ],
)
def test_what_may_have_succeeded_is_said_to_and_not_run_again(
    database: Database, host: Host, evidence: dict[str, Any] | None, reason: str, watch: bool, resumed: bool
) -> None:
    watching: dict[str, Any] = {"watch": {"checkpoints": {"pattern": "*", "quiet_s": 1.0}}} if watch else {}
    lose(database, reason=reason, **watching)
    host.evidence = evidence
    again = retries(host)
    for later_s in (0.0, 10 * AGAIN_S):
        assert again.look(database, NOW + later_s) == (["q-1"] if resumed else [])
    assert ("may have succeeded" in str(runs.find(database, "q-1").message)) is not resumed


@pytest.mark.parametrize(("error", "again"), [(ArmadaError, True), (Conflict, False)])
def test_a_refusal_is_final_and_what_may_pass_is_tried_again_after_a_while(
    database: Database, host: Host, error: type[ArmadaError], again: bool
) -> None:
    lose(database)
    host.error = lambda: error("its words")
    looks = retries(host)
    for later_s in (0.0, AGAIN_S - 1.0, AGAIN_S):
        assert looks.look(database, NOW + later_s) == []
    assert host.resumed == ["q-1"] * (2 if again else 1)
    run = runs.find(database, "q-1")
    assert (run.state, run.reason, run.message) == ("failed", "host_rebooted", "not resumed automatically: its words")


def test_a_host_that_does_not_answer_to_a_resume_is_asked_again_at_once(database: Database, host: Host) -> None:
    lose(database)
    host.error = lambda: HostUnreachable("no answer")
    looks = retries(host)
    for _ in range(2):
        with pytest.raises(HostUnreachable):
            looks.look(database, NOW)
    assert runs.find(database, "q-1").message == "lost"


def test_an_outcome_that_is_unknown_is_looked_at_again_at_once_and_says_nothing_of_the_host(
    database: Database, host: Host
) -> None:
    lose(database)
    host.error = lambda: OutcomeUnknown("its supervisor has not started yet")
    looks = retries(host)
    for number in (1, 2):
        assert looks.look(database, NOW) == ["q-1"]
        assert host.resumed == ["q-1"] * number
    assert runs.find(database, "q-1").message == "lost"


@pytest.mark.parametrize("became", ["running", "failed"])
def test_what_somebody_else_has_resumed_counts_as_resumed(database: Database, host: Host, became: str) -> None:
    """The other's submission may have ended by now."""
    lose(database)

    def error() -> ArmadaError:
        submission = 2 if became == "failed" else 1
        runs.record(database, "q-1", Verdict(became, None, "words", 2, 9), submission=submission)
        return Conflict("it is there already")

    host.error = error
    assert retries(host).look(database, NOW) == ["q-1"]
    assert runs.find(database, "q-1").message == "words"


LIVES = {
    "submission": {"number": 2, "claimed": True, "job": {"submission": 2}},
    "supervisor": "alive",
    "state": {"state": "running", "submission": 2, "attempt": 2, "seq": 7},
    "attempt": {"number": 2, "run": {"submission": 2}, "exit": None},
    "processes": 1,
}
"""What a host says of a run that was resumed: of a supervisor that lives, it cannot know how its job ends."""


def resume(database: Database, run_id: str) -> None:
    """As a person does, whose job runs a moment later."""
    runs.set_state(database, run_id, "submitted", message="submitted again")
    runs.record(database, run_id, Verdict("running", None, None, 2, 7), submission=2)


def known(database: Database, run_id: str = "q-1") -> tuple[str, str | None, int]:
    run = runs.find(database, run_id)
    return run.state, run.reason, run.submission


def test_a_run_that_a_person_resumes_while_another_is_retried_stays_as_it_is(database: Database, host: Host) -> None:
    lose(database, "q-1")
    lose(database, "q-2")

    def meanwhile() -> None:
        if host.resumed == ["q-1"]:
            resume(database, "q-2")
            host.evidence = LIVES

    host.meanwhile = meanwhile
    assert retries(host).look(database, NOW) == ["q-1", "q-2"]
    assert (host.resumed, host.asked) == (["q-1"], ["q-1"])
    assert known(database, "q-2") == ("running", None, 2)


@pytest.mark.parametrize("answer", [LIVES, {**LOST, "may_have_succeeded": True}, None])
def test_a_run_that_a_person_resumes_while_its_host_is_asked_stays_as_it_is(
    database: Database, host: Host, answer: dict[str, Any] | None
) -> None:
    lose(database)
    host.evidence = answer
    host.meanwhile = lambda: resume(database, "q-1")
    retries(host).look(database, NOW)
    assert (host.resumed, known(database)) == ([], ("running", None, 2))


def test_a_run_that_another_home_has_resumed_is_seen_to_run(database: Database, host: Host) -> None:
    lose(database)
    host.evidence = LIVES
    assert retries(host).look(database, NOW) == ["q-1"]
    assert (host.resumed, known(database)) == ([], ("running", None, 2))


def test_a_retry_that_was_claimed_and_never_started_is_tried_again(database: Database, host: Host) -> None:
    lose(database)
    state = {"state": "failed", "reason": "host_rebooted", "submission": 1, "attempt": 1, "seq": 1}
    host.evidence = {"submission": {"number": 2, "claimed": True}, "supervisor": "none", "state": state, "processes": 0}
    assert retries(host).look(database, NOW) == ["q-1"]
    assert (host.resumed, known(database)) == (["q-1"], ("submitted", None, 2))


@pytest.mark.parametrize("supervisor", ["alive", "unknown"])
def test_nothing_is_said_of_a_run_whose_supervisor_may_live(database: Database, host: Host, supervisor: str) -> None:
    lose(database)
    state = {"state": "failed", "reason": "host_rebooted", "submission": 1, "attempt": 1, "seq": 1}
    host.evidence = {**LIVES, "submission": {"number": 1, "claimed": True}, "state": state, "supervisor": supervisor}
    assert retries(host).look(database, NOW) == []
    run = runs.find(database, "q-1")
    assert (host.resumed, "succeeded" in str(run.message)) == ([], False)


def test_an_end_that_the_resume_itself_sees_is_kept(database: Database, host: Host) -> None:
    """The refusal that it is done leaves it done."""
    lose(database)

    def error() -> ArmadaError:
        runs.record(database, "q-1", Verdict("succeeded", None, "words", 1, 9), submission=1)
        return Conflict("it is done: it succeeded")

    host.error = error
    assert retries(host).look(database, NOW) == []
    assert known(database) == ("succeeded", None, 1)
