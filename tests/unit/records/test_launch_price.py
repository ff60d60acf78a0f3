"""What runs cost whose host has no price in your files any more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.paths import HomePaths
from armada.records import launch_price
from armada.records.launch_price import Prices
from armada.records.launch_record import LaunchRecord, read_price, write_record

KNOWN = Tariff((Price(8.0, "EUR"),), None)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose record was read."""
    asked: list[str] = []

    def note(home: HomePaths, run_id: str) -> LaunchRecord | None:
        asked.append(run_id)
        return read_price(home, run_id)

    monkeypatch.setattr(launch_price, "read_price", note)
    return asked


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    found = HomePaths(tmp_path / "config", tmp_path / "state")
    write_record(found, "one", LaunchRecord("1.0", prices=("2 USD",)))
    write_record(found, "two", LaunchRecord("1.0", prices=("3 USD",)))
    write_record(found, "unpriced", LaunchRecord("1.0"))
    return found


def run(run_id: str, host: str) -> SimpleNamespace:
    return SimpleNamespace(run_id=run_id, host=host)


def test_one_launch_is_read_for_each_host_that_was_removed(home: HomePaths, read: list[str]) -> None:
    prices = Prices(home, {"box": KNOWN}, {"box", "free"})
    every = [
        run("a", "box"),
        run("one", "free"),
        run("none", "gone"),
        run("one", "gone"),
        run("two", "gone"),
        run("unpriced", "past"),
        run("two", "past"),
    ]
    told = Tariff((Price(2.0, "USD"),), None)
    assert [prices.of(each) for each in every] == [KNOWN, None, None, told, told, None, None]
    assert read == ["none", "one", "unpriced"]
    assert prices.by_host(every) == {"box": KNOWN, "gone": told}


def test_while_a_file_is_wrong_no_host_counts_as_removed(home: HomePaths, read: list[str]) -> None:
    assert Prices(home, {}, None).of(run("one", "gone")) is None
    assert read == []
