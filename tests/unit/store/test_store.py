from __future__ import annotations

import contextlib
import json
import multiprocessing
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from armada.errors import ConfigError, NotFound, StoreDamaged, UsageError
from armada.store import checkpoints, hosts, metrics, runs, sweeps, telemetry, transitions
from armada.store.database import MIGRATIONS, Database
from armada.store.queries.uses import read_use
from armada.verdicts.idle import Stopping, stopping_of
from armada.verdicts.states import Verdict
from tests.answers import outbox


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "state" / "armada.db")


def add(database: Database, run_id: str = "demo-aaaaaa", host: str = "box") -> None:
    runs.insert(database, run_id=run_id, name="demo", host=host, task="command", experiment=None, spec={"x": "'\"\n"})


def test_a_run_is_found_by_the_beginning_of_its_id(database: Database) -> None:
    add(database, "demo-aaaaaa")
    add(database, "demo-abbbbb")
    assert runs.find(database, "demo-ab").run_id == "demo-abbbbb"
    with pytest.raises(UsageError, match="several"):
        runs.find(database, "demo-a")
    with pytest.raises(NotFound):
        runs.find(database, "x")


@pytest.mark.parametrize("prefix", ["", " "])
def test_an_empty_id_is_not_the_only_run(database: Database, prefix: str) -> None:
    add(database)
    with pytest.raises(UsageError, match="empty"):
        runs.find(database, prefix)
    with pytest.raises(UsageError, match="empty"):
        sweeps.find(database, prefix)


@pytest.mark.parametrize("prefix", ["%", "_", "demo_", "\\"])
def test_a_pattern_is_no_prefix(database: Database, prefix: str) -> None:
    add(database)
    with pytest.raises(NotFound):
        runs.find(database, prefix)


def test_an_id_that_begins_another_is_found_by_its_whole_name(database: Database) -> None:
    add(database, "demo-aaaaaa")
    add(database, "demo-aaaaaa-2")
    assert runs.find(database, "demo-aaaaaa").run_id == "demo-aaaaaa"


def test_an_older_observation_never_overwrites_a_newer_one(database: Database) -> None:
    add(database)
    assert runs.record(database, "demo-aaaaaa", Verdict("succeeded", None, None, 2, 9), observed_at=2.0)
    assert not runs.record(database, "demo-aaaaaa", Verdict("running", None, None, 2, 8), observed_at=1.0)
    assert not runs.record(database, "demo-aaaaaa", Verdict("running", None, None, 1, 99), observed_at=3.0)
    assert runs.find(database, "demo-aaaaaa").state == "succeeded"


def test_a_transition_is_written_once_per_change(database: Database) -> None:
    add(database)
    for seq in (1, 2, 3):
        runs.record(database, "demo-aaaaaa", Verdict("running", None, None, 1, seq), observed_at=float(seq))
    runs.record(database, "demo-aaaaaa", Verdict("failed", "exit_3", None, 1, 4), observed_at=4.0)
    states = [state for _, state, _, _ in transitions.of_run(database, "demo-aaaaaa")]
    assert states == ["preparing", "running", "failed"]


def test_a_failed_look_changes_only_what_is_known_about_not_knowing(database: Database) -> None:
    add(database)
    runs.record(database, "demo-aaaaaa", Verdict("running", None, None, 1, 1), observed_at=5.0)
    runs.mark_unreachable(database, ["demo-aaaaaa"], "no route")
    first = runs.find(database, "demo-aaaaaa")
    runs.mark_unreachable(database, ["demo-aaaaaa"], "refused")
    again = runs.find(database, "demo-aaaaaa")
    assert (again.state, again.observed_at) == ("running", 5.0)
    assert again.unreachable_since == first.unreachable_since is not None
    assert again.unreachable_why == "refused"


def test_a_metric_line_is_taken_once_whoever_reads_it(database: Database) -> None:
    add(database)
    lines: list[dict[str, Any]] = [
        {"kind": "train", "step": 1, "time": 1.0, "loss": 2.0},
        {"kind": "train", "step": 2, "time": 2.0, "loss": float("nan"), "tokens_per_s": 10},
    ]
    assert metrics.record_metrics(database, "demo-aaaaaa", lines, offset=0, next_offset=80)
    assert not metrics.record_metrics(database, "demo-aaaaaa", lines, offset=0, next_offset=80)
    assert metrics.curve(database, "demo-aaaaaa", "loss") == [(1, 2.0), (2, None)]
    assert runs.find(database, "demo-aaaaaa").tokens_per_s == 10


