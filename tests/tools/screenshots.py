"""Make the pictures of the dashboard in docs/, and the page that shows them. `make screenshots`.

    python -m tests.tools.screenshots [--to FOLDER] [--only SCENE,…] [--sizes 80x24,…]

The real dashboard over the store of tests/tools/story.py, whose clock stands still: a picture changes only when the
dashboard does. What other commands would say (a plan, a verdict about a host) is told here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from armada import __version__
from armada.daemon import instance, status
from armada.paths import HomePaths
from armada.tui.chart_choices import WALL
from tests.tools import story, story_answers, svg
from tests.tools.reflow import reflow

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from armada.tui.app import Dashboard

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "screenshots"
PAGE = ROOT / "docs" / "reference" / "screens.md"
SIZES = ((80, 24), (120, 36), (160, 48), (250, 70))
LIGHT = ((80, 24), (160, 48))
"""The sizes that are there in light, too."""
SHOWN = (120, 36)
"""The size that the page shows at once; it links the others."""
PATIENCE_S = 10.0
STILL_S = 0.25

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
    """

    name: str
    title: str
    says: str
    go: Go
    words: tuple[str, ...]
    is_window: bool = False


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


SCENES: tuple[Scene, ...] = (
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
        ("lr-rank-4",),
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
        "GPUs over the last minutes, queues, environments, prices and disks.",
        keys("3"),
        ("leonardo", "boost"),
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
    Scene("help", "Help", "The keys of the screen first.", keys("question_mark"), ("Keys",), is_window=True),
)


# Pictures ---------------------------------------------------------------------------------------------------------------


async def shoot(home: HomePaths, scene: Scene, folder: Path, sizes: tuple[tuple[int, int], ...]) -> None:
    """Picture a scene at all sizes, dark, and at some in light."""
    from armada.tui.app import Dashboard

    board = Dashboard(home, watch=False)
    async with board.run_test(size=SHOWN) as pilot:
        board.choose_theme("armada-dark")
        while board.snapshot.taken_at == 0 or board.snapshot.daemon is None or not board.snapshot.hosts:
            await pilot.pause(0.02)
        if not scene.is_window:
            await scene.go(pilot, board)
        for theme, name, wanted in (("armada-dark", "", SIZES), ("armada-light", "-light", LIGHT)):
            board.choose_theme(theme)
            for size in wanted:
                if size in sizes:
                    await pilot.resize_terminal(*size)
                    if scene.is_window:
                        await open_again(pilot, board, scene)
                    await settle(pilot, scene.words)
                    file = folder / file_of(scene, size, light=bool(name))
                    file.write_text(take(board, f"{scene.title}, {size[0]}×{size[1]}"), encoding="utf-8")


async def open_again(pilot: Pilot[None], board: Dashboard, scene: Scene) -> None:
    """Close what is open, and go to a scene from the first screen."""
    while len(board.screen_stack) > 1:
        board.pop_screen()
    await settle(pilot, ())
    await scene.go(pilot, board)


def take(board: Dashboard, title: str) -> str:
    """Return the screen now as SVG."""
    variables = board.theme_variables
    strips = board.screen._compositor.render_strips()  # noqa: SLF001  # Textual has no public name for it
    return svg.picture(strips, board.size.width, variables["foreground"], variables["background"], title)


async def settle(pilot: Pilot[None], words: tuple[str, ...]) -> None:
    """Wait until the words are there, nothing is being read, and nothing has changed for a moment."""
    began = since = time.monotonic()
    last = ""
    while time.monotonic() - since < STILL_S:
        await pilot.pause(0.02)
        strips = pilot.app.screen._compositor.render_strips()  # noqa: SLF001
        seen = "\n".join(strip.text for strip in strips)
        is_ready = "reading …" not in seen and all(word in seen for word in words)
        if seen != last or not is_ready:
            last, since = seen, time.monotonic()
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"{words} are not on the screen:\n{seen}")


def file_of(scene: Scene, size: tuple[int, int], *, light: bool = False) -> str:
    """Return the name of a picture."""
    return f"{scene.name}-{size[0]}x{size[1]}{'-light' if light else ''}.svg"


