"""What became of a launch that was interrupted, and whether another armada has just made the same one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.errors import Conflict, NotFound
from armada.foundation import process_identity
from armada.launch import reconcile
from armada.paths import HomePaths
from armada.store import operations, runs
from armada.store.database import Database
from tests.answers import Answering

KEY = "k" * 64
RUN = "q-aaaaaa"
NOW = 2_000_000_000.0
CLAIMED = {"number": 1, "claimed": True, "job": None}
STARTED = {**CLAIMED, "job": {"submission": 1}}


class Host(Answering):
    """A host that shows of the run what a test says, and takes submissions."""

    host = SimpleNamespace(name="box", batch=None)

    def __init__(self, folder: Path) -> None:
        self.home = HomePaths(config=folder / "config", state=folder)
        self.home.make()
        self.entry: dict[str, Any] = {"exists": False}
        self.asked: list[str] = []

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> Any:
        if method == "run.observe":
            return {"root": "r", "runs": [{"run_id": RUN, **self.entry}]}
        self.asked.append(method)
        if method == "run.submit":
            self.entry = there(STARTED, {"state": "running", "submission": 1, "attempt": 1, "seq": 1})
            return {"outcome": "started", "job": {"submission": params["submission"]}}
        if method == "run.remove":
            raise NotFound("it is gone already")
        raise AssertionError(method)


def there(submission: dict[str, Any] | None, state: dict[str, Any] | None = None) -> dict[str, Any]:
    supervisor = "alive" if state is not None else "none"
    return {"exists": True, "evidence": {"submission": submission, "supervisor": supervisor, "state": state}}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "store.db") as found:
        yield found


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def insert(
    database: Database,
    run_id: str = RUN,
    *,
    at: float = NOW - 60.0,
    key: str = KEY,
    on: str = "box",
    submission: int = 1,
) -> None:
    runs.insert(database, run_id=run_id, name="q", host=on, task="command", experiment=None, spec={"launch_key": key})
    query = "UPDATE runs SET created_at = ?, submission = ? WHERE run_id = ?"
    with database.transaction() as connection:
        connection.execute(query, (at, submission, run_id))


def launch(
    database: Database, run_id: str | None = RUN, *, kind: str = "launch", lives: bool = False, ended: str | None = None
) -> str:
    """An operation of this process, or of one that is gone, which may have ended."""
    me = process_identity.current()
    id_ = f"{kind}-{len(operations.recent(database))}"
    pid = me.pid if lives else 2**22 + 1
    start, boot = me.start_time, me.boot_id
    operations.begin(
        database,
        id=id_,
        kind=kind,
        run_id=run_id,
        host="box",
        argv=("launch",),
        pid=pid,
        start_time=start,
        boot_id=boot,
    )
    if ended is not None:
        operations.finish(database, id_, ended)
    return id_


def find(database: Database, host: Host) -> reconcile.InterruptedLaunch | None:
    return reconcile.find_former(database, host, KEY, NOW)  # type: ignore[arg-type]  # all that is used of a session


def test_without_an_interrupted_launch_no_host_is_asked(database: Database, host: Host) -> None:
    assert find(database, host) is None
    insert(database)
    assert find(database, host) is None  # its launch has yet to be recorded
    assert reconcile.find_unfinished(database, KEY, "box", NOW) is None
    assert host.asked == []


@pytest.mark.parametrize(
    ("launches", "is_found"),
    [
        ([{}], True),
        ([{"ended": "failed"}], True),
        ([{"ended": "done"}], False),
        ([{"lives": True}], False),
        ([{"ended": "failed"}, {"lives": True}], False),
        ([{"ended": "done"}, {"ended": "failed"}], False),
        ([{"ended": "failed"}, {}], True),
    ],
)
def test_only_a_launch_that_nobody_completed_or_continues_was_interrupted(
    database: Database, launches: list[dict[str, Any]], is_found: bool
) -> None:
    insert(database)
    for each in launches:
        launch(database, **each)
    found = reconcile.find_unfinished(database, KEY, "box", NOW)
    assert (found.run_id if found is not None else None) == (RUN if is_found else None)


@pytest.mark.parametrize(
    ("state", "reason", "age_s", "is_found"),
    [
        ("running", None, reconcile.YOUNG_S - 60, True),
        ("running", None, reconcile.YOUNG_S + 60, False),
        ("failed", "exit_1", reconcile.ENDED_S - 60, True),
        ("failed", "exit_1", reconcile.ENDED_S + 60, False),
        ("running", None, reconcile.ENDED_S + 60, True),
        ("failed", "provision_failed", 60, False),
        ("cancelled", "killed_by_user", 60, False),
        ("cancelled", "removed", 60, False),
    ],
)
def test_a_launch_is_continued_for_as_long_as_it_is_no_history(
    database: Database, state: str, reason: str | None, age_s: float, is_found: bool
) -> None:
    insert(database, at=NOW - age_s)
    launch(database)
    runs.set_state(database, RUN, state, reason=reason)
    assert (reconcile.find_unfinished(database, KEY, "box", NOW) is not None) is is_found


@pytest.mark.parametrize("other", [{"key": "o" * 64}, {"on": "another"}])
def test_another_launch_is_none_of_this_one(database: Database, other: dict[str, Any]) -> None:
    insert(database, **other)
    launch(database)
    assert reconcile.find_unfinished(database, KEY, "box", NOW) is None


@pytest.mark.parametrize(
    ("entry", "started", "asked"),
    [
        ({"exists": False}, False, []),
        (there(None), False, ["run.remove"]),
        (there({**CLAIMED, "claimed": False}), False, ["run.remove"]),
        (there(CLAIMED), True, ["run.submit"]),
        (there(STARTED, {"state": "running", "submission": 1, "attempt": 1, "seq": 1}), True, []),
    ],
)
def test_its_host_says_how_far_it_came(
    database: Database, host: Host, entry: dict[str, Any], started: bool, asked: list[str]
) -> None:
    insert(database)
    launch(database)
    host.entry = entry
    found = find(database, host)
    assert found is not None
    assert (found.run.run_id, found.started, host.asked) == (RUN, started, asked)
    if started:
        assert found.run.state == "running"


class TestSecond:
    """A launch that another armada made while this one waited for the lock."""

    def refuse(self, database: Database, before: reconcile.Complete) -> list[float]:
        waits: list[float] = []

        def pause(seconds: float) -> None:
            waits.append(seconds)
            assert sum(waits) < 2 * reconcile.SETTLE_S, "it waits forever"

        reconcile.refuse_second(database, KEY, "box", before, pause)
        return waits

    def test_what_was_complete_before_counts_for_nothing(self, database: Database) -> None:
        insert(database)
        launch(database, ended="done")
        before = reconcile.complete_launches(database, KEY, "box", 0.0)
        assert before.run_ids == {RUN}
        assert self.refuse(database, before) == []

    def test_what_became_complete_meanwhile_is_not_started_twice(self, database: Database) -> None:
        before = reconcile.complete_launches(database, KEY, "box", 0.0)
        for number in (1, 2):
            insert(database, f"q-{number}", at=NOW + number)
            launch(database, f"q-{number}", ended="done")
        with pytest.raises(Conflict, match="q-2 was just launched by another armada"):
            self.refuse(database, before)

    def test_what_broke_off_meanwhile_is_none(self, database: Database) -> None:
        before = reconcile.complete_launches(database, KEY, "box", 0.0)
        insert(database)
        launch(database, ended="failed")
        launch(database, lives=False)
        assert self.refuse(database, before) == []

    def test_who_held_the_lock_is_waited_for_until_it_recorded_its_end(self, database: Database) -> None:
        before = reconcile.complete_launches(database, KEY, "box", 0.0)
        insert(database)
        id_ = launch(database, lives=True)
        waits: list[float] = []

        def pause(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                operations.finish(database, id_, "done")

        with pytest.raises(Conflict, match=RUN):
            reconcile.refuse_second(database, KEY, "box", before, pause)
        assert len(waits) == 3

    def test_one_that_never_records_its_end_is_not_waited_for_forever(self, database: Database) -> None:
        before = reconcile.complete_launches(database, KEY, "box", 0.0)
        insert(database)
        launch(database, lives=True)
        assert sum(self.refuse(database, before)) == pytest.approx(reconcile.SETTLE_S, abs=1.0)

    @pytest.mark.parametrize(
        "other",
        [{"run_id": "q-other"}, {"run_id": None}, {"kind": "sync"}],
        ids=["of another run", "of no run yet", "no launch"],
    )
    def test_what_else_goes_on_is_not_waited_for(self, database: Database, other: dict[str, Any]) -> None:
        before = reconcile.complete_launches(database, KEY, "box", 0.0)
        insert(database)
        insert(database, "q-other", key="o" * 64)
        launch(database, lives=True, **other)
        assert self.refuse(database, before) == []
