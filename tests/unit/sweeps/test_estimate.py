"""Hours and money of a sweep, said before anything is asked."""

from __future__ import annotations

import pytest

from armada.config.hosts import Host
from armada.config.prices import PriceSince
from armada.costs.amounts import Amounts
from armada.sweeps.estimate import estimate, question, room_on


def host(name: str, price: float | None) -> Host:
    return Host.model_validate({"name": name, "ssh": f"u@{name}", "price_per_hour": price})


def test_rounds_of_cells_take_their_time_limit_and_cost_all_hosts() -> None:
    found = estimate(10, [host("a", 2.0), host("b", 3.0), host("c", None)], at_once=4, time_limit_s=7200)
    assert (found.hours, found.cost) == (6.0, Amounts({"USD": 30.0}))
    assert question("grid", found) == (
        "grid has 10 cells. With its time limit of 2 h a cell and 4 run at once, it takes 6 h and costs $30.00."
    )


def test_without_a_time_limit_and_prices_it_says_what_it_supposes() -> None:
    assert estimate(10**6, [host("a", None)], 1, None).words() == (
        "If a cell takes 1 h and 1 run at once, it takes 1,000,000 h; no price of the hosts is known"
    )


def test_each_cell_on_a_batch_system_pays_its_node_or_its_gpus() -> None:
    node = Host.model_validate({"name": "c", "ssh": "u@c", "scheduler": "slurm", "price": "2 EUR"})
    assert estimate(100, [node], at_once=50, time_limit_s=3600).cost == Amounts({"EUR": 200.0})
    gpu = node.model_copy(update={"price": (PriceSince(price="3 EUR per gpu"),)})
    assert estimate(100, [gpu], at_once=50, time_limit_s=3600, held=4).cost == Amounts({"EUR": 1200.0})
    assert estimate(100, [gpu], at_once=50, time_limit_s=3600, held=None).cost is None


@pytest.mark.parametrize(
    ("gpus", "cores", "held", "processes", "room"),
    [
        (8, 64, None, 1, 1),  # a training takes all
        (8, 64, 4, 4, 2),
        (8, 64, 16, 16, 1),
        (8, 64, 0, 2, 32),
        (0, 64, None, 8, 8),
        (0, 0, 0, 0, 1),
    ],
)
def test_cells_have_the_room_that_their_gpus_leave(
    gpus: int, cores: int, held: int | None, processes: int, room: int
) -> None:
    assert room_on(gpus, cores, held, processes) == room
