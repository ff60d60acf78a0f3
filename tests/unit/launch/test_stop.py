"""What a stop waits for, and what it says of a run of which its host has no records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.errors import Conflict, NotFound, OutcomeUnknown
from armada.launch.stop import KILL_S, request_of, stop_run
from armada.store import runs
from armada.store.database import Database
from armada.store.runs import Run
from armada.verdicts.states import Verdict
from tests.answers import Answering

RUN = "q-aaaaaa"
GONE = {"exists": False, "remains": {"processes": 0, "is_shared": False}}


class Host(Answering):
    """A host that answers each poll with the next of what a test says, and the last of them from then on."""

    host = SimpleNamespace(name="box", batch=None)

    def __init__(self) -> None:
        self.stopping: dict[str, Any] | None = {"outcome": "stopping", "submission": 1}
        self.shown: list[dict[str, Any]] = []
        self.root = "r"
        self.asked: list[dict[str, Any]] = []
        self.now = 1000.0

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> Any:
        if method == "run.stop":
            self.asked.append(params)
            if self.stopping is None or params["root"] != self.root:
                raise NotFound("no such run")
            return self.stopping
        assert method == "run.observe"
        entry = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        return {"root": self.root, "runs": [{"run_id": RUN, **entry}]}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 2000.0, "it waits forever"


def shown(state: str, submission: int = 1, seq: int = 1, **more: Any) -> dict[str, Any]:
    told = {"state": state, "attempt": submission, "seq": seq, "submission": submission, **more}
    claimed = {"number": submission, "claimed": True, "job": {"submission": submission}}
    run = {"number": submission, "run": {"submission": submission}, "exit": None}
    evidence = {"submission": claimed, "supervisor": "alive", "state": told, "attempt": run}
    return {"exists": True, "evidence": evidence}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    clock = SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now)
    monkeypatch.setattr("armada.launch.stop.time", clock)
    return made


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "store.db") as found:
        yield found


def insert(database: Database, *, state: str = "running", attempt: int = 1, submission: int = 1, **spec: Any) -> None:
    runs.insert(database, run_id=RUN, name="q", host="box", task="sft", experiment=None, spec=spec, root_id="r")
    query = "UPDATE runs SET attempt = ?, submission = ? WHERE run_id = ?"
    with database.transaction() as connection:
        connection.execute(query, (attempt, submission, RUN))
    if state != "preparing":
        runs.set_state(database, RUN, state)


def stop(database: Database, host: Host, said: list[str] | None = None, grace_s: float | None = 5.0) -> Run:
    say = (said if said is not None else []).append
    return stop_run(database, host, runs.find(database, RUN), grace_s, say)  # type: ignore[arg-type]  # all that is used of a session


@pytest.mark.parametrize(
    ("given_s", "spec", "grace_s"),
    [(5.0, {"stop_grace_s": 20.0}, 5.0), (0.0, {}, 0.0), (None, {"stop_grace_s": 20.0}, 20.0), (None, {}, 60.0)],
)
def test_the_grace_is_the_one_that_was_said_or_else_the_plans(
    database: Database, given_s: float | None, spec: dict[str, Any], grace_s: float
) -> None:
    insert(database, **spec)
    asked = request_of(database, runs.find(database, RUN), given_s)
    assert (asked.grace_s, asked.root) == (grace_s, "r")


def test_it_is_waited_for_until_it_has_ended(database: Database, host: Host) -> None:
    insert(database)
    host.shown = [shown("running"), shown("running", seq=2), shown("cancelled", seq=3, reason="killed_by_user")]
    said: list[str] = []
    run = stop(database, host, said)
    assert (run.state, said) == ("cancelled", [f"{RUN} · grace 5 s"] * 2)


def test_one_that_does_not_end_is_given_up_and_says_why(database: Database, host: Host) -> None:
    insert(database)
    host.stopping = {"outcome": "stopping", "submission": 1, "problem": "no answer"}
    host.shown = [shown("running", message="it saves")]
    said: list[str] = []
    with pytest.raises(OutcomeUnknown, match=r"still running, 35 s after .*: it saves; .* did not answer: no answer"):
        stop(database, host, said)
    assert 1000.0 + 5.0 + KILL_S < host.now < 1000.0 + 5.0 + KILL_S + 1.0
    assert "the scheduler did not answer: no answer" in said[0]


def test_of_an_agent_that_names_no_submission_the_state_alone_counts(database: Database, host: Host) -> None:
    insert(database)
    host.stopping = {"outcome": "stopping"}
    host.shown = [shown("running"), shown("cancelled", seq=2)]
    assert stop(database, host).state == "cancelled"


def test_a_host_that_shows_an_earlier_submission_may_have_been_restored(database: Database, host: Host) -> None:
    insert(database, submission=2, attempt=2)
    host.shown = [shown("cancelled", 1)]
    with pytest.raises(OutcomeUnknown, match="shows submission 1 of q-aaaaaa, and it showed 2 before"):
        stop(database, host)
    assert host.now == 1000.0  # nothing is waited for


def test_what_no_host_shows_any_more_is_ended_by_hand(database: Database, host: Host) -> None:
    insert(database, submission=2, attempt=2, scheduler={"kind": "slurm"})
    runs.set_state(database, RUN, "unknown", reason="put_back")
    host.shown = [shown("cancelled", 1)]
    host.stopping = {"outcome": "already_ended", "submission": 1}
    with pytest.raises(OutcomeUnknown) as caught:
        stop(database, host)
    assert f"armada stop {RUN}; if it is still unknown then: scancel" in (caught.value.hint or "")
    assert f"then armada rm {RUN}" in (caught.value.hint or "")


def test_one_that_is_resumed_after_it_was_stopped_is_another_submission(database: Database, host: Host) -> None:
    insert(database)
    host.shown = [shown("running", 2, seq=5)]
    with pytest.raises(Conflict, match="was then resumed by another armada, and is running"):
        stop(database, host)


LIVES = {"exists": False, "remains": {"processes": 2, "is_shared": False}}


def test_what_lives_of_a_run_whose_root_was_wiped_is_ended_at_the_root_that_there_is(
    database: Database, host: Host
) -> None:
    insert(database)
    runs.mark_wiped(database, "box", "r")
    host.root, host.shown = "s", [LIVES, LIVES, LIVES, GONE]
    said: list[str] = []
    assert stop(database, host, said).state == "cancelled"
    assert [each["root"] for each in host.asked] == ["r", "s"]
    assert said == [f"{RUN} · grace 5 s"] * 2


def test_what_lives_on_of_such_a_run_is_not_said_to_have_ended(database: Database, host: Host) -> None:
    insert(database)
    runs.mark_wiped(database, "box", "r")
    host.root, host.shown = "s", [LIVES]
    with pytest.raises(OutcomeUnknown, match="and 2 processes of it live there") as refused:
        stop(database, host)
    assert refused.value.hint == f"armada hosts reap box {RUN}"
    assert not runs.find(database, RUN).ended
    assert host.now > 1000.0 + 5.0 + KILL_S


def test_what_lives_on_a_disk_that_may_be_another_is_not_told_to_end(database: Database, host: Host) -> None:
    insert(database)
    host.root, host.shown = "s", [LIVES]
    with pytest.raises(OutcomeUnknown, match="it is unknown whether"):
        stop(database, host)
    assert [each["root"] for each in host.asked] == ["r"]


def test_a_run_that_its_host_does_not_know_and_that_ended_is_as_it_ended(database: Database, host: Host) -> None:
    insert(database, state="succeeded")
    host.stopping, host.shown = None, [GONE]
    assert (stop(database, host).state, runs.find(database, RUN).message) == ("succeeded", None)


def test_a_run_that_its_host_never_had_is_cancelled(database: Database, host: Host) -> None:
    insert(database, state="preparing", attempt=0)
    host.stopping, host.shown = None, [GONE]
    run = stop(database, host)
    assert (run.state, run.reason, run.message) == ("cancelled", "killed_by_user", None)


@pytest.mark.parametrize(("attempt", "words"), [(1, "while it ran"), (0, "while it waited")])
def test_a_run_whose_folder_was_removed_and_of_which_nothing_lives_is_cancelled(
    database: Database, host: Host, attempt: int, words: str
) -> None:
    insert(database, attempt=attempt)
    host.shown = [{**GONE, "remains": {"processes": 2, "is_shared": False}}, GONE]
    run = stop(database, host)
    assert (run.state, run.reason) == ("cancelled", "killed_by_user")
    assert run.message is not None
    assert words in run.message


@pytest.mark.parametrize(
    ("root", "remains", "spec", "words"),
    [
        ("another", {"processes": 0, "is_shared": False}, {}, "it is unknown whether q-aaaaaa runs"),
        (
            "r",
            {"processes": 0, "is_shared": False},
            {"scheduler": {"kind": "slurm"}},
            "whether slurm still has the job",
        ),
        ("r", {"processes": 0, "is_shared": True}, {}, "it may run on another one"),
    ],
)
def test_a_run_that_may_live_where_nobody_sees_it_is_not_called_cancelled(
    database: Database, host: Host, root: str, remains: dict[str, Any], spec: dict[str, Any], words: str
) -> None:
    insert(database, **spec)
    host.stopping, host.root, host.shown = None, root, [{"exists": False, "remains": remains}]
    with pytest.raises(OutcomeUnknown, match=words):
        stop(database, host)
    assert runs.find(database, RUN).state != "cancelled"


@pytest.mark.parametrize("said", [{}, {"remains": {}}, {"remains": {"is_shared": False}}])
def test_a_host_that_says_nothing_of_what_lives_there_proves_no_end(
    database: Database, host: Host, said: dict[str, Any]
) -> None:
    insert(database)
    host.shown = [{"exists": False, **said}]
    with pytest.raises(OutcomeUnknown, match="its host does not say whether processes of it live there"):
        stop(database, host)
    assert runs.find(database, RUN).state != "cancelled"


def test_a_run_whose_folder_is_back_at_the_second_look_is_not_called_cancelled(database: Database, host: Host) -> None:
    insert(database)
    host.stopping, host.shown = None, [GONE, shown("running")]
    with pytest.raises(OutcomeUnknown):
        stop(database, host)
    assert runs.find(database, RUN).state != "cancelled"


@pytest.mark.parametrize("state", ["running", "preparing"])
def test_a_run_whose_folder_cannot_be_read_is_not_said_to_have_been_removed(
    host: Host, database: Database, state: str
) -> None:
    insert(database, state=state)
    host.stopping = None
    host.shown = [{"exists": True, "evidence": None, "findings": ["Permission denied"]}]
    with pytest.raises(OutcomeUnknown, match="did not find it, and shows its folder now, or cannot read it"):
        stop(database, host)
    assert not runs.find(database, RUN).ended


def record_at_third_look(database: Database, host: Host, monkeypatch: pytest.MonkeyPatch, seen: Verdict) -> list[str]:
    """Have another process record something of the run while its host is asked for the third time; return what is asked."""
    said, looks = host.said, list[str]()

    def overtaken(method: str, params: dict[str, Any], /, **options: Any) -> Any:
        answer = said(method, params, **options)
        looks.append(method)
        if looks.count("run.observe") == 3:
            runs.record(database, RUN, seen)
        return answer

    monkeypatch.setattr(host, "said", overtaken)
    return looks


def test_a_run_that_another_look_finds_gone_meanwhile_is_cancelled(
    database: Database, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(database)
    host.stopping, host.shown = None, [GONE]
    record_at_third_look(database, host, monkeypatch, Verdict("unknown", "not_on_host", "the daemon's words", 1, 3))
    run = stop(database, host)
    assert (run.state, run.reason) == ("cancelled", "killed_by_user")


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (Verdict("running", None, None, 1, 3), None),
        (Verdict("submitted", None, None, 0, 0), None),
        (Verdict("succeeded", None, None, 1, 3), ("succeeded", None)),
    ],
)
def test_a_run_that_is_submitted_while_its_host_is_asked_is_not_called_cancelled(
    database: Database,
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    seen: Verdict,
    left: tuple[str, str | None] | None,
) -> None:
    """Its launch, or a resume by another process, hands it over at this moment."""
    insert(database, state="preparing", attempt=0)
    host.stopping, host.shown = None, [GONE]
    looks = record_at_third_look(database, host, monkeypatch, seen)
    if left is None:
        with pytest.raises(Conflict, match=f"it is {seen.state} now") as refused:
            stop(database, host)
        assert refused.value.hint == f"armada stop {RUN} stops it"
    else:
        run = stop(database, host)
        assert (run.state, run.reason) == left
    assert looks.count("run.observe") == 3
    assert runs.find(database, RUN).state == seen.state
