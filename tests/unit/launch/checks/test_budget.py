"""What a budget pays for, and when it ends before anything is saved."""

from __future__ import annotations

from typing import Any

import pytest

from armada.config.budget import Budget
from armada.config.hosts import Host
from armada.config.tasks.command import Command
from armada.launch.checks.budget import Unpayable, budget_of


def host(**more: Any) -> Host:
    return Host.model_validate({"name": "box", "ssh": "me@box", **more})


def experiment(budget: Any) -> Command:
    return Command.model_validate({"name": "q", "task": "command", "command": ["true"], "budget": budget}, strict=False)


@pytest.mark.parametrize(
    ("budget", "price", "gpus", "seconds"),
    [
        ({"hours": 5}, None, 1, 18_000.0),
        ({"cost": "20 EUR"}, "10 EUR", 8, 7200.0),
        ({"cost": "20 EUR"}, "10 EUR", 2, 28_800.0),
        ({"cost": 20}, "10 EUR", 8, 7200.0),
        ({"cost": "20 EUR", "hours": 1}, "10 EUR", 8, 3600.0),
        ({"cost": "20 EUR"}, "2.50 EUR per gpu", 2, 14_400.0),
        ({"cost": "20 EUR"}, "0 EUR", 2, None),
        (20.0, "10 EUR", 2, None),
        (None, "10 EUR", 2, None),
    ],
)
def test_a_budget_is_the_time_that_it_pays_for(
    budget: Any, price: str | None, gpus: int, seconds: float | None
) -> None:
    found = budget_of(experiment(budget), host(price=price), gpus, 8)
    assert not isinstance(found, Unpayable)
    assert (found.seconds if found is not None else None) == (pytest.approx(seconds) if seconds is not None else None)


def test_a_budget_that_cannot_be_kept_is_refused_in_a_sentence() -> None:
    unknown = budget_of(experiment({"cost": "20 EUR"}), host(), 1, 8)
    assert isinstance(unknown, Unpayable)
    assert "no price of box is known" in unknown.why
    per_gpu = budget_of(experiment({"cost": "20 EUR"}), host(price="2 EUR per gpu"), 0, 0)
    assert isinstance(per_gpu, Unpayable)
    assert "the price of box is per GPU, and this run holds none" in per_gpu.why
    other = budget_of(experiment({"cost": "20 EUR"}), host(price_per_hour=2.0), 1, 8)
    assert isinstance(other, Unpayable)
    assert other.why == "`budget.cost` is in EUR, and the price of box is in USD: they are not compared"


@pytest.mark.parametrize(
    "budget", [{}, {"cost": "20 euros"}, {"cost": "0 EUR"}, {"cost": -1}, {"hours": 0}, {"hours": 1e9}, {"money": 3}]
)
def test_what_is_no_budget_is_refused(budget: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|should be|not permitted|is not"):
        Budget.model_validate(budget)


def test_an_amount_alone_is_asked_what_it_means() -> None:
    with pytest.raises(ValueError, match="'5 USD' does not say what it is"):
        experiment("5 USD")