def test_a_redone_step_replaces_the_former_one(database: Database) -> None:
    add(database)
    for offset, loss in ((0, 2.0), (10, 1.0)):
        line = {"kind": "train", "step": 7, "time": 1.0, "loss": loss}
        metrics.record_metrics(database, "demo-aaaaaa", [line], offset=offset, next_offset=offset + 10)
    assert metrics.curve(database, "demo-aaaaaa", "loss") == [(7, 1.0)]


def test_a_lost_run_that_only_its_curves_tell_of_costs_until_their_last_line(database: Database) -> None:
    """As after the loss of the store: home observes it long after it died, and its host says nothing of its end."""
    began = time.time() - 50_000
    add(database)
    lost = Verdict("failed", "lost", None, 1, 1)
    assert runs.record(database, "demo-aaaaaa", lost, started_at=began, observed_at=began + 40_000)
    lines: list[dict[str, object]] = [
        {"kind": "train", "step": step, "time": began + 10 * step, "loss": 1.0} for step in (1, 2, 3)
    ]
    lines.append({"kind": "train", "step": 4, "time": time.time() + 9_999, "loss": 1.0})
    assert metrics.record_metrics(database, "demo-aaaaaa", lines, offset=0, next_offset=9)
    assert read_use(database, runs.find(database, "demo-aaaaaa"), time.time()).lasted_s == pytest.approx(30)


def test_garbage_in_a_metric_line_is_left_out(database: Database) -> None:
    add(database)
    lines: list[dict[str, Any]] = [
        {"step": "1", "loss": 1},
        {"kind": "train", "step": 1, "time": 1.0, "loss": "x", "ok": True, "n": 3},
    ]
    metrics.record_metrics(database, "demo-aaaaaa", lines, offset=0, next_offset=9)
    assert metrics.names(database, "demo-aaaaaa") == ["n"]


def test_a_long_metric_name_is_cut_once_and_stays_its_own_curve(database: Database) -> None:
    """Names are cut to 100 characters. The second batch of such a name must not be refused, as it once was."""
    add(database)
    long, other, half = "m" * 300, "m" * 299 + "x", "half\ud800"
    for step in (1, 2):
        line: dict[str, Any] = {"kind": "train", "step": step, "time": float(step), long: 1.0, other: 2.0, half: 3.0}
        assert metrics.record_metrics(database, "demo-aaaaaa", [line], offset=step - 1, next_offset=step)
    found = {name: metrics.curve(database, "demo-aaaaaa", name) for name in metrics.names(database, "demo-aaaaaa")}
    assert sorted(found.values()) == [[(1, 1.0), (2, 1.0)], [(1, 2.0), (2, 2.0)], [(1, 3.0), (2, 3.0)]]
    assert {len(name) for name in found} == {5, metrics.LONGEST_NAME}
    reset: dict[str, Any] = {"kind": "reset", "names": [long]}
    metrics.record_metrics(database, "demo-aaaaaa", [reset], offset=2, next_offset=3)
    assert sum(bool(metrics.curve(database, "demo-aaaaaa", name)) for name in found) == 2


def test_what_left_the_outbox_is_no_longer_on_the_host_and_stays_home(database: Database) -> None:
    add(database)
    entry = {"digest": "d" * 64, "step": 5, "size_bytes": 9, "file_count": 1, "created_at": 1.0}
    checkpoints.record_outbox(database, "demo-aaaaaa", outbox([entry]))
    place = database.path.parent / "runs" / "demo-aaaaaa" / "checkpoints" / "checkpoint-5"
    checkpoints.mark_home(database, "demo-aaaaaa", "d" * 64, place)
    checkpoints.record_outbox(database, "demo-aaaaaa", [])
    (kept,) = checkpoints.of_run(database, "demo-aaaaaa")
    assert (kept.on_host, kept.home_path) == (False, place)
    assert runs.find(database, "demo-aaaaaa").checkpoints_home == 1


def test_a_host_that_stops_answering_keeps_its_last_facts(database: Database) -> None:
    hosts.record_facts(database, "box", {"cpu_count": 8})
    hosts.mark_unreachable(database, "box", "no route")
    found = hosts.find(database, "box")
    assert found is not None
    assert found.facts == {"cpu_count": 8}
    assert found.unreachable_why == "no route"


