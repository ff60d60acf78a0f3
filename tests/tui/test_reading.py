"""From the store to a snapshot: what changed is read, by whomever it was written, and the rest stays the same object."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from typing import cast

import pytest

from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.store import checkpoints, run_sync, runs
from armada.store.database import MIGRATIONS, Database
from armada.store.queries.curves import OUTLINE, read_curve
from armada.tui import snapshot
from armada.tui.reading import RunReader
from armada.tui.snapshot import Counts, RunRow
from armada.verdicts.states import Verdict
from tests.tui.conftest import World


def test_nothing_new_means_the_very_same_rows(world: World) -> None:
    world.run("one-aaaaaa")
    reader = RunReader(world.database)
    first = reader.read({})
    assert reader.read({}) is first
    assert reader.changed == frozenset()


def _record(world: World) -> None:
    runs.record(world.database, "one-aaaaaa", Verdict("running", attempt=1, seq=2), step=7)


def _home(world: World) -> None:
    checkpoints.mark_home(world.database, "one-aaaaaa", f"{5:064x}", world.home.state)


def _fail(world: World) -> None:
    run_sync.failed(world.database, "one-aaaaaa", now=time.time(), reason="disk full", next_due_at=0)


def _by_hand(world: World) -> None:
    with contextlib.closing(sqlite3.connect(world.home.store)) as connection, connection:
        connection.execute("UPDATE runs SET loss = 0.5 WHERE run_id = 'one-aaaaaa'")


@pytest.mark.parametrize("write", [_record, _home, _fail, _by_hand])
def test_whatever_is_written_about_a_run_is_read_and_only_that(world: World, write: Callable[[World], None]) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id)
    world.checkpoint("one-aaaaaa", 5, home=False)
    reader = RunReader(world.database)
    reader.read({})
    before = dict(reader.by_id)
    write(world)
    reader.read({})
    assert reader.changed == frozenset({"one-aaaaaa"})
    assert reader.by_id["one-aaaaaa"] != before["one-aaaaaa"]
    assert reader.by_id["two-bbbbbb"] is before["two-bbbbbb"]
    assert reader.rows[1] is reader.by_id["one-aaaaaa"]


def test_runs_come_and_go_even_where_the_newest_number_went_with_one(world: World) -> None:
    world.run("one-aaaaaa")
    world.run("two-bbbbbb")
    reader = RunReader(world.database)
    reader.read({})
    runs.delete(world.database, "two-bbbbbb")
    runs.record(world.database, "one-aaaaaa", Verdict("failed", "oom", attempt=1, seq=2))
    assert [row.run.state for row in reader.read({})] == ["failed"]
    assert reader.changed is None
    assert reader.counts == Counts(0, 0, 1)
    world.run("new-cccccc", state="queued")
    assert [row.id for row in reader.read({})] == ["new-cccccc", "one-aaaaaa"]
    assert reader.counts == Counts(0, 1, 1)


TARIFF = Tariff((Price(2.5, "EUR"),), 4)


def test_a_price_that_changes_is_in_the_rows_though_no_run_changed(world: World) -> None:
    world.run("one-aaaaaa", host="box")
    reader = RunReader(world.database)
    assert reader.read({})[0].tariff is None
    assert reader.read({"box": TARIFF})[0].tariff == TARIFF
    assert reader.changed == frozenset({"one-aaaaaa"})


def test_a_failure_becomes_history_though_nothing_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("one-aaaaaa", state="failed", reason="oom")
    reader = RunReader(world.database)
    assert reader.read({})[0].trouble == ("failed", "oom", "")
    assert not reader.due
    later = time.time() + 90_000
    monkeypatch.setattr("armada.tui.reading.time.time", lambda: later)
    assert reader.due
    assert reader.read({})[0].trouble is None
    assert not reader.due


def test_the_outline_of_a_long_curve_keeps_its_ends_and_its_spike(world: World) -> None:
    world.run("one-aaaaaa")
    values = [2.0] * 20_000
    values[7_777] = 9.0
    values[123] = 0.5
    world.losses("one-aaaaaa", values)
    outline = read_curve(world.database, "one-aaaaaa", "loss", outline=True)
    assert len(outline) <= 2 * OUTLINE + 1
    steps = [step for step, _, _ in outline]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (1, 20_000)
    known = [value for _, _, value in outline if value is not None]
    assert (min(known), max(known)) == (0.5, 9.0)
    assert len(read_curve(world.database, "one-aaaaaa", "loss")) == 20_000
    assert [step for step, _, _ in read_curve(world.database, "one-aaaaaa", "loss", after=19_998)] == [19_999, 20_000]
    assert read_curve(world.database, "one-aaaaaa", "no such", outline=True) == []


def test_a_store_without_revisions_gets_them_and_loses_nothing(world: World) -> None:
    path = world.home.state / "old.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection, connection:
        for migration in MIGRATIONS[:3]:
            connection.executescript(migration)
        connection.execute("PRAGMA user_version = 3")
        connection.execute(
            """INSERT INTO runs (run_id, name, host, task, spec, state, created_at)
               VALUES ('old-aaaaaa', 'old', 'box', 'command', '{}', 'succeeded', 1)"""
        )
    with Database(path) as database:
        reader = RunReader(database)
        assert [row.id for row in reader.read({})] == ["old-aaaaaa"]
        database.connection.execute("UPDATE runs SET loss = 1.0")
        assert reader.read({})[0].run.loss == 1.0


@pytest.mark.parametrize(
    ("moved", "is_many"),
    [("nothing", False), ("one more", False), ("one changed", False), ("all anew", True), ("most gone", True)],
)
def test_only_many_new_rows_are_kept_from_the_garbage_collector(
    moved: str, is_many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MANY", 2)
    rows = cast("list[RunRow]", [object() for _ in range(9)])
    before = snapshot.Snapshot(1.0, tuple(rows))
    after = {
        "nothing": before._replace(changed=frozenset()),
        "one more": before._replace(runs=(cast("RunRow", object()), *rows)),
        "one changed": before._replace(changed=frozenset({"a"})),
        "all anew": before._replace(runs=tuple(cast("list[RunRow]", [object() for _ in rows]))),
        "most gone": before._replace(runs=tuple(rows[6:])),
    }[moved]
    assert snapshot.has_many_new(before, after) is is_many
    assert snapshot.has_many_new(snapshot.EMPTY, after)
    assert snapshot.has_many_new(before, before._replace(changed=frozenset("abc")))
