"""When runs ran, over all of their attempts, also where a host's clock is hours off."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.costs.tariff import lasted_s
from armada.store import runs
from armada.store.database import Database
from armada.store.queries.uses import Seen, past_of, spans_of
from armada.store.runs import Run

H = 3600.0
T = 1_800_000_000.0


def stored(folder: Path, **columns: object) -> Run:
    with Database(folder / "store.db") as database:
        runs.insert(database, run_id="r-1", name="r", host="box", task="command", experiment=None, spec={})
        words = ", ".join(f"{name} = ?" for name in columns)
        with database.transaction() as connection:
            connection.execute(f"UPDATE runs SET {words}", tuple(columns.values()))
        return runs.find(database, "r-1")


def seen(*moments: tuple[float, str]) -> list[Seen]:
    return [(T + at * H, state, None, "submitted again" if state == "submitted" else None) for at, state in moments]


RESUMED = seen((8, "running"), (9, "failed"), (9.5, "submitted"), (10, "running"), (11, "succeeded"))
REQUEUED = seen((8, "running"), (9, "queued"), (10, "running"), (11, "succeeded"))


@pytest.mark.parametrize("off", [0, -5, 5, 2, -2, 26, -100, 0.05])
@pytest.mark.parametrize(("told", "submission"), [(RESUMED, 2), (REQUEUED, 1)])
def test_each_attempt_counts_once_whatever_the_clock_of_the_host_says(
    tmp_path: Path, off: float, told: list[Seen], submission: int
) -> None:
    at = T + off * H
    run = stored(
        tmp_path, state="succeeded", submission=submission, attempt=2, created_at=T + 8 * H, started_at=at + 10 * H,
        ended_at=at + 11 * H, observed_at=T + 11 * H,
    )  # fmt: skip
    spans = spans_of(run, past_of(run, told), T + 30 * H)
    assert lasted_s(spans) == pytest.approx(2 * H, abs=1)


@pytest.mark.parametrize("off", [0, -5, 5])
def test_a_resumed_run_that_runs_counts_until_now(tmp_path: Path, off: float) -> None:
    started = T + (10 + off) * H
    run = stored(
        tmp_path, state="running", submission=2, attempt=2, created_at=T + 8 * H, started_at=started, ended_at=None
    )
    assert lasted_s(spans_of(run, past_of(run, RESUMED[:-1]), T + 13 * H)) == pytest.approx(4 * H)


def test_a_run_that_waits_for_its_next_attempt_costs_nothing_meanwhile(tmp_path: Path) -> None:
    run = stored(tmp_path, state="queued", submission=2, attempt=1, created_at=T + 8 * H, started_at=T + 8 * H)
    assert spans_of(run, past_of(run, RESUMED[:3]), T + 90 * H) == ((T + 8 * H, T + 9 * H),)


@pytest.mark.parametrize("off", [0, -5, 5])
def test_an_attempt_that_home_did_not_see_begin_counts_by_its_length(tmp_path: Path, off: float) -> None:
    told = seen((8, "running"), (9, "failed"), (9.5, "submitted"), (11, "failed"))
    at = T + off * H
    run = stored(
        tmp_path, state="failed", submission=2, attempt=2, created_at=T + 8 * H, started_at=at + 10 * H,
        ended_at=at + 11 * H,
    )  # fmt: skip
    assert lasted_s(spans_of(run, past_of(run, told), T + 30 * H)) == pytest.approx(2 * H)


def test_a_requeue_that_home_slept_through_begins_when_the_host_says(tmp_path: Path) -> None:
    told = seen((8, "running"))
    run = stored(tmp_path, state="running", attempt=2, created_at=T + 8 * H, started_at=T + 12 * H)
    spans = spans_of(run, past_of(run, told), T + 13 * H)
    assert spans == ((T + 8 * H, T + 12 * H), (T + 12 * H, T + 13 * H))


def test_an_attempt_that_was_out_of_sight_for_a_while_is_one_attempt(tmp_path: Path) -> None:
    told = seen((8, "running"), (9, "queued"), (10, "running"), (11, "unknown"), (12, "running"), (13, "succeeded"))
    run = stored(
        tmp_path, state="succeeded", attempt=2, created_at=T + 8 * H, started_at=T + 10 * H, ended_at=T + 13 * H
    )
    assert lasted_s(spans_of(run, past_of(run, told), T + 30 * H)) == pytest.approx(4 * H)


@pytest.mark.parametrize(
    ("told", "hours"),
    [
        (seen((0, "running"), (1, "unknown"), (1.02, "running"), (80, "succeeded")), 80),
        (seen((39, "running"), (41, "unknown"), (41.02, "running"), (80, "succeeded")), 41),
    ],
)
def test_a_moment_of_doubt_is_no_attempt(tmp_path: Path, told: list[Seen], hours: float) -> None:
    run = stored(
        tmp_path, state="succeeded", attempt=2, created_at=T, started_at=T + 40 * H, ended_at=T + 80 * H,
        observed_at=T + 80 * H,
    )  # fmt: skip
    assert lasted_s(spans_of(run, past_of(run, told), T + 90 * H)) == pytest.approx(hours * H)


def test_hours_that_have_not_been_are_not_counted(tmp_path: Path) -> None:
    told = seen((0, "submitted"), (3, "failed"), (4, "submitted"), (4.1, "running"))
    run = stored(
        tmp_path, state="running", submission=2, attempt=2, created_at=T, started_at=T + 9 * H, observed_at=T + 5 * H
    )
    assert lasted_s(spans_of(run, past_of(run, told), T + 5 * H)) == pytest.approx(0.9 * H)


def test_an_attempt_that_home_never_saw_run_counts_while_the_next_one_waits(tmp_path: Path) -> None:
    told = seen((0, "submitted"), (3, "failed"), (4, "submitted"))
    run = stored(
        tmp_path, state="queued", submission=2, attempt=1, created_at=T, started_at=T + H, alive_at=T + 2.5 * H
    )
    assert spans_of(run, past_of(run, told), T + 90 * H) == ((T + H, T + 2.5 * H),)
