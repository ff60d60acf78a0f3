"""What `armada why` puts on its page, from what home has seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armada.monitor.page import gather, stopped_in
from armada.store import operations, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict
from tests.answers import observation

RUN = "q-aaaaaa"
FAILURE = {
    "kind": "failure", "attempt": 1, "reason": "nan_loss", "message": "at step 7", "rank": 1, "lines": ["NaN"],
    "others": [{"rank": 0, "message": "gloo: Connection reset by peer"}], "exit_code": 1, "signal": None,
}  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "store.db")


def failed(database: Database, *events: dict[str, Any], spec: dict[str, Any] | None = None, **verdict: Any) -> runs.Run:
    runs.insert(database, run_id=RUN, name="q", host="box", task="sft", experiment=None, spec=spec or {})
    verdict = {"state": "failed", "reason": "nan_loss", "attempt": 1, "seq": 9, **verdict}
    runs.record(database, RUN, Verdict(**verdict), exit_code=1, observed_at=1.0)
    with database.transaction() as connection:
        for seq, event in enumerate(events, 1):
            line = json.dumps({"seq": seq, "time": 1.0, **event})
            connection.execute("INSERT INTO events VALUES (?, ?, 1.0, ?, ?)", (RUN, seq, event["kind"], line))
    return runs.find(database, RUN)


def test_the_rank_that_failed_first_speaks_and_the_others_stand_below(database: Database) -> None:
    page = gather(database, failed(database, FAILURE))
    assert (page.exit, page.rank, page.lines) == ("code 1", 1, ["NaN"])
    assert page.others == ["rank 0: gloo: Connection reset by peer"]


def test_the_failure_of_an_earlier_attempt_is_not_this_ones(database: Database) -> None:
    page = gather(database, failed(database, FAILURE, attempt=2))
    assert (page.lines, page.others, page.rank) == ([], [], None)


@pytest.mark.parametrize(
    "damage",
    [
        {"lines": 3, "others": "x", "rank": "a", "signal": "9"},
        {"lines": [None, {}], "others": [3, {"rank": []}], "rank": -1, "signal": 10**30},
        {"lines": ["\x1b[2J" + "x" * 9000], "signal": 64},
    ],
)
def test_damaged_and_hostile_records_cost_the_page_nothing_else(database: Database, damage: dict[str, Any]) -> None:
    page = gather(database, failed(database, {**FAILURE, **damage}))
    assert page.exit is not None
    assert [step.command for step in page.steps][-1] == f"armada resume {RUN}"
    assert all(len(line) <= 400 and "\x1b" not in line for line in page.lines)


@pytest.mark.parametrize(
    ("submission", "retries", "reason", "told"),
    [
        (1, 0, "exit_1", None),
        (1, 3, "exit_1", (0, 3)),
        (3, 3, "supervisor_lost", (2, 3)),
        (9, 3, "supervisor_lost", (3, 3)),
    ],
)
def test_retries_are_counted(
    database: Database, submission: int, retries: int, reason: str, told: tuple[int, int] | None
) -> None:
    run = failed(database, spec={"experiment": {"retries": retries}}, reason=reason)
    runs.record(database, RUN, Verdict("failed", reason, None, 2, 10), submission=submission, observed_at=2.0)
    found = gather(database, runs.find(database, run.run_id)).retries
    assert (None if found is None else (found.used, found.allowed)) == told
    assert found is None or ("counts for neither" in found.words) is (reason == "exit_1")


def test_retries_of_a_batch_system_are_its_failed_attempts(database: Database) -> None:
    spec = {"scheduler": {"kind": "slurm", "max_retries": 2}}
    events = [{**FAILURE, "attempt": 1}, {**FAILURE, "attempt": 2}]
    found = gather(database, failed(database, *events, spec=spec, attempt=2)).retries
    assert found is not None
    assert (found.used, found.allowed) == (1, 2)


def test_what_failed_before_a_person_resumed_the_run_is_no_retry_of_the_batch_system(database: Database) -> None:
    spec = {"scheduler": {"kind": "slurm", "max_retries": 2}}
    events = [{**FAILURE, "attempt": number, "submission": 1 if number < 3 else 2} for number in (1, 2, 3, 4)]
    failed(database, *events, spec=spec, attempt=4)
    verdict = Verdict("failed", "nan_loss", None, 4, 10)
    runs.record(database, RUN, verdict, submission=2, observed_at=2.0)
    found = gather(database, runs.find(database, RUN)).retries
    assert found is not None
    assert (found.used, found.allowed) == (1, 2)


def test_only_findings_about_checkpoints_are_reasons_why_none_was_taken(database: Database) -> None:
    said = [
        "out/2.pt was still being written to less than 30 s before the job ended: it is not taken",
        "resuming from 1",
    ]
    events = [{"kind": "finding", "attempt": 1, "message": words} for words in said]
    assert gather(database, failed(database, *events)).not_taken == said[:1]


@pytest.mark.parametrize(
    ("entry", "pids"),
    [
        ({"evidence": {"stopped": [41, 42]}}, (41, 42)),
        ({"evidence": {"stopped": [0, -3, "x", None, 7]}}, (7,)),
        ({"evidence": {"stopped": 3}}, ()),
        ({"evidence": None}, ()),
        ({}, ()),
    ],
)
def test_stopped_processes_are_read_from_a_look(entry: dict[str, Any], pids: tuple[int, ...]) -> None:
    assert stopped_in(observation(entry)) == pids


def test_a_cell_that_was_never_handed_over_names_the_command_of_its_sweep(database: Database) -> None:
    section = {"id": "grid", "cell": 1, "label": "x=1", "values": {"env.X": 1}}
    runs.insert(
        database, run_id="grid-001", name="g", host="box", task="command", experiment=None, spec={"sweep": section}
    )
    runs.set_state(database, "grid-001", "failed", reason="submit_refused", message="no room")
    assert gather(database, runs.find(database, "grid-001")).steps[-1].command == "armada resume grid-001"
    argv = ["/usr/bin/armada", "sweep", "my exp.yaml", "--host", "box"]
    since = {"pid": 1, "start_time": None, "boot_id": None}
    operations.begin(database, id="1", kind="launch", run_id="grid", host="box", argv=tuple(argv), **since)  # type: ignore[arg-type]  # three columns
    steps = gather(database, runs.find(database, "grid-001")).steps
    assert [step.command for step in steps] == ["armada doctor box", "armada sweep 'my exp.yaml' --host box"]
