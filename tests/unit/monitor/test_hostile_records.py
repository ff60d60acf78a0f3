"""Whatever a job writes into its own files: home goes on, the run's other lines are taken, and no other run is harmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent.metrics import records

from armada.monitor.observe import record_contained
from armada.monitor.records import read_lines
from armada.store import metrics, runs
from armada.store.database import Database
from tests import hostile
from tests.answers import look
from tests.chance import dice

GOOD = '{"kind": "train", "step": %d, "time": 1800000000.0, "loss": 1.5}'


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "state" / "armada.db") as opened:
        for run_id in ("hostile", "innocent"):
            runs.insert(
                opened, run_id=run_id, name=run_id, host="box", task="command", experiment=None, spec={"experiment": {}}
            )
        yield opened


def entry(run_id: str, offset: int, **parts: Any) -> dict[str, Any]:
    empty = {"text": "", "next_offset": 0}
    state = {"state": "running", "attempt": 1, "seq": 5, "submission": 1}
    evidence = {
        "submission": {"number": 1, "claimed": True, "job": {"scheduler": "direct"}},
        "supervisor": "alive",
        "state": state,
    }
    told = {
        "run_id": run_id,
        "exists": True,
        "root": "r",
        "evidence": evidence,
        "findings": [],
        "outbox": [],
        "log_size_bytes": 0,
    }
    return {**told, "metrics": empty, "events": empty, **parts}


def lines(text: str, offset: int = 0) -> dict[str, Any]:
    return {"text": text, "next_offset": offset + len(text.encode("utf-8", "surrogatepass"))}


def test_one_runs_records_never_touch_anothers(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    chance = dice(41)
    offset = 0
    rounds = hostile.CASES // 20
    for number in range(rounds):
        told = (
            "".join(f"{hostile.line(chance)}\n".replace("\n\n", "\n") for _ in range(20))
            + GOOD % (1000 + number)
            + "\n"
        )
        part = {"text": told, "next_offset": offset + len(told)}
        record_contained(
            database, runs.find(database, "hostile"), look(entry("hostile", offset, metrics=part, events=part))
        )
        offset += len(told)
        innocent = f"{GOOD % number}\n"
        after = runs.find(database, "innocent").metrics_offset
        piece = {"text": innocent, "next_offset": after + len(innocent)}
        record_contained(database, runs.find(database, "innocent"), look(entry("innocent", after, metrics=piece)))
    found = runs.find(database, "hostile")
    assert (found.metrics_offset, found.events_offset) == (offset, offset), "nothing is asked for again and again"
    assert found.unreadable_count > 0
    assert found.unreadable is not None
    assert found.unreadable.isprintable()
    assert runs.find(database, "innocent").unreadable_count == 0
    assert [step for step, _ in metrics.curve(database, "innocent", "loss")] == list(range(rounds))
    good = [step for step, _ in metrics.curve(database, "hostile", "loss") if 1000 <= step < 1 << 30]
    assert good == list(range(1000, 1000 + rounds)), "what is right beside what is wrong is taken"
    assert {run.run_id for run in runs.every(database)} == {"hostile", "innocent"}
    assert not caplog.records, "each line was read or refused; nothing had to be caught as a whole"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[" * 2000, "nested too deep"),
        ('{"loss": 1', "Expecting"),
        ("[1, 2]", "not an object"),
        ("7" * 5000, "digits"),
    ],
)
def test_a_line_that_is_no_record_is_counted_and_the_first_is_named(line: str, words: str) -> None:
    read = read_lines(f'{{"a": 1}}\n{line}\n{{"b": 2}}\n{line}\n', "metrics")
    assert (read.records, read.unreadable) == ([{"a": 1}, {"b": 2}], 2)
    assert read.first.startswith("metrics: ")
    assert words in read.first


@pytest.mark.parametrize("name", ["expert[{}]/load", "layer[{}", "a{{{}", 'b"[{}', "\\[{}"])
def test_brackets_in_names_are_no_nesting(name: str) -> None:
    record = {"loss": 1.0, **{name.format(number): float(number) for number in range(64)}}
    read = read_lines(json.dumps(record) + "\n", "metrics")
    assert (read.records, read.unreadable) == ([record], 0)
    assert records.parse(json.dumps(record).encode()) == record
    deep = '{"a": ' * 60 + f"{json.dumps(name)}" + "}" * 60
    assert read_lines(deep, "metrics").first.startswith("metrics: nested too deep")
    with pytest.raises(ValueError, match="nested too deep"):
        records.parse(deep.encode())


def test_a_text_may_hold_what_other_languages_take_for_an_end_of_line() -> None:
    read = read_lines('{"a": "x\u2028y\x85z"}\n', "metrics")
    assert (read.records, read.unreadable) == ([{"a": "x\u2028y\x85z"}], 0)


def test_a_run_whose_entry_is_no_entry_harms_no_other(database: Database) -> None:
    chance = dice(43)
    for _ in range(hostile.CASES):
        broken = entry("hostile", 0)
        for _ in range(chance.randrange(1, 4)):
            where = chance.choice([broken, broken["evidence"]]) if isinstance(broken.get("evidence"), dict) else broken
            where[chance.choice(list(where) or ["state"])] = hostile.value(chance)
        record_contained(database, runs.find(database, "hostile"), look(broken))
        assert runs.find(database, "innocent").state == "preparing"


def test_a_run_whose_entry_does_not_fit_keeps_its_state_and_says_why(database: Database) -> None:
    record_contained(database, runs.find(database, "hostile"), look(entry("hostile", 0)))
    assert runs.find(database, "hostile").state == "running"
    for _ in range(2):
        record_contained(database, runs.find(database, "hostile"), look({**entry("hostile", 0), "exists": "maybe"}))
    found = runs.find(database, "hostile")
    assert (found.state, found.unreadable_count) == ("running", 1)
    assert found.unreadable == "its host's answer does not fit: exists: should be a valid boolean"
