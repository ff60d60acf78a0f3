"""What a command that is interrupted between several runs says of each."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from armada.cli.progress import Reporter
from armada.cli.several import Handled, Patience, handle_runs
from armada.errors import Conflict, HostUnreachable
from armada.store import runs
from armada.store.database import Database


def undone(run: runs.Run) -> str:
    return f"{run.run_id} stays"


@pytest.fixture
def named(tmp_path: Path) -> list[runs.Run]:
    with Database(tmp_path / "armada.db") as database:
        runs.insert(database, run_id="a", name="n", host="h", task="command", experiment=None, spec={})
        first = runs.find(database, "a")
    return [first._replace(run_id=run_id) for run_id in ("a", "b", "c", "d")]


def handle(run: runs.Run) -> Handled:
    if run.run_id == "b":
        raise Conflict("b is busy", hint="wait")
    if run.run_id == "c":
        raise KeyboardInterrupt
    return Handled({"run_id": run.run_id}, (f"{run.run_id} gone",))


def test_an_interruption_says_what_was_done_and_what_was_not(
    named: list[runs.Run], capsys: pytest.CaptureFixture[str]
) -> None:
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        handle_runs(named, handle, undone=undone, reporter=Reporter(out), as_json=False)
    assert out.getvalue().splitlines()[-1] == "a gone"
    assert capsys.readouterr().err.splitlines() == [
        "armada: b is busy",
        "  → wait",
        "armada: interrupted: c stays",
        "armada: interrupted: d stays",
        "armada: not completed for 3 of 4 runs",
    ]


def test_an_interruption_is_in_the_json_too(named: list[runs.Run], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        handle_runs(named, handle, undone=undone, reporter=Reporter(io.StringIO()), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [each["run_id"] for each in told] == ["a", "b", "c", "d"]
    assert [each.get("error", {}).get("exit_code") for each in told] == [None, 8, 130, 130]


def test_the_first_failure_decides_the_exit_code(named: list[runs.Run], capsys: pytest.CaptureFixture[str]) -> None:
    failing = [named[0], named[1]]
    assert handle_runs(failing, handle, undone=undone, reporter=Reporter(io.StringIO()), as_json=False) == 8

    def full(run: runs.Run) -> Handled:
        raise OSError(28, "No space left on device", run.run_id)

    assert handle_runs(failing, full, undone=undone, reporter=Reporter(io.StringIO()), as_json=False) == 1
    assert "armada: a: No space left on device" in capsys.readouterr().err


def test_a_host_that_did_not_answer_is_waited_for_once() -> None:
    patience = Patience(60.0)
    with pytest.raises(HostUnreachable), patience.for_host("dead") as first_s:
        raise HostUnreachable("no route", host="dead")
    with patience.for_host("dead") as second_s, patience.for_host("alive") as other_s:
        pass
    with pytest.raises(Conflict), patience.for_host("alive"):
        raise Conflict("it is busy")
    with patience.for_host("alive") as last_s:
        pass
    assert (first_s, second_s, other_s, last_s) == (60.0, 0.0, 60.0, 60.0)
