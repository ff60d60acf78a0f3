"""The first paint has the runs at the top in it, as the whole list shows them, and nothing that was not read yet."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.store import run_sync
from armada.tui import first_rows, reading
from armada.tui.arrangement import Arrangement
from armada.tui.first_rows import FirstRows
from armada.tui.folds import Fold
from armada.tui.reading import RunReader, read_first
from armada.tui.screens.run import RunScreen
from armada.tui.snapshot import RunRow, Snapshot
from armada.tui.watcher import Watcher
from tests.tui.conftest import World, drive, lacks, screen, shows
from tests.tui.test_runs_screen import rows

DAY_S = 86_400.0


@pytest.fixture
def many(world: World) -> World:
    """Runs of every kind, in an order of creation that is not the list's."""
    now = time.time()
    for number in range(40):
        world.run(f"old-{number:02}aaaa", state="succeeded", ended_at=now - 2 * DAY_S - 60 * ((number * 7) % 40))
    world.run("broke-aaaaaa", state="failed", reason="oom", message="CUDA out of memory", ended_at=now - 7200)
    world.run("history-aaaaaa", state="failed", reason="oom", ended_at=now - 3 * DAY_S)
    world.run("away-aaaaaa", host="far", unreachable_since=now - 60, unreachable_why="no answer")
    for state in ("running", "queued", "preparing", "unknown"):
        world.run(f"{state}-aaaaaa", state=state)
    world.run("unsynced-aaaaaa", state="succeeded", ended_at=now - 9 * DAY_S)
    run_sync.failed(world.database, "unsynced-aaaaaa", now=now, reason="disk full", next_due_at=0)
    for cell in range(6):
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": cell + 1}}
        ended = now - (60 if cell == 3 else 20 * DAY_S)
        world.run(f"cell-{cell}aaaa", state="succeeded", spec=spec, ended_at=ended)
    world.run("hidden-aaaaaa", state="succeeded", ended_at=now - 30)
    world.database.connection.execute("UPDATE runs SET archived_at = 1 WHERE run_id = 'hidden-aaaaaa'")
    world.checkpoint("running-aaaaaa", 500, home=True)
    return world


def lines(found: tuple[RunRow, ...]) -> list[object]:
    """The lines of the list by urgency, with all that they show."""
    made = Arrangement().arrange(found)
    return [(line.key, {row.id: row for row in line.rows}) if isinstance(line, Fold) else line for line in made]


def test_the_first_rows_are_those_at_the_top_of_the_whole_list(many: World) -> None:
    reader = RunReader(many.database)
    whole = lines(reader.read({}))
    first = read_first(many.database, last=12)
    assert first is not None
    top = lines(first.runs)
    assert len(top) < len(whole)
    assert top[: 6 + 12] == whole[: 6 + 12]
    assert first.counts == reader.counts
    assert first.first_of == 55 == len(reader.rows)
    assert first.taken_at == 0.0


def test_a_pinned_run_is_among_the_first_rows_however_old_it_is(many: World) -> None:
    whole = RunReader(many.database).read({})
    plain = read_first(many.database, last=12)
    assert plain is not None
    old = next(row.id for row in whole if row.id not in plain.by_id and not row.run.is_archived)
    first = read_first(many.database, last=12, pinned=[old, "removed-aaaaaa"])
    assert first is not None
    assert set(first.by_id) == {*plain.by_id, old}
    arrangement = Arrangement()
    arrangement.pins = frozenset({old})
    assert [line.id for line in arrangement.arrange(first.runs)[:1] if isinstance(line, RunRow)] == [old]


