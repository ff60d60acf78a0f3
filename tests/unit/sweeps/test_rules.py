"""When a sweep is stopped before its last cell, and how its cells are ranked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.config.sweep import StopRule
from armada.costs.amounts import Amounts
from armada.costs.price import Price
from armada.costs.report import cost_so_far
from armada.costs.tariff import Tariff
from armada.errors import PreflightRefused
from armada.store import adopted, runs, sweeps
from armada.store.database import Database
from armada.store.queries.uses import read_uses
from armada.store.runs import Run
from armada.store.sweeps import SweepRecord
from armada.sweeps.counts import count_states, newest_runs
from armada.sweeps.rules import refuse_unkeepable, settings_of, why_stop
from armada.sweeps.standing import CellStanding, others_waiting, ranked


def run_of(database: Database, cell: int, host: str = "a", **changes: Any) -> Run:
    run_id = f"grid-{host}-{cell:03}"
    spec = {"sweep": {"id": "grid", "cell": cell, "label": f"x={cell}", "values": {"env.X": cell}}}
    runs.insert(database, run_id=run_id, name="grid", host=host, task="command", experiment=None, spec=spec)
    return runs.find(database, run_id)._replace(**changes)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "armada.db")


def record(**sweep: Any) -> SweepRecord:
    return SweepRecord("grid", "grid", None, None, {"sweep": sweep}, "started", None, 1000.0)


def test_a_target_is_reached_by_the_best_cell_in_the_sense_of_the_goal(database: Database) -> None:
    cells = [CellStanding(run_of(database, number), "", {}, value) for number, value in ((1, 0.5), (2, 0.2), (3, None))]
    low = record(metric="loss", stop={"target": 0.3})
    assert why_stop(low, cells, None, 1001.0) == "grid-a-002 reached loss 0.2, and the target is 0.3"
    assert why_stop(low, [cells[0], cells[2]], None, 1001.0) is None
    assert why_stop(record(metric="acc", goal="max", stop={"target": 0.6}), cells, None, 1001.0) is None
    assert why_stop(record(metric="acc", goal="max", stop={"target": 0.5}), cells, None, 1001.0) is not None
    assert [cell.run.cell for cell in ranked(cells, "max")] == [1, 2]


def test_time_and_money_end_a_sweep(database: Database) -> None:
    cells = [CellStanding(run_of(database, 1, started_at=1000.0), "", {})]
    hours = record(stop={"hours": 2})
    assert why_stop(hours, cells, None, 1000.0 + 7199) is None
    assert why_stop(hours, cells, None, 1000.0 + 7200) == "its 2 h are over"
    cost = record(stop={"cost": 10.0})
    assert why_stop(cost, cells, Amounts({"USD": 4.0}), 1000.0 + 3600) is None
    assert why_stop(cost, cells, Amounts({"USD": 10.0}), 1000.0 + 9000) == "it has cost $10.00, and may cost $10.00"
    assert why_stop(cost, cells, Amounts({"USD": 9.0, "EUR": 9.0}), 1000.0) is None
    assert why_stop(cost, cells, None, 1e9) is None
    euros = record(stop={"cost": "10 EUR"})
    assert why_stop(euros, cells, Amounts({"USD": 90.0, "EUR": 9.0}), 1000.0) is None
    assert why_stop(euros, cells, Amounts({"EUR": 11.0}), 1000.0) == "it has cost 11.00 EUR, and may cost 10.00 EUR"


@pytest.mark.parametrize(
    ("cost", "prices", "said"),
    [
        ("10 USD", ["3 EUR"], "is in USD, and the price of a is in EUR"),
        ("10 EUR", ["3 EUR", "3 USD"], "is in EUR, and the price of b is in USD"),
        (10.0, ["3 EUR", "3 USD"], r"the prices are in EUR \(a\) and USD \(b\), which are not added"),
        (10.0, ["3 EUR", None], "no price of b is known"),
        ("10 EUR", [[{"price": "3 EUR"}, {"price": "4 USD", "since": "2000-01-01"}]], "the price of a is in USD"),
    ],
)
def test_a_limit_of_the_cost_that_could_never_be_reached_is_refused(cost: Any, prices: list[Any], said: str) -> None:
    with pytest.raises(PreflightRefused, match=said):
        refuse_unkeepable(StopRule(cost=cost), priced(prices), 1e9)


@pytest.mark.parametrize(("cost", "prices"), [("10 EUR", ["3 EUR"]), (10.0, ["3 EUR", "0 EUR"]), (None, [None])])
def test_a_limit_that_can_be_kept_is_not(cost: Any, prices: list[Any]) -> None:
    refuse_unkeepable(StopRule(cost=cost), priced(prices), 1e9)


def priced(prices: list[Any]) -> list[Host]:
    return [
        Host.model_validate({"name": name, "ssh": f"u@{name}", "price": price})
        for name, price in zip("ab", prices, strict=False)
    ]


def test_an_hour_that_cells_share_is_paid_once_and_each_host_has_its_price(database: Database) -> None:
    found = [
        run_of(database, 1, state="succeeded", created_at=0.0, started_at=0.0, ended_at=3600.0),
        run_of(database, 2, state="failed", created_at=0.0, started_at=1800.0, ended_at=3600.0),
        run_of(database, 3, host="b", created_at=0.0, started_at=0.0),
        run_of(database, 4, host="c"),
    ]
    uses = read_uses(database, found, 7200.0)
    tariffs = {name: Tariff((Price(amount),)) for name, amount in (("a", 2.0), ("b", 3.0), ("c", 9.0))}
    cost = cost_so_far(uses, tariffs)
    assert cost is not None
    assert math.isclose(cost.by_currency["USD"], 8.0)
    assert cost_so_far(uses, {}) is None
    some = cost_so_far(uses, {"a": tariffs["a"]})
    assert some is not None
    assert (some.by_currency, some.unknown_s) == ({"USD": 2.0}, 7200.0)


def test_settings_of_a_newer_armada_stop_nothing() -> None:
    assert settings_of(record(stop={"moon": 1})).stop.target is None
    assert settings_of(SweepRecord("g", "g", None, None, {}, "started", None, 0.0)).metric is None


def test_states_are_counted_and_of_a_moved_cell_only_the_newest_run(database: Database) -> None:
    cells = [run_of(database, 1, state="failed"), run_of(database, 1, host="b", state="running"), run_of(database, 2)]
    assert count_states(newest_runs(cells)) == "1 running · 1 being handed over"


def test_a_sweep_is_found_by_its_name_or_its_beginning_even_if_only_its_runs_are_left(database: Database) -> None:
    run_of(database, 1)
    found = sweeps.find(database, "gr")
    assert (found.name, found.settings, found.state) == ("grid", {}, "started")
    sweeps.insert(database, name="grip", title="Grip", experiment="/e.yaml", launch_key="k", settings={"a": 1})
    assert sweeps.find(database, "grip").settings == {"a": 1}
    with pytest.raises(Exception, match="matches several sweeps: grid, grip"):
        sweeps.find(database, "gri")
    assert [each.name for each in sweeps.launched_as(database, "k", since=0.0)] == ["grip"]


@pytest.mark.parametrize(
    "told",
    [5, {}, {"id": "../x", "cell": 1}, {"id": "x", "cell": 0}, {"id": "x", "cell": True}, {"id": "x", "cell": 2**40}],
)
def test_a_plan_from_a_host_cannot_put_nonsense_into_the_store(database: Database, told: Any) -> None:
    spec = {"sweep": told}
    adopted.adopt(database, run_id="r-1", name="r", host="a", task="command", spec=spec, created_at=0.0)
    assert runs.find(database, "r-1").sweep is None


def test_another_sweep_on_the_host_is_said_also_without_gpus(database: Database) -> None:
    run_of(database, 1)
    (words,) = others_waiting(database, "a", "other", gpus=False)
    assert words.startswith("grid is not done on a, 1 cell left: each counts its own cells")
    (words,) = others_waiting(database, "a", "other", gpus=True)
    assert "a free GPU goes to" in words
    assert others_waiting(database, "b", "other", gpus=False) == []
    assert others_waiting(database, "a", "grid", gpus=False) == []
