"""Which host is taken by which wish, and the reason that each of the others gets."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from armada.costs.price import money
from armada.launch.comparison.choice import Candidate, Rule, Wish, choose
from armada.launch.estimates.ranges import Range

HOUR = 3600.0


def candidate(name: str, hours: float | None, cost: float | None = None, **more: Any) -> Candidate:
    end = Range.around(hours * HOUR, 1.5) if hours is not None else None
    paid = Range.around(cost, 1.5) if cost is not None else None
    return Candidate(name, None, end, "" if end else "its hours are not known: no run", paid, cost is not None, **more)


FAST, CHEAP, FREE = candidate("fast", 2, 40), candidate("cheap", 10, 12), candidate("free", 6)
AWAY = Candidate("away", "no answer within 20 s", is_away=True)
FULL = Candidate("full", "ARM005 not enough disk", has_gpus=True)
ALL = (AWAY, CHEAP, FREE, FAST, FULL)


@pytest.mark.parametrize(
    ("wish", "winner", "losers"),
    [
        (Wish("fastest"), "fast", {"cheap": "it ends in 10 h 00 m, not 2 h 00 m", "free": "it ends in 6 h 00 m, not 2 h 00 m"}),
        (Wish("cheapest"), "cheap", {"fast": "it costs $40.00, not $12.00", "free": "it has no `price`"}),
        (Wish("by", 15.5 * HOUR, "08:00"), "fast", {"free": "it ends in 6 h 00 m, not 2 h 00 m"}),
        (Wish("by", 4 * HOUR, "08:00"), "fast", {"cheap": "it may take 15 h 00 m, and 08:00 is in 4 h 00 m"}),
        (Wish("max-cost", 18, "$18.00"), "cheap", {"fast": "it may cost $60.00, more than $18.00", "free": "it has no `price`"}),
        (Wish("max-cost", 100, "$100.00"), "fast", {"cheap": "it ends in 10 h 00 m, not 2 h 00 m"}),
    ],
)  # fmt: skip
def test_each_wish_takes_its_host_and_says_why_the_others_lost(wish: Wish, winner: str, losers: dict[str, str]) -> None:
    choice = choose(ALL, wish)
    assert choice.winner == winner
    always = {"away": "no answer within 20 s", "full": "ARM005 not enough disk"}
    assert choice.losers.items() >= (losers | always).items()
    assert list(choice.losers) == [each.name for each in ALL if each.name != winner]


def test_of_those_done_in_time_the_cheapest_is_taken_if_each_has_a_price() -> None:
    choice = choose((FAST, CHEAP), Wish("by", 20 * HOUR, "08:00"))
    assert (choice.winner, choice.losers) == ("cheap", {"fast": "it costs $40.00, not $12.00"})
    assert choice.why == "done by 08:00: it ends in about 10 h 00 m and costs about $12.00"


def test_figures_that_look_alike_are_not_named() -> None:
    short, longer = candidate("short", 0.001, 0.001), candidate("longer", 0.0011, 0.0011)
    assert choose((short, longer), Wish("fastest")).losers == {"longer": "it ends a little later"}
    assert choose((short, longer), Wish("cheapest")).losers == {"longer": "it costs a little more"}


@pytest.mark.parametrize("rule", ["fastest", "cheapest", "by", "max-cost"])
def test_with_no_fitting_host_nothing_is_chosen(rule: Rule) -> None:
    choice = choose((AWAY, FULL), Wish(rule, 1.0, "it"))
    assert (choice.winner, list(choice.losers)) == (None, ["away", "full"])
    assert choose((), Wish(rule, 1.0, "it")).winner is None


def test_limits_are_compared_with_the_high_end() -> None:
    assert choose((FAST,), Wish("max-cost", 60.0, "$60")).winner == "fast"
    assert choose((FAST,), Wish("max-cost", 59.99, "$59.99")).winner is None
    assert choose((FAST,), Wish("by", 3 * HOUR, "08:00")).winner == "fast"
    assert choose((FAST,), Wish("by", 2.99 * HOUR, "08:00")).winner is None


def test_a_host_whose_wait_is_unknown_is_never_promised() -> None:
    busy = dataclasses.replace(FAST, until_end_s=None, why_no_end="when it starts is not known: 0 of 8 GPUs free")
    assert choose((busy,), Wish("by", math.inf, "08:00")).losers == {"fast": busy.why_no_end}
    assert choose((busy, CHEAP), Wish("fastest")).winner == "cheap"
    assert choose((busy, CHEAP), Wish("max-cost", 100.0, "$100")).losers == {"fast": busy.why_no_end}


def test_hosts_that_fit_and_of_which_too_little_is_known_are_not_called_unfit() -> None:
    unknown, box = candidate("local", None), candidate("box", None, has_gpus=True)
    assert choose((unknown, box), Wish("fastest")).why == "no host can be chosen"
    assert choose((unknown, box), Wish("cheapest")).why == "no host can be chosen"
    assert choose((AWAY, FULL), Wish("fastest")).why == "no host fits"
    assert choose((FAST,), Wish("max-cost", 1.0, "$1")).why == "no host fits"


def test_without_an_estimate_only_a_host_that_surely_is_the_only_one_is_taken() -> None:
    unknown, box = candidate("local", None), candidate("box", None, has_gpus=True)
    assert choose((unknown,), Wish("fastest")).winner == "local"
    assert choose((box, FULL), Wish("fastest")).winner == "box"
    assert choose((unknown, box), Wish("fastest")).winner is None, "two could run it"
    assert choose((box, AWAY), Wish("fastest")).winner is None, "the other one may be better"
    assert choose((unknown, FULL), Wish("fastest")).winner is None, "a training that wants GPUs is no work for CPUs"
    assert choose((unknown,), Wish("cheapest")).winner is None


def test_equal_hosts_are_taken_in_their_order() -> None:
    twin = dataclasses.replace(FAST, name="twin")
    assert choose((twin, FAST), Wish("fastest")).winner == "twin"
    assert choose((FAST, twin), Wish("fastest")).losers == {"twin": "it is no better than fast"}


def test_a_machine_that_costs_nothing_is_the_cheapest() -> None:
    free = candidate("own", 30, 0.0)
    assert choose((FAST, free), Wish("cheapest")).winner == "own"
    assert (money(0.0), money(1234.5), money(999.994)) == ("$0.00", "$1,234", "$999.99")


def test_prices_in_two_currencies_are_not_compared() -> None:
    euros = candidate("euros", 5, 1.0, currency="EUR")
    for wish in (Wish("cheapest"), Wish("max-cost", 100.0, "100.00")):
        choice = choose((FAST, euros), wish)
        assert (choice.winner, choice.why) == (None, "prices are in EUR and USD, which cannot be compared")
        assert choice.losers["euros"] == "its price is in EUR: EUR and USD cannot be compared"
    limited = choose((FAST, euros), Wish("max-cost", 100.0, "100.00 EUR", "EUR"))
    assert (limited.winner, limited.losers) == ("euros", {"fast": "its price is in USD, and the limit in EUR"})
    assert choose((FAST, euros), Wish("by", 100 * HOUR, "08:00")).winner == "fast"