def test_a_stopped_host_that_answers_anybody_is_paid_again(database: Database) -> None:
    hosts.record_facts(database, "box", {"cpu_count": 2})
    hosts.record_stopping(database, "box", Stopping("gone", 1.0, asked_at=5.0, away=((2.0, 3.0),)).as_json())
    hosts.record_facts(database, "box", {"cpu_count": 2})
    found = hosts.find(database, "box")
    assert found is not None
    assert found.observed_at is not None
    back = stopping_of(found.stopping)
    assert (back.state, back.away) == ("", ((2.0, 3.0), (5.0, found.observed_at)))
    asked = Stopping("asked", 1.0, asked_at=5.0).as_json()
    hosts.record_stopping(database, "box", asked)
    hosts.record_facts(database, "box", {"cpu_count": 2})  # it may still answer for a while
    found = hosts.find(database, "box")
    assert found is not None
    assert stopping_of(found.stopping).state == "asked"


def test_a_newer_store_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "armada.db"
    Database(path).close()
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA user_version = 999")
    with pytest.raises(ConfigError, match="version 999"):
        Database(path)


def test_a_file_that_is_no_store_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "armada.db"
    path.write_bytes(b"not a database at all, but long enough to be taken for one" * 40)
    with pytest.raises(ConfigError, match="not a usable store"):
        Database(path)


def _write_many(path: Path, worker: int) -> None:
    with Database(path) as database:
        for number in range(25):
            add(database, f"run-{worker}-{number}")


def test_several_processes_write_one_store(tmp_path: Path) -> None:
    path = tmp_path / "armada.db"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(path, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    with Database(path) as database:
        assert len(runs.every(database)) == 100


def test_hostile_text_survives_the_store(database: Database) -> None:
    add(database)
    assert runs.spec(database, "demo-aaaaaa") == {"x": "'\"\n"}
    assert json.dumps(runs.spec(database, "demo-aaaaaa"))


def test_a_gpus_points_are_read_from_where_one_stopped(database: Database) -> None:
    points = [telemetry.Point(gpu, float(at), 50.0, 1, 2.0, 3.0) for gpu in (0, 3) for at in range(5)]
    telemetry.record(database, "box", points)
    telemetry.record(database, "far", [telemetry.Point(7, 1.0, None, None, None, None)])
    assert telemetry.gpus_of(database, "box") == [0, 3]
    assert telemetry.gpus_of(database, "none") == []
    assert telemetry.of_gpu(database, "box", 3, after=2.0) == points[-2:]
    assert telemetry.of_gpu(database, "box", 3, after=4.0) == []


def fail_after_adding(database: Database) -> None:
    add(database, "a-aaaaaa")
    raise UsageError("no")


def test_a_transaction_inside_another_is_undone_with_it(tmp_path: Path) -> None:
    with Database(tmp_path / "store.db") as database:
        with pytest.raises(UsageError), database.transaction():
            fail_after_adding(database)
        assert runs.every(database) == []
        runs.insert(database, run_id="b-aaaaaa", name="b", host="h", task="command", experiment=None, spec={})
    with Database(tmp_path / "store.db") as database:
        assert [run.run_id for run in runs.every(database)] == ["b-aaaaaa"]


def test_a_store_that_cannot_be_used_is_not_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noting(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noting)
    (tmp_path / "armada.db").write_bytes(b"somebody's file, and no database at all" * 100)
    with pytest.raises(StoreDamaged):
        Database(tmp_path / "armada.db")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_an_earlier_store_knows_whose_end_only_a_batch_system_told(tmp_path: Path) -> None:
    came = next(number for number, each in enumerate(MIGRATIONS) if "told_at" in each)
    with contextlib.closing(sqlite3.connect(tmp_path / "armada.db")) as connection, connection:
        for migration in MIGRATIONS[:came]:
            connection.executescript(migration)
        connection.execute(f"PRAGMA user_version = {came}")
        rows = [
            ("told", "failed", "Slurm says NODE_FAIL; its supervisor wrote no end"),
            ("recorded", "failed", "its supervisor wrote the end"),
            ("back", "running", "Slurm says NODE_FAIL; its supervisor wrote no end"),
        ]
        connection.executemany(
            """INSERT INTO runs (run_id, name, host, task, spec, created_at, observed_at, state, because)
               VALUES (?1, ?1, 'box', 'sft', '{}', 1, 7, ?2, ?3)""",
            rows,
        )
    with Database(tmp_path / "armada.db") as database:
        assert {run.run_id: run.told_at for run in runs.every(database)} == {
            "told": 7.0,
            "recorded": None,
            "back": None,
        }
