"""What the first line says of costs: at once when a run ends, also on a machine whose clock was set back."""

from __future__ import annotations

import time

import pytest
from textual.pilot import Pilot

from armada.costs.amounts import total
from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.store import hosts, runs
from armada.tui.money import EVERY_S, MoneyReader, reckon
from armada.tui.reading import RunReader
from armada.tui.snapshot import Money
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, shows


def test_the_costs_follow_a_run_that_ends_after_the_clock_went_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": 10})
    world.run("demo-aaaaaa")
    set_clock = time.time

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "burning $10.00/h  ")
        monkeypatch.setattr(time, "time", lambda: set_clock() - 3600)
        runs.record(world.database, "demo-aaaaaa", Verdict("succeeded", attempt=1, seq=2))
        await shows(pilot, "(idle $10.00)")

    drive(world.board(), use)


def test_the_costs_are_summed_up_again_by_a_clock_that_nobody_sets(world: World) -> None:
    tariffs = {"box": Tariff((Price(10.0),))}
    world.run("demo-aaaaaa", started_at=1000.0)
    reader = RunReader(world.database)
    rows = reader.read(tariffs)
    at = 0.0
    money = MoneyReader(lambda: at)

    def read(now: float, prices: dict[str, Tariff] = tariffs) -> Money | None:
        return money.read(rows, prices, now, (), reader.counts)

    first = read(4600.0)
    assert first is not None
    assert read(9000.0) is first
    at = EVERY_S + 1
    again = read(4500.0)
    assert again is not None
    assert again is not first
    assert read(4500.0, {}) is None


def test_what_nobody_pays_for_costs_nothing_and_is_not_unknown() -> None:
    priced, per_gpu = Tariff((Price(2.0, "EUR"),)), Tariff((Price(1.0, per="gpu"),))

    def burning(tariffs: dict[str, Tariff], *off: str) -> str:
        found = reckon((), tariffs, 1000.0, off)
        assert found is not None
        return total([found.per_hour, found.idle_per_hour]).text()

    assert burning({"box": priced}) == "2.00 EUR"
    assert burning({"box": priced}, "box") == "0.00 EUR", "it was given back"
    assert burning({"cluster": priced._replace(is_box=False)}) == "0.00 EUR", "it runs nothing"
    assert burning({"box": priced, "odd": per_gpu}, "box") == "", "how many GPUs it has is not known"


def test_the_first_line_says_that_nothing_costs_anything(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price": "2 EUR"})
    hosts.mark_released(world.database, "box", time.time())
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "burning 0.00 EUR/h")

    drive(world.board(), use)
