"""Which checkpoint a nearly full disk takes next, of what is known of them."""

from __future__ import annotations

from typing import Any

from armada_agent.thinning import choose

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
