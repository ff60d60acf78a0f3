"""Hours until a host's disk is full, from what its runs were seen to save."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from armada.store import checkpoints, hosts, run_sync, runs
from armada.store.checkpoints import Checkpoint
from armada.store.database import Database
from armada.sync.schedule.disk_forecast import BESIDE, Growth, foresee, growth_of, note_forecast
from armada.verdicts.states import Verdict
from tests.answers import outbox

NOW = 1_800_000_000.0
GB = 10**9
HOUR = 3600.0


def saved(count: int, *, every_s: float = 600.0, size: int = 2 * GB, on_host: int | None = None) -> list[Checkpoint]:
    """So many checkpoints, the newest of them still on the host."""
    there = count if on_host is None else on_host
    return [
        Checkpoint("r", f"{n:064}", n, size, 1, NOW + n * every_s, n >= count - there, None, None, None, None)
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("growths", "hours"),
    [
        ([], None),
        ([Growth(GB / 600, math.inf)], 100 * 600 / HOUR),
        ([Growth(GB / 600, 99 * GB)], None),  # it stops before
        ([Growth(GB / 600, 100 * GB)], 100 * 600 / HOUR),
        ([Growth(GB / 600, math.inf), Growth(GB / 600, math.inf)], 50 * 600 / HOUR),
        # One writes 10 GB and stops; the other fills the rest alone.
        ([Growth(GB / 600, 10 * GB), Growth(GB / 600, math.inf)], 90 * 600 / HOUR),
        ([Growth(GB / 600, 0), Growth(0, math.inf)], None),
    ],
)
def test_a_disk_is_full_when_the_table_says_so(growths: list[Growth], hours: float | None) -> None:
    forecast = foresee(100 * GB, growths, NOW)
    found = None if forecast.full_at is None else (forecast.full_at - NOW) / HOUR
    assert found == (None if hours is None else pytest.approx(hours))


def test_a_disk_without_any_room_is_full_now() -> None:
    assert foresee(0, [], NOW).full_at == NOW


def growth(known: list[Checkpoint], **changes: Any) -> Growth | None:
    facts = {"started_at": NOW - 600, "left_s": None, "kept_there": 3, "is_synced": True} | changes
    return growth_of(known, **facts)


def pace(known: list[Checkpoint], **changes: Any) -> float:
    """Seconds from one checkpoint of 2 GB to the next, of a run that never stops."""
    found = growth(known, is_synced=False, **changes)
    assert found is not None
    assert found.most_bytes == math.inf
    return 2 * GB / found.bytes_per_s


def test_the_pace_is_that_of_the_last_checkpoints() -> None:
    assert pace(saved(20)) == pytest.approx(600)
    assert pace([*saved(3, every_s=1.0), *saved(20, every_s=1200.0)]) == pytest.approx(1200)


def test_one_checkpoint_tells_the_pace_by_the_time_since_the_start() -> None:
    assert pace(saved(1), started_at=NOW - 1200) == pytest.approx(1200)
    assert growth(saved(1), started_at=None) is None
    assert growth(saved(1), started_at=NOW + 10) is None  # a clock that was set
    assert growth([]) is None


def test_what_comes_home_leaves_only_so_many_there() -> None:
    found = growth(saved(10, on_host=2))
    assert found is not None
    assert found.most_bytes == (3 + BESIDE - 2) * 2 * GB
    full = growth(saved(10))
    assert full is not None
    assert full.most_bytes == 0


def test_nothing_is_saved_after_the_last_step() -> None:
    found = growth(saved(10), is_synced=False, left_s=3000.0)
    assert found is not None
    assert found.most_bytes == pytest.approx((5 + 1) * 2 * GB)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "armada.db")


def begin(database: Database, free_bytes: object) -> None:
    spec = {"sync": {"every": "10m", "keep_remote": 2}, "outbox": {"keep": 3}}
    runs.insert(database, run_id="r-aaaaaa", name="r", host="box", task="sft", experiment=None, spec=spec)
    facts = {"state": "running", "attempt": 1, "seq": 1}
    runs.record(database, "r-aaaaaa", Verdict(**facts), started_at=NOW)  # type: ignore[arg-type]
    listed = [
        {"digest": f"{n:064}", "step": n, "size_bytes": 10 * GB, "file_count": 1, "created_at": NOW + n * 600.0}
        for n in range(4)
    ]
    checkpoints.record_outbox(database, "r-aaaaaa", outbox(listed))
    hosts.record_facts(database, "box", {"disk": {"free_bytes": free_bytes, "total_bytes": 10**12}})


def test_the_forecast_lies_beside_the_facts_and_says_whether_the_sync_keeps_the_disk_free(database: Database) -> None:
    begin(database, 60 * GB)
    nobody_syncs = note_forecast(database, "box", now=NOW)
    assert nobody_syncs is not None
    assert nobody_syncs.full_at == pytest.approx(NOW + 3600.0)
    record = hosts.find(database, "box")
    assert record is not None
    assert record.forecast == nobody_syncs
    run_sync.succeeded(database, "r-aaaaaa", began=NOW, next_due_at=NOW)
    comes_home = note_forecast(database, "box", now=NOW)
    assert comes_home is not None
    assert (comes_home.full_at, comes_home.needed_bytes) == (None, 10 * GB)
    run_sync.failed(database, "r-aaaaaa", now=NOW, reason="home's disk is full", next_due_at=NOW)
    failing = note_forecast(database, "box", now=NOW)
    assert failing is not None
    assert failing.full_at == pytest.approx(NOW + 3600.0)


def test_a_run_that_ended_fills_no_disk(database: Database) -> None:
    begin(database, 60 * GB)
    runs.record(database, "r-aaaaaa", Verdict("succeeded", attempt=1, seq=2))
    forecast = note_forecast(database, "box", now=NOW)
    assert forecast is not None
    assert (forecast.full_at, forecast.bytes_per_s) == (None, 0)


@pytest.mark.parametrize("said", [None, "much", -1, True, 1e300, 10**30])
def test_a_host_that_says_nothing_of_its_disk_has_no_forecast(database: Database, said: object) -> None:
    begin(database, said)
    assert note_forecast(database, "box", now=NOW) is None
    record = hosts.find(database, "box")
    assert record is not None
    assert record.forecast is None
