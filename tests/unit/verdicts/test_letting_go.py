"""When a host may let a checkpoint go, of all that homes can have said about it."""

from __future__ import annotations

import itertools

import pytest
from armada_agent.verdicts.letting_go import Words, lacking, may_go

HOMES = ("a" * 32, "b" * 32, "c" * 32)


def words(registered: str = "", held: str = "", unwanted: str = "", *, acknowledged: bool = True) -> Words:
    """Homes by their letters."""
    first, second, third = (frozenset(letter * 32 for letter in named) for named in (registered, held, unwanted))
    return Words(first, second, third, acknowledged)


def test_it_goes_once_every_home_of_the_run_holds_it() -> None:
    assert may_go(words("ab", "ab"), HOMES[0], is_newest=False).goes


def test_a_home_that_has_said_nothing_keeps_it_and_is_named() -> None:
    verdict = may_go(words("abc", "a", "b"), HOMES[0], is_newest=False)
    assert (verdict.goes, verdict.lacking) == (False, [HOMES[2]])


def test_a_home_that_does_not_want_it_does_not_keep_it() -> None:
    assert may_go(words("ab", "a", "b"), HOMES[0], is_newest=False).goes


def test_the_newest_stays_whatever_was_said() -> None:
    assert not may_go(words("ab", "ab"), HOMES[0], is_newest=True).goes


@pytest.mark.parametrize("given", [words("ab", "b"), words("ab", "b", "a"), words("b", "b")])
def test_who_asks_must_hold_it_whatever_others_do(given: Words) -> None:
    assert not may_go(given, HOMES[0], is_newest=False).goes


def test_a_home_of_the_first_release_lets_go_what_it_acknowledged_and_no_named_home_lacks() -> None:
    assert may_go(words(), None, is_newest=False).goes
    assert not may_go(words(acknowledged=False), None, is_newest=False).goes
    assert may_go(words("a"), None, is_newest=False).lacking == [HOMES[0]]


def test_no_word_of_any_home_lets_go_what_another_has_not_spoken_of() -> None:
    every = [frozenset(chosen) for count in range(4) for chosen in itertools.combinations(HOMES, count)]
    for registered, held, unwanted in itertools.product(every, repeat=3):
        given = Words(registered, held, unwanted, acknowledged=True)
        for asker in (*HOMES, None):
            if may_go(given, asker, is_newest=False).goes:
                assert not registered - held - unwanted - {asker}
                assert asker is None or asker in held
            assert set(lacking(given, asker)) <= registered
