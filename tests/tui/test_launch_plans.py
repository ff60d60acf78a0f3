"""Launch: only a plan for the host in the field can be launched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui.asking import Asking
from armada.tui.operations import Answer
from tests.tui.conftest import World, drive, said, screen, shows, until
from tests.tui.test_launch_screen import file, launch, opened, started

__all__ = ["file", "started"]

HOSTS = ("costly", "mine")


@pytest.fixture
def fastest(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two hosts that can run everything, and which of them ends first; none while the list is empty."""
    world.hosts(costly={"ssh": "root@192.0.2.1", "price_per_hour": 30}, mine={"ssh": "root@192.0.2.2"})
    best: list[str] = []

    def ask(asking: Asking, words: Sequence[str]) -> None:
        named = [word.removeprefix("--host=") for word in words if word.startswith("--host=")]
        if set(named) <= set(HOSTS):
            plans = [
                {"name": name, "outcome": "possible", "checks": [], "estimate": {}, "command": ["sh"]}
                for name in named or HOSTS
            ]
            answer = Answer(0, json.dumps({"hosts": plans, "fastest": next(iter(best), None)}), "")
        else:
            answer = Answer(4, "", f"no host is called {named[0]}")
        asking._tell(tuple(words), answer)  # noqa: SLF001  # a process would tell it

    monkeypatch.setattr(Asking, "ask", ask)
    return best


async def planned_for_all(pilot: Pilot[None], host: str) -> None:
    """Type a host, and let all hosts be planned for."""
    await opened(pilot)
    launch(pilot).fields["host"].value = host
    await until(pilot, lambda: launch(pilot).plans.error or launch(pilot).plans.hosts)
    await pilot.press("p")
    await until(pilot, lambda: launch(pilot).plans.hosts)


@pytest.mark.parametrize(
    ("typed", "why"), [("min", "no plan names the host min"), ("auto", "auto cannot tell which host ends first")]
)
def test_a_host_without_a_plan_is_not_replaced_by_the_first_one(
    world: World, file: Path, started: list[list[str]], fastest: list[str], typed: str, why: str
) -> None:
    del file, fastest

    async def use(pilot: Pilot[None]) -> None:
        await planned_for_all(pilot, typed)
        await shows(pilot, why)
        assert "^l launches this plan" not in screen(pilot)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "there is no plan for this yet" in said(pilot))
        assert started == []

    drive(world.board(), use)


def test_auto_launches_on_the_host_whose_plan_is_shown(
    world: World, file: Path, started: list[list[str]], fastest: list[str]
) -> None:
    del file
    fastest.append("mine")

    async def use(pilot: Pilot[None]) -> None:
        await planned_for_all(pilot, "auto")
        await shows(pilot, "^l launches this plan", "Checks on mine")
        await pilot.press("ctrl+l")
        await until(pilot, lambda: started)
        assert started == [["launch", "--host=mine", "--", "exp.yaml"]]

    drive(world.board(), use)
