"""The ways to the pictures in docs/: each leads from the first screen to a screen or a window of the dashboard."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from tests.tools import story, story_answers
from tests.waiting import pauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.pilot import Pilot

    from armada.tui.app import Dashboard
    from armada.tui.operations import Answer
    from armada.tui.screens.launch import LaunchScreen

Go = Callable[["Pilot[None]", "Dashboard"], Awaitable[None]]


def keys(*pressed: str) -> Go:
    """Press keys."""

    async def go(pilot: Pilot[None], _: Dashboard) -> None:
        await pilot.press(*pressed)

    return go


async def _answered(pilot: Pilot[None], board: Dashboard) -> None:
    """Wait until all that the screen asked for has come: a crosshair needs a curve to stand on."""
    from armada.tui.screens.view import View

    for pause_s in pauses(lambda: f"what {board.screen} asks for"):
        top = board.screen
        if not isinstance(top, View) or top.snapshot.answers == (top.wants(), top.asks_as):
            return
        await pilot.pause(pause_s)


def run(run_id: str, page: str = "overview", *pressed: str) -> Go:
    """Open a page of a run, and press keys there."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        board.open_run(run_id, page)
        await pilot.pause()
        await _answered(pilot, board)
        await pilot.press(*pressed)

    return go


def charts(run_id: str, panels: int, *pressed: str) -> Go:
    """Open so many charts of a run, and press keys there."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        board.charts["run"].panels = panels
        await run(run_id, "charts", *pressed)(pilot, board)

    return go


def on(run_id: str, *pressed: str) -> Go:
    """Put the cursor on a run, and press keys there."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        from armada.tui.screens.runs import RunsScreen

        assert isinstance(board.screen, RunsScreen)
        board.screen.table.place(run_id)
        await pilot.pause()
        await pilot.press(*pressed)

    return go


def compare(page: str, *run_ids: str) -> Go:
    """Compare runs on a page; without any, the cells of the sweep and two others."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        from armada.tui.screens.runs import RunsScreen

        first = board.screen
        assert isinstance(first, RunsScreen)
        cells = {row.id for row in board.snapshot.runs if row.run.sweep and row.run.step}
        first.table.marked = set(run_ids) or {story.LONG, story.HUNG, *cells}
        await pilot.press("c", page)

    return go


def compare_wall(panels: int) -> Go:
    """Compare so many metrics of the cells of the sweep and two other runs."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        board.charts["compare"].panels = panels
        await compare("c")(pilot, board)

    return go


async def verdict(pilot: Pilot[None], board: Dashboard) -> None:
    """Ask whether a host can be destroyed."""
    from armada.tui.operations import Answer
    from armada.tui.screens.verdict import show_verdict

    await pilot.press("3")
    show_verdict(board, "a100-2", Answer(7, json.dumps(story_answers.VERDICT), ""))


async def filled(
    pilot: Pilot[None], board: Dashboard, experiment: str = "arc.yaml", changes: str = "lora.r=64 train.seed=7"
) -> LaunchScreen:
    """Fill Launch, until its form is read and a plan is asked for."""
    from armada.tui.screens.launch import LaunchScreen

    await pilot.press("5")
    screen = board.screen
    assert isinstance(screen, LaunchScreen)
    for name, value in (("experiment", experiment), ("host", "a100-1"), ("set", changes)):
        screen.fields[name].value = value
    while screen.form.form is None or screen.asked is None:
        await pilot.pause(0.02)
    return screen


async def launch(pilot: Pilot[None], board: Dashboard) -> None:
    """Fill Launch, and give it the plan."""
    give_plan(await filled(pilot, board))
    await pilot.press("escape", "home")


def give_plan(screen: LaunchScreen) -> None:
    """Give Launch the plan that it has asked for."""
    from armada.tui.operations import Answer
    from armada.tui.screens.launch import Planned

    assert screen.asked is not None
    screen.on_planned(Planned(screen.asked, Answer(0, json.dumps(story_answers.PLANS), "")))


def form(key: str, *pressed: str, changes: str = "lora.r=64 train.seed=7") -> Go:
    """Fill Launch, put the cursor on a setting, and press keys there."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        screen = await filled(pilot, board, changes=changes)
        give_plan(screen)
        screen.show_part("form")
        screen.form.table.focus()
        await pilot.pause()
        screen.form.table.place(key)
        await pilot.press(*pressed)

    return go


async def faulty(pilot: Pilot[None], board: Dashboard) -> None:
    """Choose an experiment whose file is wrong, for which there is no plan."""
    from armada.tui.screens.launch import Planned

    screen = await filled(pilot, board, "arc-4b.yaml", "")
    asked = screen.asked
    assert asked is not None
    board.read(asked, lambda answer: screen.on_planned(Planned(asked, answer)))  # it asks no host
    while screen.asked is not None:
        await pilot.pause(0.02)
    screen.show_part("form")
    screen.form.table.focus()


async def data(_: Pilot[None], board: Dashboard) -> None:
    """Show the first rows of an experiment's data."""
    from armada.tui.screens.output import OutputWindow

    said = board.home.state / "shown.log"
    said.write_text(story_answers.data_shown(), encoding="utf-8")
    board.push_screen(OutputWindow(["data", "show", "--host=a100-1", "--", "arc.yaml"], said, lambda: 0))