def test_a_top_that_is_long_is_not_read_first(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_FIRST", 10)
    assert read_first(many.database, last=5) is None
    monkeypatch.setattr(reading, "MOST_FIRST", 22)  # without the other cells of the sweep there would be less
    assert read_first(many.database, last=12) is None


@pytest.mark.parametrize("harm", ["locked", "damaged", "not a store", "newer"])
def test_a_store_that_cannot_be_read_gives_no_rows_and_no_error(
    world: World, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_rows, "PATIENCE_S", 0.05)
    world.run("one-aaaaaa")
    with contextlib.closing(sqlite3.connect(world.home.store, isolation_level=None)) as other:
        if harm == "locked":
            world.database.close()
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            other.execute("UPDATE runs SET step = 1")
        elif harm == "damaged":
            other.execute("DROP TABLE run_sync")
        elif harm == "newer":
            other.execute("PRAGMA user_version = 4000")
        else:
            world.home.store.with_name("armada.db-wal").unlink(missing_ok=True)
            world.home.store.write_bytes(b"this is not a store" * 400)
        reader = FirstRows(world.home)
        reader._thread.join()  # noqa: SLF001  # an error in the thread would fail this test
        assert reader.wait() is None


class Later:
    """What the watcher finds comes only when `come` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        held: list[Watcher] = []
        self._held, self._start, self._has_come = held, Watcher.start, False

        def start(watcher: Watcher) -> None:
            self._start(watcher) if self._has_come else held.append(watcher)

        monkeypatch.setattr(Watcher, "start", start)

    def come(self) -> None:
        self._has_come = True
        for each in self._held:
            self._start(each)


def first_of(world: World, last: int = 60) -> Snapshot:
    found = read_first(world.database, last=last)
    assert found is not None
    return found


def test_the_first_paint_shows_them_and_says_that_the_others_are_read(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "running-aaaaaa", "oom: CUDA out of memory", "reading 55 runs …", "lr-x7 (6 cells)")
        assert "3 running" not in seen
        for wrong in ("of 55 runs", "nothing yet", "not checked yet", "0 runs", "Nothing has been launched"):
            assert wrong not in seen, seen
        assert "2 running" in seen
        assert "4 need you" in seen
        top = list(itertools.islice(rows(pilot), 10))
        await pilot.press("4")
        assert "reading …" in await shows(pilot, "Sync")
        assert "everything is home" not in screen(pilot)
        await pilot.press("3")
        await shows(pilot, "reading …")
        await pilot.press("1")
        later.come()
        await shows(pilot, "54 of 55 runs")
        assert list(itertools.islice(rows(pilot), 10)) == top

    drive(many.board(first=first_of(many)), use, (170, 48))


def test_keys_work_on_the_first_rows(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Later(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "reading 55 runs …")
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, RunScreen)
        run_id = pilot.app.screen.run_id
        later.come()
        await shows(pilot, run_id, "running")
        await pilot.press("escape")
        await shows(pilot, "54 of 55 runs")

    drive(many.board(first=first_of(many)), use, (170, 48))


@pytest.mark.parametrize("keys", [["slash", *"old", "enter"], ["s"], ["S"], ["b"]])
def test_another_order_filter_or_groups_wait_for_all_runs(
    many: World, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    later = Later(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "reading 55 runs …", "running-aaaaaa")
        await pilot.press(*keys)
        assert "  reading …" in await lacks(pilot, "running-aaaaaa   ", "old-00aaaa")
        later.come()
        await shows(pilot, "of 55 runs", "old-0")

    drive(many.board(first=first_of(many)), use, (120, 70))


def test_an_empty_store_is_called_empty_only_once_it_was_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Later(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "reading")
        assert "Nothing has been launched" not in seen
        later.come()
        await shows(pilot, "Nothing has been launched yet")

    drive(world.board(first=first_of(world)), use)


def test_what_the_first_paint_needs_not_is_not_imported() -> None:
    code = "import armada.cli.context, armada.tui.app, armada.tui.reading, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    loaded = set(done.stdout.split())
    late = {
        "pydantic",
        "ruamel.yaml",
        "fabric",
        "armada.tui.screens.run",
        "armada.tui.screens.hosts",
        "armada.protocol.host",
    }
    assert "textual.app" in loaded
    assert not late & loaded
