"""Values of the store that a disk changed: every reader says so, and `armada recover` keeps all others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.errors import StoreDamaged
from armada.store import hosts, metrics, operations, runs, sweeps
from armada.store.database import Database, explain
from armada.store.integrity import examine
from armada.store.queries import cores, run_detail, run_list
from armada.store.salvage import salvage
from tests.chance import dice

Read = Callable[[Database], object]


def as_rows(database: Database) -> list[runs.Run]:
    return [run_list.as_run(values) for values in run_list.changed_since(database, -1).values()]


READERS: tuple[Read, ...] = (
    runs.every,
    runs.unsettled,
    as_rows,
    lambda database: [runs.spec(database, run_id) for run_id in ("a-1", "b-2")],
    lambda database: [run_detail.newest_events(database, run_id) for run_id in ("a-1", "b-2")],
    lambda database: [run_detail.find_spec(database, run_id) for run_id in ("a-1", "b-2")],
    lambda database: hosts.find(database, "gpu"),
    lambda database: cores.read_cores_taken(database, "gpu", without="-", sweep=None),
    operations.recent,
    lambda database: sweeps.find(database, "s"),
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "armada.db"
    with Database(path) as database:
        for run_id in ("a-1", "b-2"):
            runs.insert(
                database, run_id=run_id, name=run_id, host="gpu", task="sft", experiment=None, spec={"gpus": [0]}
            )
            metrics.record_events(database, run_id, [{"seq": 1, "time": 1.0, "kind": "note"}], offset=0, next_offset=1)
        with database.transaction() as connection:
            connection.execute("UPDATE runs SET state = 'running'")
        hosts.record_facts(database, "gpu", {"cores": 4})
        hosts.record_stopping(database, "gpu", {"state": "asked"})
        operations.begin(
            database, id="o", kind="sync", run_id=None, host=None, argv=("a",), pid=1, start_time=None, boot_id=None
        )
        sweeps.insert(database, name="s", title="s", experiment=None, launch_key="k", settings={"rules": []})
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def read_all(path: Path) -> None:
    """Read everything.

    Raises:
        ArmadaError: As a person would be told.
    """
    try:
        with Database(path) as database:
            for read in READERS:
                read(database)
    except sqlite3.Error as error:
        raise explain(error, path) or error from None


def write(path: Path, statement: str) -> None:
    with Database(path) as database:
        database.connection.execute("PRAGMA foreign_keys = OFF")
        database.connection.execute(statement)
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def recovered(path: Path) -> tuple[set[str], str]:
    """Return the runs that a store of the rows that can be read has, and the condition of that store."""
    new = path.with_name("new.db")
    new.unlink(missing_ok=True)
    with Database(new) as database:
        salvage(path, database)
        found = {run.run_id for run in runs.every(database)}
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return found, examine(new).condition


def test_a_whole_store_is_sound(store: Path) -> None:
    read_all(store)
    assert (examine(store).condition, examine(store).problems) == ("sound", ())


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE runs SET gpus = '{' WHERE run_id = 'a-1'", "the column gpus of a-1 is not JSON"),
        ("UPDATE runs SET gpus = '7' WHERE run_id = 'a-1'", "the column gpus of a-1 is JSON of another kind"),
        ("UPDATE runs SET tags = '[]]' WHERE run_id = 'a-1'", "the column tags of a-1 is not JSON"),
        ("UPDATE runs SET spec = '[]' WHERE run_id = 'a-1'", "the column spec of a-1 is JSON of another kind"),
        ("UPDATE runs SET run_id = '../../a' WHERE run_id = 'a-1'", "'../../a' in runs is not a run id"),
        (
            "UPDATE runs SET name = CAST(x'61ff' AS TEXT) WHERE run_id = 'a-1'",
            "Could not decode to UTF-8 column 'name'",
        ),
        ("UPDATE events SET data = '\"' WHERE run_id = 'a-1'", "the column data of an event of a-1 is not JSON"),
        ("UPDATE hosts SET facts = 'x'", "the column facts of gpu is not JSON"),
        ("UPDATE hosts SET forecast = 'x'", "the column forecast of gpu is not JSON"),
        ("UPDATE hosts SET stopping = '[1]'", "the column stopping of gpu is JSON of another kind"),
        ("UPDATE operations SET argv = '{}'", "the column argv of o is JSON of another kind"),
        ("UPDATE sweeps SET settings = ''", "the column settings of s is not JSON"),
    ],
)
def test_a_changed_value_is_named_found_and_left_out(store: Path, statement: str, said: str) -> None:
    write(store, statement)
    with pytest.raises(StoreDamaged) as told:
        read_all(store)
    assert said in told.value.message
    assert told.value.hint is not None
    assert "armada recover" in told.value.hint
    found = examine(store)
    assert found.condition == "damaged"
    assert any(said.replace(" an event of", "") in problem for problem in found.problems), found.problems
    left, condition = recovered(store)
    assert condition == "sound"
    is_lost = "SET spec" in statement or "SET run_id" in statement
    assert left == ({"b-2"} if is_lost else {"a-1", "b-2"}), "no other row is lost"


def test_a_state_that_there_is_not_is_damage(store: Path) -> None:
    write(store, "UPDATE runs SET state = 'runnjng' WHERE run_id = 'a-1'")
    assert examine(store).problems == ("'runnjng' is not a state of a-1",)
    assert recovered(store) == ({"b-2"}, "sound")


@pytest.mark.parametrize("sql", ["CREATE TABLE runs (", "CREATE TABLE runs (run_id \udcff) STRICT"])
def test_rows_of_a_table_whose_definition_is_damaged_are_kept(store: Path, sql: str) -> None:
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA writable_schema = ON")
    text = sql.encode("utf-8", "surrogateescape")
    connection.execute("UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = 'runs'", (text,))
    connection.commit()
    connection.close()
    with pytest.raises(StoreDamaged):
        read_all(store)
    assert examine(store).condition == "damaged"
    assert recovered(store) == ({"a-1", "b-2"}, "sound")


def test_no_changed_bits_end_in_an_error_that_says_nothing(store: Path) -> None:
    random, whole, damaged = dice(5), store.read_bytes(), 0
    for _ in range(60):
        raw = bytearray(whole)
        for place in random.choices(range(100, len(raw)), k=40):
            raw[place] ^= 1 << random.randrange(8)
        store.write_bytes(raw)
        for suffix in ("-wal", "-shm"):
            store.with_name(f"armada.db{suffix}").unlink(missing_ok=True)
        try:
            read_all(store)
        except StoreDamaged:
            damaged += 1
            assert examine(store).condition == "damaged"
            assert recovered(store)[1] == "sound"
    assert damaged > 10
