"""Whether all of armada's files on a host may be deleted, row by row of the two tables."""

from __future__ import annotations

from typing import Any

import pytest
from armada_agent.verdicts.wiping import (
    Refusal,
    RunSeen,
    Seen,
    is_repeated,
    why_not,
    why_not_since,
    why_not_the_rest,
    why_not_this_root,
    why_not_unjudged,
)

ENDED = RunSeen("run-1", alive=False, may_start=False, lacking=[], submission=1, checkpoints=frozenset({"a"}))
OTHER = ENDED._replace(run_id="run-2")
LACKS = "ann@desktop (home bbbbbbbb) has not fetched 3 checkpoints of run-1"
NOTHING = Seen([], [], [], frozenset(), [])


def seen(*runs: RunSeen, **more: Any) -> Seen:
    return NOTHING._replace(runs=list(runs), **more)


def what(refusal: Refusal | None) -> str | None:
    return None if refusal is None else refusal.what


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (NOTHING, None),
        (seen(ENDED, OTHER), None),
        (seen(ENDED, OTHER, strange=frozenset({"x"})), None),
        (seen(ENDED, OTHER._replace(alive=True)), "run-2 is still alive"),
        (seen(ENDED._replace(may_start=True), OTHER._replace(alive=True)), "run-2 is still alive"),
        (seen(ENDED, without_folder=["run-9"]), "run-9 is still alive"),
        (seen(ENDED, dispatchers=["sweep-1"]), "sweep-1 is still alive"),
        (seen(ENDED._replace(may_start=True), OTHER), "run-1 may still start"),
        (seen(ENDED._replace(lacking=[LACKS]), OTHER), LACKS),
        (seen(*(ENDED._replace(run_id=f"r{n}", alive=True) for n in range(9))), "r0, r1, r2, r3, r4 is still alive"),
    ],
)
def test_one_look(given: Seen, says: str | None) -> None:
    assert what(why_not(given)) == says
    assert what(why_not_since(given, given)) == says


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (seen(ENDED, OTHER), None),
        (seen(ENDED), None),  # another home removed one, as it may
        (seen(ENDED, OTHER._replace(checkpoints=frozenset())), None),  # or a checkpoint
        (seen(ENDED, OTHER, ENDED._replace(run_id="run-3")), "run-3 was put here while the host was checked"),
        (seen(ENDED, OTHER, came=["run-1"]), "run-1 was put here while the host was checked"),
        (seen(ENDED, OTHER, strange=frozenset({"run-1.old"})), "run-1.old was put here while the host was checked"),
        (seen(ENDED._replace(submission=2), OTHER), "run-1 was submitted again while the host was checked"),
        (
            seen(ENDED._replace(checkpoints=frozenset("ab")), OTHER),
            "run-1 got a checkpoint while the host was checked",
        ),
    ],
)
def test_the_second_look_beside_the_first(now: Seen, says: str | None) -> None:
    assert what(why_not_since(seen(ENDED, OTHER), now)) == (None if says is None else f"{says}; nothing was deleted")


def test_what_comes_after_both_looks_keeps_the_agent() -> None:
    assert why_not_the_rest([]) is None
    assert what(why_not_the_rest(["run-9"])) == (
        "run-9 was put here while older files were deleted; it stays, and so does the agent"
    )


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (None, None),  # an older home does not say which it judged
        ({"run-1": 1, "run-2": 1, "run-3": 2}, None),
        ({"run-1": None, "run-2": 1}, None),
        ({"run-1": 1}, "run-2 was put here while the host was checked"),
        ({}, "run-1, run-2 was put here while the host was checked"),
        ({"run-1": 0, "run-2": 1}, "run-1 was submitted again while the host was checked"),
    ],
)
def test_the_first_look_beside_what_home_judged(judged: dict[str, int | None] | None, says: str | None) -> None:
    assert what(why_not_unjudged(judged, seen(ENDED, OTHER))) == (
        None if says is None else f"{says}; nothing was deleted"
    )


@pytest.mark.parametrize(
    ("judged", "now", "goes"),
    [("r", "r", True), (None, "r", True), (None, None, True), ("r", "s", False), ("r", None, False)],
)
def test_the_root_beside_the_one_that_home_judged(judged: str | None, now: str | None, goes: bool) -> None:
    assert (why_not_this_root(judged, now) is None) == goes


@pytest.mark.parametrize(
    ("judged", "wiped", "runs", "repeated", "goes"),
    [
        ("r", ["q", "r"], [], True, True),
        ("r", ["q", "r"], ["run-1"], False, False),
        ("r", ["q"], [], False, False),
        (None, ["q"], [], False, True),
    ],
)
def test_a_wipe_that_was_done_is_told_from_another_root(
    judged: str | None, wiped: list[str], runs: list[str], repeated: bool, goes: bool
) -> None:
    assert is_repeated(judged, wiped, runs) == repeated
    assert (why_not_this_root(judged, "s", wiped, runs) is None) == goes
