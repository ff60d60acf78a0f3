"""What follows from an end that is only guessed, or that only a batch system told."""

from __future__ import annotations

import pytest

from armada.verdicts import guesses

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("state", "reason", "since", "waited_for"),
    [
        ("failed", "gone", -6.9 * DAY_S, True),
        ("failed", "gone", -7.0 * DAY_S, False),
        ("failed", "gone", -7.1 * DAY_S, False),
        ("failed", "gone", DAY_S, True),  # the clock was wrong when it was noted
        ("failed", "gone", None, False),
        ("failed", "exit_1", 0.0, False),
        ("failed", "never_started", 0.0, False),  # on a plain host: its supervisor is seen to be dead
        ("running", None, 0.0, False),
    ],
)
def test_better_evidence_is_waited_for_a_week(
    state: str, reason: str | None, since: float | None, waited_for: bool
) -> None:
    assert guesses.is_waited_for(state, reason, since, 0.0) is waited_for


@pytest.mark.parametrize(
    ("state", "reason", "seen", "scheduler_status", "stays"),
    [
        ("failed", "gone", (1, 4), "unknown", True),
        ("failed", "gone", (1, 4), "running", False),
        ("failed", "gone", (1, 4), "gone", False),  # the same verdict again
        ("failed", "gone", (1, 5), "unknown", False),  # its supervisor has written since
        ("failed", "gone", (1, 4), None, False),
        ("running", None, (1, 4), "unknown", False),
    ],
)
def test_silence_leaves_a_guess_as_it_is(
    state: str, reason: str | None, seen: tuple[int, int], scheduler_status: str | None, stays: bool
) -> None:
    places = {"known": (1, 1, 4), "seen": (1, *seen)}
    kept = guesses.stays(state, reason, is_told=False, **places, scheduler_status=scheduler_status, processes=0)
    assert kept is stays


@pytest.mark.parametrize(
    ("seen", "scheduler_status", "processes", "stays"),
    [
        ((1, 1, 4), "unknown", 0, True),
        ((1, 1, 4), "gone", 0, True),  # forgotten: that is no news of an end that was told
        ((1, 1, 4), "ending", 0, True),  # another login node has asked once only
        ((1, 1, 4), "ended", 0, False),  # the same verdict again, or a better reason
        ((1, 1, 4), "pending", 0, False),
        ((1, 1, 4), "held", 0, False),
        ((1, 1, 4), "running", 0, False),
        ((1, 1, 4), None, 0, False),  # its end is recorded now
        ((1, 1, 5), "unknown", 0, False),  # its supervisor has written since
        ((1, 2, 4), "gone", 0, False),
        ((2, 1, 4), "unknown", 0, False),  # another home resumed it
        ((0, 1, 4), "unknown", 0, True),
        ((1, 1, 4), "unknown", 1, False),
        ((1, 1, 4), "gone", 1, False),
    ],
)
def test_only_positive_evidence_revises_an_end_that_a_batch_system_told(
    seen: tuple[int, int, int], scheduler_status: str | None, processes: int, stays: bool
) -> None:
    kept = guesses.stays(
        "failed",
        "node_failure",
        is_told=True,
        known=(1, 1, 4),
        seen=seen,
        scheduler_status=scheduler_status,
        processes=processes,
    )
    assert kept is stays


@pytest.mark.parametrize(
    ("told_at", "may_return"),
    [(-6.9 * DAY_S, True), (-7.0 * DAY_S, False), (DAY_S, True), (None, False)],
)
def test_a_run_may_return_for_a_week(told_at: float | None, may_return: bool) -> None:
    assert guesses.may_return(told_at, 0.0) is may_return


@pytest.mark.parametrize(
    ("state", "was_told", "seen", "anew"),
    [
        ("running", False, (1, 1, 4), True),
        ("failed", False, (1, 1, 4), False),
        ("failed", False, (1, 1, 5), False),  # the supervisor writes its end twice
        ("failed", False, (2, 1, 4), True),
        ("failed", True, (1, 1, 4), False),
        ("failed", True, (1, 2, 5), True),  # it ran again between two looks
        ("failed", True, (1, 1, 3), False),
    ],
)
def test_what_ran_again_is_synced_to_its_end_once_more(
    state: str, was_told: bool, seen: tuple[int, int, int], anew: bool
) -> None:
    assert guesses.begins_anew(state, was_told=was_told, known=(1, 1, 4), seen=seen) is anew


@pytest.mark.parametrize(
    ("kind", "status", "detail", "processes", "lives"),
    [
        ("slurm", "pending", "PENDING", 0, True),
        ("slurm", "held", "PENDING", 0, True),
        ("slurm", "running", "RUNNING", 0, True),
        ("slurm", "running", "COMPLETED", 0, False),  # its files changed, with the disk
        ("slurm", "ending", "COMPLETED", 0, False),
        ("slurm", "ended", "COMPLETED", 0, False),
        ("slurm", "unknown", "PENDING", 0, False),
        ("slurm", "gone", None, 0, False),
        ("htcondor", "pending", "submitted", 0, False),  # its log is as old as the disk
        ("htcondor", "running", "RUNNING", 0, False),
        ("direct", None, None, 0, False),
        (None, None, None, 0, False),
        ("direct", None, None, 1, True),
        ("htcondor", "gone", None, 2, True),
    ],
)
def test_an_end_outlives_its_disk_until_something_else_shows_life(
    kind: str | None, status: str | None, detail: str | None, processes: int, *, lives: bool
) -> None:
    shown = guesses.outlives_its_disk(kind, scheduler_status=status, detail=detail, processes=processes)
    assert shown is lives
