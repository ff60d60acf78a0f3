"""The scenes of the pictures in docs/: screens and windows of the dashboard, and the keys that lead there."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.tui.chart_choices import WALL
from tests.tools import story, story_answers

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from armada.tui.app import Dashboard

SIZES = ((80, 24), (120, 36), (160, 48), (250, 70))
LIGHT = ((80, 24), (160, 48))
"""The sizes that are there in light, too."""
PLAIN = ((80, 24), (120, 36))
"""The sizes of what a terminal with settings of its own shows."""

Go = Callable[["Pilot[None]", "Dashboard"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen, or a window over it.

    Attributes:
        name: Of its files.
        title: Its heading on the page.
        says: A sentence for the page.
        go: Goes there from the first screen.
        words: Stand there when it can be pictured.
        is_window: It is a window: what is under it keeps its size, so it is opened anew for each.
        is_new: In a home where nothing was done yet.
        env: Settings of the terminal, in the environment.
    """

    name: str
    title: str
    says: str
    go: Go
    words: tuple[str, ...]
    is_window: bool = False
    is_new: bool = False
    env: tuple[tuple[str, str], ...] = ()

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """The sizes of the terminal at which it is pictured dark."""
        return PLAIN if self.env else SIZES

    @property
    def light(self) -> tuple[tuple[int, int], ...]:
        """Those at which it is pictured in light."""
        return () if self.env else LIGHT

    @property
    def files(self) -> list[str]:
        """The names of its pictures."""
        dark = [self.file(size) for size in self.sizes]
        return dark + [self.file(size, light=True) for size in self.light]

    def file(self, size: tuple[int, int], *, light: bool = False) -> str:
        """Return the name of a picture."""
        return f"{self.name}-{size[0]}x{size[1]}{'-light' if light else ''}.svg"


def keys(*pressed: str) -> Go:
    """Press keys."""

    async def go(pilot: Pilot[None], _: Dashboard) -> None:
        await pilot.press(*pressed)

    return go


def run(run_id: str, page: str = "overview", *pressed: str) -> Go:
    """Open a page of a run, and press keys there."""

    async def go(pilot: Pilot[None], board: Dashboard) -> None:
        board.open_run(run_id, page)
        await pilot.pause()
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


async def verdict(pilot: Pilot[None], board: Dashboard) -> None:
    """Ask whether a host can be destroyed."""
    from armada.tui.operations import Answer
    from armada.tui.screens.verdict import show_verdict

    await pilot.press("3")
    show_verdict(board, "a100-2", Answer(7, json.dumps(story_answers.VERDICT), ""))


async def launch(pilot: Pilot[None], board: Dashboard) -> None:
    """Fill Launch, and give it the plan."""
    from armada.tui.operations import Answer
    from armada.tui.screens.launch import LaunchScreen, Planned

    await pilot.press("5")
    screen = board.screen
    assert isinstance(screen, LaunchScreen)
    for name, value in (("experiment", "arc.yaml"), ("host", "a100-1"), ("set", "lora.r=64 train.seed=7")):
        screen.fields[name].value = value
    while screen.form.form is None or screen.asked is None:
        await pilot.pause(0.02)
    screen.on_planned(Planned(screen.asked, Answer(0, json.dumps(story_answers.PLANS), "")))
    await pilot.press("escape", "home")


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