def page() -> str:
    """Return docs/reference/screens.md."""
    parts = [
        "# Pictures of every screen\n",
        "For you who want to see the dashboard before you start it, or who change it: each screen at four sizes of the terminal,",
        "dark, and at two of them in light. `make screenshots` makes them from one store, in which much goes wrong.",
        "[The dashboard](dashboard.md) says what the screens do.\n",
    ]
    for scene in SCENES:
        links = [f"[{wide}×{high}]({_path(scene, (wide, high))})" for wide, high in SIZES]
        links += [f"[{wide}×{high} in light]({_path(scene, (wide, high), light=True)})" for wide, high in LIGHT]
        parts += [
            f"## {scene.title}\n",
            f"{scene.says} {' · '.join(links)}\n",
            f"![{scene.title}]({_path(scene, SHOWN)})\n",
        ]
    return reflow("\n".join(parts))


def _path(scene: Scene, size: tuple[int, int], *, light: bool = False) -> str:
    return f"../screenshots/{file_of(scene, size, light=light)}"


# The world around -------------------------------------------------------------------------------------------------------


@contextmanager
def still_home() -> Iterator[HomePaths]:
    """A home with the story in it, in a world whose clock stands still and whose disks are alike."""
    from armada.tui import asking, watcher

    os.environ.pop("COLORFGBG", None)
    os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8", "ARMADA_NO_DAEMON": "1"}
    time.tzset()
    time.time = story.Clock.time
    shutil.disk_usage = lambda _: SimpleNamespace(total=1000 * story.GB, used=400 * story.GB, free=600 * story.GB)  # type: ignore[assignment,return-value]
    watcher.READ_EVERY_S = watcher.LOOK_EVERY_S = 0.02  # nobody's eye is waited for
    asking.Asking.ask = lambda *_: None  # type: ignore[method-assign]  # no host is asked for a plan
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HOME": folder, "ARMADA_HOME": str(Path(folder, ".armada"))}
        project = Path(folder, "arc")
        project.mkdir()
        os.chdir(project)
        Path("arc.yaml").write_text(story_answers.EXPERIMENT)
        Path("puzzles.jsonl").write_text('{"messages": []}\n')
        home = HomePaths.from_environment()
        story.tell(home)
        with instance.only_instance(home):
            status.write(
                home, status.Status(4711, None, None, __version__, True, story.NOW - 9000, story.NOW - 1, {}, ())
            )
            (status.judge.__kwdefaults__ or {})["wall"] = (
                time.time
            )  # it took the clock that goes, before this one stood still
            yield home


def picture_report(folder: Path) -> None:
    """Write a report of the story's comparable runs, and picture it if Chromium is there."""
    from armada.cli.main import run as command

    chromium = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if chromium is None:
        print("report.png: no Chromium here, so the picture stays as it is")
        return
    target = Path("report.html").absolute()
    if command(["report", story.LONG, story.HUNG, "--html", str(target), "--metrics", "loss,grad_norm"]) != 0:
        sys.exit("the report could not be written")
    size = "--window-size=1200,910"
    argv = [chromium, "--headless", "--no-sandbox", "--hide-scrollbars", size, f"--screenshot={folder / 'report.png'}"]
    subprocess.run([*argv, target.as_uri()], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=PICTURES)
    parser.add_argument("--only", default=",".join(scene.name for scene in SCENES))
    parser.add_argument("--sizes", default=",".join(f"{wide}x{high}" for wide, high in SIZES))
    options = parser.parse_args()
    folder = options.to.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    sizes = tuple(size for size in SIZES if f"{size[0]}x{size[1]}" in options.sizes.split(","))
    began, missing = time.monotonic(), list[str]()
    with still_home() as home:
        for scene in SCENES:
            if scene.name in options.only.split(","):
                try:
                    asyncio.run(shoot(home, scene, folder, sizes))
                except TimeoutError as error:
                    missing.append(f"{scene.name}: {error}")
        if folder == PICTURES:
            picture_report(folder)
    if folder == PICTURES:
        PAGE.write_text(page(), encoding="utf-8")
    if missing:
        sys.exit("\n".join(missing))
    named = {file_of(scene, size, light=light) for scene in SCENES for light in (False, True) for size in SIZES}
    for old in {path.name for path in folder.glob("*.svg")} - named:
        (folder / old).unlink()
    total = sum(each.stat().st_size for each in folder.iterdir())
    print(f"{len(list(folder.glob('*.svg')))} pictures, {total / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
