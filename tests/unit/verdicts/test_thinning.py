"""Which checkpoint a nearly full disk takes next, of what is known of them."""

from __future__ import annotations

import math
from typing import Any

from armada_agent.verdicts.age import find_newest, find_oldest
from armada_agent.verdicts.thinning import choose, find_best

NONE: frozenset[str] = frozenset()


def entries(*steps: int, held: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    return [dict(saved(step, at=float(step)), acknowledged=step in held) for step in steps]


def saved(step: int, *, at: float, attempt: int = 1, digest: str | None = None) -> dict[str, Any]:
    facts = {"step": step, "created_at": at, "attempt": attempt, "acknowledged": False, "metrics": {}}
    return {"digest": digest or str(step), **facts}


def listed(*given: dict[str, Any]) -> list[dict[str, Any]]:
    """As a host lists them: by time."""
    return sorted(given, key=lambda entry: (entry["created_at"], entry["step"]))


SET_BACK = [saved(step, at=float(step)) for step in range(1, 6)] + [saved(6, at=2.5), saved(7, at=2.6)]
"""The clock was set back by three hours before the sixth."""


def chosen(given: list[dict[str, Any]], best: frozenset[str] = NONE, *, is_scarce: bool = True) -> int | None:
    entry = choose(given, best, is_scarce)
    return None if entry is None else entry["step"]


def test_what_every_home_holds_goes_first_from_the_oldest_on() -> None:
    assert chosen(entries(10, 20, 30, 40, held=(20, 30, 40))) == 20
    assert chosen(entries(10, 20, 30, held=(10,)), is_scarce=False) == 10


def test_the_newest_and_the_best_stay_whoever_holds_them() -> None:
    assert chosen(entries(10, 20, held=(10, 20)), frozenset({"10"})) is None


def test_what_a_home_lacks_goes_only_when_the_disk_is_scarce() -> None:
    assert chosen(entries(10, 20, 30), is_scarce=False) is None
    assert chosen(entries(10, 20, 30)) == 20


def test_the_oldest_and_the_newest_stay_while_a_home_lacks_them() -> None:
    assert chosen(entries(10, 20)) is None
    assert chosen(entries(10, 20, 30), frozenset({"20"})) is None


def test_of_the_middle_goes_what_leaves_the_smallest_gap() -> None:
    assert chosen(entries(10, 20, 25, 40, 50)) == 20


def test_the_newest_stays_where_the_clock_was_set_back() -> None:
    there, gone = listed(*SET_BACK), []
    assert [entry["step"] for entry in there] == [1, 2, 6, 7, 3, 4, 5]
    while (entry := choose(there, NONE, is_scarce=True)) is not None:
        gone.append(entry["step"])
        there.remove(entry)
    assert gone == [2, 4, 6, 3]  # no gap is negative; 5 is the newest by time, 7 by all else


def test_the_newest_stays_where_the_clock_was_set_back_although_every_home_holds_it() -> None:
    there = [dict(entry, acknowledged=True) for entry in listed(*SET_BACK)]
    assert chosen(there) == 1
    assert chosen([entry for entry in there if entry["step"] in (5, 7)]) is None


def test_where_the_clock_was_set_back_to_before_the_run_its_first_checkpoint_stays_too() -> None:
    there = listed(saved(1, at=1.0), saved(2, at=2.0), saved(3, at=3.0), saved(4, at=0.5))
    assert chosen(there) == 2
    there = [entry for entry in there if entry["step"] != 2]
    assert chosen(there) is None  # the first, the newest by time, the newest by all else


def test_the_newest_stays_of_a_run_that_was_resumed_from_an_earlier_step_whatever_its_clock_shows() -> None:
    first = [saved(step, at=float(step)) for step in (10, 20, 30)]
    second = [saved(step, at=at, attempt=2, digest=f"{step}-2") for step, at in ((15, 5.0), (25, 6.0))]
    assert find_newest(listed(*first, *second)) == {"30", "25-2"}
    assert chosen(listed(*first, *second)) == 20  # all gaps are alike: that of the former attempt goes


def test_a_script_whose_steps_go_back_keeps_the_last_that_it_wrote() -> None:
    there = listed(saved(100, at=1.0), saved(1, at=2.0), saved(2, at=3.0))
    assert find_newest(there) == {"100", "2"}
    assert find_oldest(there) == {"100", "1"}


def test_no_checkpoints_have_no_newest() -> None:
    assert (find_newest([]), find_oldest([])) == (NONE, NONE)


def measured(step: int, *, at: float | None = None, **metrics: Any) -> dict[str, Any]:
    return dict(saved(step, at=float(step) if at is None else at), metrics=metrics)


def test_the_best_has_the_least_loss_that_is_a_number() -> None:
    given = [measured(1, eval_loss=0.5), measured(2, eval_loss=0.25), measured(3, eval_loss=0.5)]
    assert find_best(given) == {"2"}
    for odd in (math.nan, -math.inf, math.inf, "0.1", None, [0.1]):
        assert find_best([*given, measured(4, eval_loss=odd)]) == {"2"}, odd
    assert find_best([measured(1), measured(2)]) == NONE


def test_what_names_the_best_stays_with_it_and_not_without_it() -> None:
    given = [measured(1), measured(2), measured(3, best_step=2), measured(4)]
    assert find_best(given) == {"2", "3"}
    assert find_best([given[0], *given[2:]]) == frozenset()


def test_what_the_job_last_called_its_best_stays_as_well() -> None:
    given = [measured(1), measured(2, eval_loss=0.25, best_step=1), measured(3, eval_loss=0.5)]
    assert find_best(given) == {"1", "2"}
    assert find_best([*given, measured(4, best_step=3)]) == {"2", "3"}
    assert find_best([*given, measured(4, best_step=9)]) == {"2"}  # it is not here any more


def test_the_job_s_last_word_counts_where_the_clock_was_set_back() -> None:
    given = [measured(1), measured(2), measured(3, at=2.5, best_step=1), measured(4, at=0.5, best_step=2)]
    assert find_best(listed(*given)) == {"1", "2"}  # either may be the last word; who says so is the newest by an order
