"""What spans of time cost: shares, several prices, several currencies, clocks that jump."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.costs.amounts import Amounts, total
from armada.costs.price import Price
from armada.costs.report import Use, cost_of_host, forecast
from armada.costs.tariff import Tariff, lasted_s, merged, ran

HOUR = 3600.0
BOX = Tariff((Price(8.0, "EUR"),), gpus=8)


def test_a_run_pays_for_its_share_of_the_gpus_and_without_gpus_for_the_box() -> None:
    assert BOX.cost_of_run(2, [(0, HOUR)]).by_currency == {"EUR": 2.0}
    assert BOX.cost_of_run(0, [(0, HOUR)]).by_currency == {"EUR": 8.0}
    assert BOX.cost_of_run(99, [(0, HOUR)]).by_currency == {"EUR": 8.0}
    assert Tariff((Price(8.0),)).cost_of_run(2, [(0, HOUR)]).by_currency == {"USD": 8.0}


def test_a_price_per_gpu_is_for_each_gpu_held_and_for_a_box_for_all_of_them() -> None:
    tariff = Tariff((Price(2.0, "EUR", "gpu"),), gpus=4)
    assert tariff.cost_of_run(3, [(0, HOUR)]).by_currency == {"EUR": 6.0}
    assert tariff.cost_of_box([(0, HOUR)]).by_currency == {"EUR": 8.0}
    unknown = Tariff((Price(2.0, "EUR", "gpu"),)).cost_of_box([(0, HOUR)])
    assert (unknown.by_currency, unknown.unknown_s) == ({}, HOUR)
    cluster = Tariff((Price(2.0, "EUR", "gpu"),), is_box=False)
    assert cluster.cost_of_run(0, [(0, HOUR)]) == Amounts({}, HOUR)


def test_each_hour_has_the_price_that_was_valid_then_and_currencies_stay_apart() -> None:
    tariff = Tariff((Price(1.0), Price(2.0, valid_from=HOUR), Price(3.0, "EUR", valid_from=3 * HOUR)))
    cost = tariff.cost_of_run(0, [(0, 4 * HOUR)])
    assert cost.by_currency == {"USD": 5.0, "EUR": 3.0}
    assert cost.text() == "3.00 EUR and $5.00"
    assert cost.single is None


def test_time_before_the_first_price_is_unknown_and_not_free() -> None:
    cost = Tariff((Price(2.0, valid_from=HOUR),)).cost_of_run(0, [(0, 2 * HOUR)])
    assert (cost.by_currency, cost.unknown_s) == ({"USD": 2.0}, HOUR)
    assert cost.text() == "$2.00 and 1 h 00 m without a price"
    nothing = Tariff((Price(2.0, valid_from=HOUR),)).cost_of_run(0, [(0, 1800)])
    assert (nothing.as_json(), nothing.text(), nothing.is_known) == (None, "", False)


def test_a_clock_that_was_set_back_and_attempts_that_overlap_cost_nothing_twice() -> None:
    assert BOX.cost_of_run(8, [(HOUR, 0)]).by_currency == {"EUR": 0.0}
    assert BOX.cost_of_run(8, [(0, HOUR), (1800, HOUR)]).by_currency == {"EUR": 8.0}


def test_runs_together_pay_an_hour_of_the_box_once() -> None:
    assert BOX.cost_together([(0, [(0, HOUR)]), (0, [(0, HOUR)])]).by_currency == {"EUR": 8.0}
    assert BOX.cost_together([(2, [(0, HOUR)]), (2, [(0, HOUR)])]).by_currency == {"EUR": 4.0}
    cluster = Tariff((Price(8.0),), is_box=False)
    assert cluster.cost_together([(1, [(0, HOUR)]), (1, [(0, HOUR)])]).by_currency == {"USD": 16.0}


_spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=4)


@given(st.lists(st.tuples(st.integers(0, 8), _spans), max_size=6))
def test_together_never_costs_more_than_the_box_or_than_all_apart(
    used: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    floats = [(held, [(float(a), float(b)) for a, b in spans]) for held, spans in used]
    together = BOX.cost_together(floats).by_currency.get("EUR", 0.0)
    box = BOX.cost_of_box([span for _, spans in floats for span in spans]).by_currency.get("EUR", 0.0)
    apart = total(BOX.cost_of_run(held, spans) for held, spans in floats).by_currency.get("EUR", 0.0)
    assert together <= box + 1e-9
    assert together <= apart + 1e-9


def test_what_no_run_used_is_named_idle_and_unused() -> None:
    used = [Use("a", "box", 2, ((HOUR, 3 * HOUR),))]
    found = cost_of_host("box", BOX, used, (0.0, 4 * HOUR), (0.0, 4 * HOUR))
    assert found.whole.by_currency == {"EUR": 32.0}
    assert found.runs.by_currency == {"EUR": 4.0}
    assert found.unused.by_currency == {"EUR": 12.0}
    assert found.idle is not None
    assert found.idle.by_currency == {"EUR": 16.0}
    assert (found.idle_s, found.gpu_hours, found.node_hours) == (2 * HOUR, 4.0, 2.0)
    parts = total([found.runs, found.unused, found.idle])
    assert parts.by_currency == found.whole.by_currency


def test_a_window_counts_only_what_lies_in_it_and_a_released_host_costs_nothing_more() -> None:
    used = [Use("a", "box", 8, ((HOUR, 3 * HOUR),))]
    week = cost_of_host("box", BOX, used, (0.0, 4 * HOUR), (2 * HOUR, 10 * HOUR))
    assert week.whole.by_currency == {"EUR": 16.0}
    assert (week.since, week.until) == (2 * HOUR, 4 * HOUR)


def test_runs_of_an_earlier_box_of_the_name_count_as_what_they_used_and_the_time_since_is_not_idle() -> None:
    used = [Use("old", "box", 8, ((HOUR, 3 * HOUR),))]
    found = cost_of_host("box", BOX, used, (700 * HOUR, 701 * HOUR), (0.0, 701 * HOUR))
    assert (found.since, found.whole.by_currency, found.idle_s) == (HOUR, {"EUR": 24.0}, HOUR)
    unseen = cost_of_host("box", BOX, used, (None, 701 * HOUR), (0.0, 701 * HOUR))
    assert (unseen.whole.by_currency, unseen.idle_s) == ({"EUR": 16.0}, 0.0)


def test_a_cluster_is_not_rented_and_a_host_without_a_price_is_unknown() -> None:
    used = [Use("a", "c", 2, ((0.0, HOUR),))]
    cluster = cost_of_host("c", Tariff((Price(3.0),), is_box=False), used, (0.0, 9 * HOUR), (0.0, 9 * HOUR))
    assert (cluster.idle, cluster.whole.by_currency) == (None, {"USD": 3.0})
    unknown = cost_of_host("c", None, used, (0.0, 2 * HOUR), (0.0, 2 * HOUR))
    assert (unknown.whole.as_json(), unknown.idle_s) == (None, HOUR)
    never = cost_of_host("c", BOX, [], (None, 2 * HOUR), (0.0, 2 * HOUR))
    assert (never.since, never.idle_s) == (None, 0.0)


def test_the_forecast_adds_the_time_left_at_the_price_of_now() -> None:
    use = Use("a", "box", 8, ((0.0, HOUR),))
    found = forecast(BOX, use, HOUR / 2, HOUR)
    assert found is not None
    assert found.by_currency == {"EUR": 12.0}
    for eta in (None, math.nan, math.inf, -1.0, 1e300):
        assert forecast(BOX, use, eta, HOUR) is None
    assert forecast(None, use, 1.0, HOUR) is None


@pytest.mark.parametrize(
    ("started", "ended", "span"),
    [
        (1000.0, None, (1000.0, 9000.0)),
        (1000.0, 5000.0, (1000.0, 5000.0)),
        (5000.0, 1000.0, (5000.0, 5000.0)),
        (0.0 - 1e6, None, (900.0, 9000.0)),
        (2.5e11, None, (900.0, 9000.0)),
        (2.5e11, 2.5e11 + 50, (900.0, 950.0)),
        (-1e9, 5000.0, (900.0, 9000.0)),
        (1000.0, 2.5e11, (1000.0, 9000.0)),
        (9100.0, 9200.0, (9100.0, 9200.0)),
    ],
)
def test_a_host_whose_clock_is_years_off_costs_no_fortune(
    started: float, ended: float | None, span: tuple[float, float]
) -> None:
    assert ran(started, ended, 900.0, 9000.0) == span


@pytest.mark.parametrize(("spans", "seconds"), [([], 0), ([(0, 2), (1, 3)], 3), ([(0, 1), (2, 3)], 2), ([(3, 1)], 0)])
def test_spans_are_merged(spans: list[tuple[float, float]], seconds: float) -> None:
    assert lasted_s(spans) == seconds
    assert merged(merged(spans)) == merged(spans)