SCENES: tuple[Scene, ...] = (
    Scene(
        "welcome",
        "Welcome",
        "Runs before anything was launched.",
        keys(),
        ("Nothing has been launched yet",),
        is_new=True,
    ),
    Scene(
        "tour",
        "The tour",
        "Five steps, once, when the dashboard opens an empty home; `:tour` shows them again.",
        tour,
        ("1 of 5",),
        is_window=True,
        is_new=True,
    ),
    Scene(
        "runs",
        "Runs",
        "What needs you is at the top, with its reason; sweeps share a row.",
        on(story.LONG),
        ("arc-1.5b-r128",),
    ),
    Scene(
        "sweep",
        "A sweep",
        "Its cells, with those that were pruned.",
        on(f"sweep:{story.SWEEP}:", "enter", "down"),
        ("2e-05 r=128",),
    ),
    Scene(
        "runs-no-colour",
        "Runs without colour",
        "With `NO_COLOR` set: each state has a sign of its own, and a word.",
        on(story.LONG),
        ("arc-1.5b-r128",),
        env=(("NO_COLOR", "1"),),
    ),
    Scene(
        "runs-ascii",
        "Runs in ASCII",
        "In a terminal whose locale is not UTF-8 (`LC_ALL=C`).",
        on(story.LONG),
        ("arc-1.5b-r128",),
        env=(("LC_ALL", "C"),),
    ),
    Scene(
        "filter",
        "Filter",
        "What may follow stands under the field; Tab takes it.",
        keys("slash", *"lr>4e-5 state:"),
        ("submitted",),
    ),
    Scene(
        "columns",
        "Columns",
        "Every column that there is, those that are taken first; `learning` finds the learning rate, space takes it.",
        keys("C", *"learning", "space"),
        ("train.learning_rate", "11 columns"),
        is_window=True,
    ),
    Scene(
        "views",
        "Saved views",
        "A filter, columns, an order and groups under a name; `armada ps --view` shows the same.",
        views,
        ("everything",),
        is_window=True,
    ),
    Scene(
        "overview",
        "A run",
        "What needs you, its curve, GPUs, where a step's time goes, its cost, checkpoints and log, at every size.",
        run(story.HUNG),
        ("needs you", "NCCL"),
    ),
    Scene(
        "charts",
        "Charts",
        "Four metrics with one crosshair; ↻ marks where the run was resumed.",
        charts(story.LONG, 4, *["comma"] * 12),
        ("loss (1 of", "at step"),
    ),
    Scene(
        "wall",
        "A wall of charts",
        "`v` also shows as many metrics as fit.",
        charts(story.LONG, WALL, *["comma"] * 12),
        ("grad_norm (4 of", "at step"),
    ),
    Scene(
        "nan",
        "A loss that is not finite",
        "✗ marks where NaN begins, and the heading says since when.",
        charts(story.NAN, 1),
        ("NaN since step",),
    ),
    Scene("log", "Log", "The copy at home, in the colours of the job.", run(story.OOM, "log"), ("OutOfMemoryError",)),
    Scene(
        "checkpoints",
        "Checkpoints",
        "Where each one is, and whether it was verified. One is damaged.",
        run(story.DONE, "checkpoints"),
        ("damaged at home",),
    ),
    Scene(
        "samples",
        "Samples",
        "What the model answered to a prompt, step by step, beside what was expected.",
        run(story.LONG, "samples"),
        ("32",),
    ),
    Scene("events", "Events", "What happened to the run, in words.", run(story.SPENT, "events"), ("budget",)),
    Scene("config", "Config", "The whole plan that was sent.", run(story.LONG, "config"), ("learning_rate",)),
    Scene(
        "stop",
        "A question",
        "Acts that cannot be undone ask first.",
        on(story.HUNG, "x"),
        ("Stop 1 run?",),
        is_window=True,
    ),
    Scene(
        "hosts",
        "Hosts",
        "A line per host: the load of its GPUs now and over the last minutes, who uses them, environment, price, disk.",
        keys("3"),
        ("leonardo", "9 of 392 free"),
    ),
    Scene(
        "host-card",
        "A host's card",
        "Link, disk, money, environment, what is safe, health, and its GPUs one by one.",
        card,
        ("environment",),
    ),
    Scene(
        "add-host",
        "Add a host",
        "The line that the provider shows is an address, too. Before anything is written, the host's key is shown.",
        keys("3", "a", *"a100-3", "tab", *"ssh -p 50318 root@203.0.113.21"),
        ("203.0.113.21",),
        is_window=True,
    ),
    Scene(
        "release",
        "May this host go?",
        "What would be lost, and how to bring it home.",
        verdict,
        ("would be lost",),
        is_window=True,
    ),
    Scene("sync", "Sync", "What is safe, what travels, and what waits.", keys("4"), ("connection reset by peer",)),
    Scene(
        "launch",
        "Launch",
        "The experiment as a form, hosts side by side, and the checks of the plan.",
        launch,
        ("arc.yaml",),
    ),
    Scene(
        "chooser",
        "A choice",
        "Lists narrow down as you type: here the host of a launch.",
        choice,
        ("On which host?",),
        is_window=True,
    ),
    Scene(
        "data",
        "The data as the model sees it",
        "`v` on Launch: what is not trained on is grey; below are the lengths in tokens.",
        data,
        ("are trained on",),
        is_window=True,
    ),
    Scene(
        "grid",
        "The cells of a sweep",
        "`v` on Launch, for an experiment with a sweep; with a host in the field, the command also says hours and cost.",
        grid,
        ("8 cells",),
        is_window=True,
    ),
    Scene("compare", "Compare: curves", "Each run keeps its letter and its colour.", compare("c"), ("against step",)),
    Scene("compare-settings", "Compare: settings", "Only what differs.", compare("f"), ("lora.r",)),
    Scene(
        "compare-parallel",
        "Compare: parallel coordinates",
        "Settings and the metric; the run under the cursor is lit.",
        compare("p"),
        ("lora.r",),
    ),
    Scene("compare-scatter", "Compare: scatter", "A setting against the metric.", compare("t"), ("against",)),
    Scene("compare-pareto", "Compare: Pareto front", "Loss against cost.", compare("o"), ("against cost",)),
    Scene(
        "compare-samples",
        "Compare: samples",
        "What two runs answered to the same prompt.",
        compare("a", story.LONG, story.HUNG),
        ("prompt:",),
    ),
    Scene("history", "History", "What was started here, with its end.", keys("7"), ("armada resume",), is_window=True),
    Scene(
        "notifications",
        "Notifications",
        "What the daemon told, and whether it was sent; Enter opens the run or the host.",
        keys("8"),
        ("disk soon full",),
        is_window=True,
    ),
    Scene(
        "command",
        "The command line",
        "Every command of armada, with completion; what is selected is filled in.",
        on(story.OOM, "colon", *"why "),
        ("armada why",),
        is_window=True,
    ),
    Scene(
        "output",
        "Output of a command",
        "What a command that only reads printed; it scrolls, searches and wraps.",
        on(story.OOM, "colon", *"why ", "enter"),
        ("out of memory", "armada resume"),
        is_window=True,
    ),
    Scene(
        "palette",
        "The palette",
        "Every action, found by its name: those that work here first; one of another screen goes there.",
        keys("ctrl+p", *"copy"),
        ("Copy the run's id",),
        is_window=True,
    ),
    Scene("help", "Help", "The keys of the screen first.", keys("question_mark"), ("Keys",), is_window=True),
)
