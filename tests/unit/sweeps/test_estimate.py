"""Hours and money of a sweep, said before anything is asked."""

from __future__ import annotations

from armada.config.hosts import Host
from armada.costs.amounts import Amounts
from armada.sweeps.estimate import estimate, question


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
        "If a cell takes 1 h and 1 run at once, it takes 1,000,000 h; the hosts have no price_per_hour"
    )
