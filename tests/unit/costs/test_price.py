"""Prices as people write them."""

from __future__ import annotations

import pytest

from armada.costs.price import Price, money, parse_money, parse_price


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("12.40", Price(12.4)),
        ("12 EUR", Price(12.0, "EUR")),
        ("$2.50", Price(2.5)),
        ("2.5€", Price(2.5, "EUR")),
        ("2.50 EUR per gpu", Price(2.5, "EUR", "gpu")),
        ("2.50 EUR/GPU/h", Price(2.5, "EUR", "gpu")),
        ("12 CHF per hour", Price(12.0, "CHF")),
        (" 3 USD / box ", Price(3.0)),
    ],
)
def test_a_price_is_read_as_people_write_it(text: str, price: Price) -> None:
    assert parse_price(text) == price


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EUR",
        "-1",
        "1,5 EUR",
        "nan",
        "inf",
        "1e3",
        "12 euro",
        "12 EUR per moon",
        "$12 EUR",
        "9999999999 EUR",
        "1 EUR\n2 EUR",
        "1 EUR/gpu/h/x",
        "٣ EUR",
    ],
)
def test_what_is_no_price_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a price such as `12.40 EUR`"):
        parse_price(text)


def test_a_price_is_shown_with_its_currency_and_what_it_is_for() -> None:
    assert Price(14.4).text == "$14.40/h"
    assert Price(2.5, "EUR", "gpu").text == "2.50 EUR/GPU/h"
    assert parse_price(Price(0.1, "EUR", "gpu").written) == Price(0.1, "EUR", "gpu")
    assert (money(1234.5), money(3, "EUR")) == ("$1,234", "3.00 EUR")
    assert (money(0.43, rough=True), money(12.4, rough=True)) == ("$0.43", "$12")
    assert parse_money("20 EUR") == (20.0, "EUR")
