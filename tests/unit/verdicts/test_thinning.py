"""Which checkpoint a nearly full disk takes next, of what is known of them."""

from __future__ import annotations

import math
from typing import Any

from armada_agent.verdicts.thinning import choose, find_best

NONE: frozenset[str] = frozenset()


def entries(*steps: int, held: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    return [{"digest": str(step), "step": step, "acknowledged": step in held} for step in steps]


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


def measured(step: int, **metrics: Any) -> dict[str, Any]:
    return {"digest": str(step), "step": step, "metrics": metrics}


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
