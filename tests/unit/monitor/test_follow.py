"""What is followed on, and with which exit code following ends."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from armada.cli import following
from armada.cli.progress import Reporter
from armada.cli.runs import verdict
from armada.errors import ArmadaError, HostUnreachable, OutcomeUnknown, RunFailed
from armada.monitor.follow import GUESS_S, goes_on
from armada.store import runs
from armada.store.database import Database
from armada.verdicts.states import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from armada.store.runs import Run


SEEN_AT = 4e9
"""After anything that a clock says while this test runs."""


def run_that(tmp_path: Path, state: str, reason: str | None = None, *, seen_at: float = SEEN_AT) -> Run:
    with Database(tmp_path / "armada.db") as database:
        runs.insert(database, run_id="tale", name="tale", host="box", task="command", experiment=None, spec={})
        runs.record(database, "tale", Verdict(state, reason, None, 1, 1, "a test says so"), observed_at=seen_at)
        return runs.find(database, "tale")


@pytest.mark.parametrize(
    ("state", "reason", "later_s", "more"),
    [
        ("running", None, 1e9, True),
        ("unknown", "root_away", 1e9, True),
        ("succeeded", None, 0.0, False),
        ("failed", "exit_3", 0.0, False),
        ("failed", "gone", 0.0, True),
        ("failed", "gone", GUESS_S - 1, True),
        ("failed", "gone", GUESS_S, False),
    ],
)
def test_a_guessed_end_is_waited_on_for_a_while(
    tmp_path: Path, state: str, reason: str | None, later_s: float, more: bool
) -> None:
    assert goes_on(run_that(tmp_path, state, reason), SEEN_AT + later_s) is more


def test_following_ends_with_the_verdict_of_the_run(tmp_path: Path) -> None:
    assert verdict(run_that(tmp_path, "succeeded")) == 0


@pytest.mark.parametrize(
    ("state", "reason", "error"),
    [
        ("failed", "exit_3", RunFailed),
        ("cancelled", "killed_by_user", RunFailed),
        ("failed", "gone", OutcomeUnknown),
    ],
)
def test_what_did_not_succeed_is_said_and_a_guess_is_no_failure(
    tmp_path: Path, state: str, reason: str, error: type[ArmadaError]
) -> None:
    with pytest.raises(error):
        verdict(run_that(tmp_path, state, reason))


def refuse(*_: Any, **__: Any) -> None:
    raise HostUnreachable("it does not answer", host="box")


def bring(tmp_path: Path, run: Run) -> str:
    said = io.StringIO()
    context: Any = type("Context", (), {"database": None, "home": tmp_path})
    session: Any = None
    following._bring_home(context, session, run, Reporter(said))  # noqa: SLF001  # what a follow does last
    return said.getvalue()


def test_trouble_with_bringing_home_does_not_hide_that_a_run_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada.sync.runs.pull.pull", refuse)
    assert "not everything came home: box: it does not answer; armada pull tale continues" in bring(
        tmp_path, run_that(tmp_path, "failed", "exit_3")
    )


def test_what_a_run_that_succeeded_saved_has_to_come_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armada.sync.runs.pull.pull", refuse)
    run = run_that(tmp_path, "succeeded")
    with pytest.raises(HostUnreachable):
        bring(tmp_path, run)
