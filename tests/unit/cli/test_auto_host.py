"""The options of `launch --host auto`: what is a time, what is money, and what `--by` means around midnight."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from armada.cli.auto_host import add_choice, wish_of
from armada.errors import UsageError
from armada.launch.comparison.choice import Wish

if TYPE_CHECKING:
    from armada.launch.comparison.choice import Rule

NOON = dt.datetime(2026, 11, 23, 12, 0)  # noqa: DTZ001 - local time is meant


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_choice(parser)
    return parser.parse_args(words)


def wish(*words: str, now: dt.datetime = NOON) -> Wish | None:
    return wish_of(options(*words), now)


def test_nothing_said_is_no_wish() -> None:
    assert wish() is None


@pytest.mark.parametrize(
    ("words", "rule", "limit"),
    [
        (["--fastest"], "fastest", None),
        (["--cheapest"], "cheapest", None),
        (["--max-cost", "20"], "max-cost", 20.0),
        (["--max-cost", "$7.50"], "max-cost", 7.5),
        (["--max-cost", "20 EUR"], "max-cost", 20.0),
        (["--by", "13:30"], "by", 5400.0),
        (["--by", "08:00"], "by", 20 * 3600.0),
        (["--by", "8:00"], "by", 20 * 3600.0),
        (["--by", "12:00"], "by", 24 * 3600.0),
    ],
)
def test_each_wish_is_read(words: list[str], rule: Rule, limit: float | None) -> None:
    found = wish(*words)
    assert found is not None
    assert found.rule == rule
    assert limit is None or found.limit == limit


@pytest.mark.parametrize("time", ["8am", "25:00", "08:60", "", "8", "08:00:00", "-1:00", "٠٨:٠٠"])
def test_what_is_no_time_is_said(time: str) -> None:
    with pytest.raises(UsageError, match="--by takes a time of day such as 08:00"):
        wish(f"--by={time}")


@pytest.mark.parametrize("money", ["", "-5", "nan", "inf", "1e9", "20 EURO", "20 EUR/h", "٢٠", "1.234", "9" * 12])
def test_what_is_no_money_is_said(money: str) -> None:
    with pytest.raises(UsageError, match="--max-cost takes an amount such as 20"):
        wish(f"--max-cost={money}")


def test_two_wishes_at_once_are_refused() -> None:
    with pytest.raises(argparse.ArgumentError, match="not allowed with"):
        options("--fastest", "--cheapest")


def test_the_night_in_which_clocks_change_is_an_hour_shorter(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    request.addfinalizer(time.tzset)
    request.addfinalizer(monkeypatch.undo)
    found = wish("--by", "08:00", now=dt.datetime(2026, 3, 28, 20, 0))  # noqa: DTZ001 - local time is meant
    assert found is not None
    assert found.limit == 11 * 3600