async def grid(pilot: Pilot[None], board: Dashboard) -> None:
    """Show the cells of a sweep before it is launched."""
    from armada.tui.screens.launch import LaunchScreen

    await pilot.press("5")
    screen = board.screen
    assert isinstance(screen, LaunchScreen)
    for name, value in (("host", ""), ("set", ""), ("experiment", "lr-rank.yaml")):
        screen.fields[name].value = value
    while screen.form.form is None or screen.form.form.cells is None:
        await pilot.pause(0.02)
    screen.action_preview()


async def card(pilot: Pilot[None], board: Dashboard) -> None:
    """Unfold the card of a host."""
    from armada.tui.screens.hosts import HostsScreen

    await pilot.press("3")
    screen = board.screen
    assert isinstance(screen, HostsScreen)
    await pilot.pause()
    screen.table.place("a100-1")
    await pilot.press("enter")


async def views(pilot: Pilot[None], board: Dashboard) -> None:
    """Choose among saved views."""
    from armada.tui.views import SavedView, save

    save(board.home, "paper", SavedView("tag:paper", ("name", "state", "loss", "cost"), "loss"))
    save(board.home, "best of the sweep", SavedView("lr-rank", ("name", "lora.r", "train.learning_rate"), "loss"))
    save(board.home, "money", SavedView("age<7d", ("name", "host", "cost"), "cost", reverse=True, group="host"))
    await pilot.press("v")


async def choice(pilot: Pilot[None], board: Dashboard) -> None:
    """Choose the host of a launch."""
    from armada.tui.screens.launch import LaunchScreen

    await pilot.press("5")
    screen = board.screen
    assert isinstance(screen, LaunchScreen)
    screen.fields["host"].focus()
    await pilot.pause()
    await pilot.press("ctrl+o")


async def tour(_: Pilot[None], board: Dashboard) -> None:
    """Show the tour, as the first start does."""
    board.show_tour()


async def log_search(pilot: Pilot[None], board: Dashboard) -> None:
    """Follow the log of a cell of the sweep, and search in it."""
    from armada.tui.screens.run import RunScreen

    log = board.home.run(story_answers.CELL) / "outputs" / "output.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(story_answers.ranks_log(), encoding="utf-8")
    os.utime(log, (story.NOW, story.NOW))
    await run(story_answers.CELL, "log", "slash", *"was cut", "enter")(pilot, board)
    screen = board.screen
    assert isinstance(screen, RunScreen)
    while " of " not in screen.log_view.place:
        await pilot.pause(0.02)
    await pilot.press("N")


def answer(board: Dashboard, said: Mapping[str, object]) -> None:
    """Answer, in place of hosts, the commands that only read; by their last words."""
    from armada.tui.operations import Answer

    def read(words: Sequence[str], then: Callable[[Answer], None]) -> Callable[[], None]:
        board.call_later(then, Answer(0, json.dumps(said[words[-1]]), ""))
        return lambda: None

    board.read = read  # type: ignore[method-assign]


async def removal(pilot: Pilot[None], board: Dashboard) -> None:
    """Ask to remove runs: one whose host answers, one with results at home, one whose host is silent, one that runs."""
    from armada.tui.screens.runs import RunsScreen

    said = story_answers.removals(board.home)
    answer(board, said)
    screen = board.screen
    assert isinstance(screen, RunsScreen)
    screen.table.marked = set(said)
    screen.table.refresh()
    await pilot.press("d")


async def reap(pilot: Pilot[None], board: Dashboard) -> None:
    """Ask to end what ended runs left on a host."""
    from armada.tui.screens.hosts import HostsScreen

    answer(board, {"a100-1": story_answers.LEFT})
    await pilot.press("3")
    screen = board.screen
    assert isinstance(screen, HostsScreen)
    await pilot.pause()
    screen.table.place("a100-1")
    await pilot.press("x")


async def host_key(pilot: Pilot[None], board: Dashboard) -> None:
    """Add a host, and see the key that it shows."""
    address = "ssh -p 50318 root@203.0.113.21"
    answer(board, {address: story_answers.NEW_HOST})
    await pilot.press("3", "a", *"a100-3", "tab", *address, "enter")
