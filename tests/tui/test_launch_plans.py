"""Launch: only a plan for the host in the field can be launched."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.tui.asking import Asking
from armada.tui.operations import Answer, Ended
from armada.tui.planned import HostPlan
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.widgets.host_plans import queue_forms
from armada.tui.widgets.run_table import RunTable
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


@pytest.fixture
def ends(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[int], None]]:
    """What ends each command that the dashboard starts, with an exit code; none of them runs."""
    found: list[Callable[[int], None]] = []

    def start(home: Any, title: str, words: Any, tell: Callable[[Ended], None], **_: Any) -> Path:
        del home, words
        log = world.home.state / "some.log"
        found.append(lambda code: tell(Ended(title, code, "", log)))
        return log

    monkeypatch.setattr("armada.tui.operations.start", start)
    return found


async def launched(pilot: Pilot[None]) -> None:
    """Launch the experiment with a change on the host `mine`, and see the list of runs."""
    await planned_for_all(pilot, "mine")
    launch(pilot).fields["set"].value = "name=other"
    await until(pilot, lambda: launch(pilot).ready is None)
    await until(pilot, lambda: launch(pilot).ready == launch(pilot).words)
    await pilot.press("ctrl+l")


@pytest.mark.parametrize("code", [0, 1])
def test_a_launch_that_fails_keeps_its_form_and_lets_the_cursor_stay(
    world: World, file: Path, ends: list[Callable[[int], None]], fastest: list[str], code: int
) -> None:
    del file, fastest
    world.run("old-aaaaaa", host="mine")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        await launched(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        ends[0](code)
        await until(pilot, lambda: ("done" if code == 0 else "ended with 1") in said(pilot))
        world.run("new-bbbbbb", host="mine")
        await shows(pilot, "new-bbbbbb")
        table = pilot.app.screen.query_one(RunTable)
        await until(pilot, lambda: table.cursor == ("new-bbbbbb" if code == 0 else "old-aaaaaa"))
        await pilot.press("5")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
        assert launch(pilot).fields["experiment"].value == ("" if code == 0 else "exp.yaml")
        assert launch(pilot).fields["set"].value == ("" if code == 0 else "name=other")

    drive(world.board(), use)


def test_a_launch_that_is_not_started_leaves_launch_as_it_is(
    world: World, file: Path, fastest: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del file, fastest
    monkeypatch.setattr("armada.tui.operations.start", lambda *_, **__: None)
    world.run("old-aaaaaa", host="mine")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        await launched(pilot)
        await until(pilot, lambda: "launch exp.yaml on mine …" in said(pilot))
        assert launch(pilot).fields["set"].value == "name=other"
        await pilot.press("1")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        world.run("of-another-bbbbbb", host="mine")
        await shows(pilot, "of-another-bbbbbb")
        assert pilot.app.screen.query_one(RunTable).cursor == "old-aaaaaa"

    drive(world.board(), use)


def test_what_was_typed_while_a_launch_ran_is_kept_when_it_ends(
    world: World, file: Path, ends: list[Callable[[int], None]], fastest: list[str]
) -> None:
    del file, fastest

    async def use(pilot: Pilot[None]) -> None:
        await launched(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await pilot.press("5")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
        launch(pilot).fields["set"].value = "name=third"
        pilot.app.pop_screen()
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        ends[0](0)
        await until(pilot, lambda: "done" in said(pilot))
        await pilot.press("5")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
        assert launch(pilot).fields["set"].value == "name=third"

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("told", "wait_s", "shorter"),
    [
        ("8 of 8 GPUs free", 0.0, ["8 of 8 free", "now"]),
        ("1 of 1 GPU free, 12 runs waiting", None, ["12 wait"]),
        ("6 of 8 GPUs free, the others in 3 h 05 m", 11_100.0, ["in 3 h 05 m", "in 3 h"]),
        ("6 of 8 GPUs free; who uses the others does not say for how long", None, ["6 of 8 free", "6 free"]),
        ("slurm: starts now", 12.0, ["now"]),
        ("slurm gives no time", None, ["no time"]),
        ("CPUs alone", 0.0, ["now"]),
        ("", None, []),
    ],
)
def test_a_queue_has_shorter_forms_for_a_narrow_column(told: str, wait_s: float | None, shorter: list[str]) -> None:
    assert queue_forms(HostPlan("box", "possible", can_launch=True, queue=told, wait_s=wait_s)) == [told, *shorter]


@pytest.mark.parametrize(
    ("width", "titles", "words"),
    [
        (80, "HOST LAUNCH MEMORY TIME COST QUEUE", "✓ possible 61 GiB 11 h 06 m $137.00 3 wait"),
        (118, "HOST LAUNCH TIME COST QUEUE", "✓ possible 11 h 06 m $137.00 3 wait"),
        (240, "HOST LAUNCH MEMORY TIME COST QUEUE DISK GPUS", "$137.00 3 wait needs 30.0 GB"),
    ],
)
def test_of_what_is_known_of_a_host_its_queue_is_left_out_after_its_memory(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch, width: int, titles: str, words: str
) -> None:
    del file
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": 12})
    alike = {
        name: {"low": value, "middle": value, "high": value} for name, value in (("seconds", 4e4), ("cost", 137.0))
    }
    queue = {"wait": "8 of 8 GPUs free, 3 runs waiting", "wait_s": None, "price_per_hour": 12, "currency": "USD"}
    estimate = {**alike, **queue, "disk_needed_bytes": 30e9, "disk_free_bytes": 412e9}
    memory = {"total_bytes": 61 * 2**30}
    plan = {"name": "box", "outcome": "possible", "gpus": 8, "memory": memory, "checks": [], "estimate": estimate}
    answer = Answer(0, json.dumps({"hosts": [plan]}), "")
    monkeypatch.setattr(Asking, "ask", lambda asking, asked: asking._tell(tuple(asked), answer))  # noqa: SLF001

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        launch(pilot).show_part("hosts")
        await until(pilot, lambda: "COST QUEUE" in table(pilot))  # before any host was asked, too
        await pilot.press("p")
        await until(pilot, lambda: "possible" in table(pilot))
        assert titles in table(pilot)
        assert words in table(pilot)

    def table(pilot: Pilot[None]) -> str:
        """The words of the hosts."""
        right = (line.rpartition("││")[2] for line in screen(pilot).splitlines())
        return " ".join(word for line in right for word in line.split() if word != "│")

    drive(world.board(), use, (width, 24))
