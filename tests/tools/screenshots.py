"""Make the pictures of the dashboard in docs/, and the page that shows them. `make screenshots`.

    python -m tests.tools.screenshots [--to FOLDER] [--only SCENE,…] [--sizes 80x24,…]

The real dashboard over the store of tests/tools/story.py, whose clock stands still: a picture changes only when the
dashboard does. What other commands would say (a plan, a verdict about a host) is told here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from armada import __version__
from armada.daemon import instance, status
from armada.paths import HomePaths
from armada.tui import remembered
from tests.tools import story, story_answers, svg
from tests.tools.reflow import reflow
from tests.tools.scenes import SCENES, SIZES, Scene

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from armada.tui.app import Dashboard

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "screenshots"
PAGE = ROOT / "docs" / "reference" / "screens.md"
SHOWN = (120, 36)
"""The size that the page shows at once; it links the others."""
PATIENCE_S = 10.0
STILL_S = 0.25

# Pictures ---------------------------------------------------------------------------------------------------------------


async def shoot(home: HomePaths, scene: Scene, folder: Path, sizes: tuple[tuple[int, int], ...]) -> None:
    """Picture a scene at its sizes."""
    from armada.tui.app import Dashboard

    board = Dashboard(home, watch=False)
    async with board.run_test(size=SHOWN) as pilot:
        board.choose_theme("armada-dark")
        while board.snapshot.taken_at == 0 or board.snapshot.daemon is None or not board.snapshot.hosts:
            await pilot.pause(0.02)
        if not scene.is_window:
            await scene.go(pilot, board)
        for theme, is_light, wanted in (("armada-dark", False, scene.sizes), ("armada-light", True, scene.light)):
            board.choose_theme(theme)
            for size in wanted:
                if size in sizes:
                    await pilot.resize_terminal(*size)
                    if scene.is_window:
                        await open_again(pilot, board, scene)
                    await settle(pilot, scene.words)
                    file = folder / scene.file(size, light=is_light)
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
    """Wait until the words are there, nothing is being read or runs, and nothing has changed for a moment."""
    began = since = time.monotonic()
    last = ""
    while time.monotonic() - since < STILL_S:
        await pilot.pause(0.02)
        strips = pilot.app.screen._compositor.render_strips()  # noqa: SLF001
        seen = "\n".join(strip.text for strip in strips)
        # A run that is running may be cut there in a list: "lr 5e-05, running …".
        is_busy = "reading …" in seen or "running …" in seen.replace(", running …", "")
        is_ready = not is_busy and all(word in seen for word in words)
        if seen != last or not is_ready:
            last, since = seen, time.monotonic()
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"{words} are not on the screen:\n{seen}")


def page() -> str:
    """Return docs/reference/screens.md."""
    parts = [
        "# Pictures of every screen\n",
        "For you who want to see the dashboard before you start it, or who change it: each screen at four sizes of the terminal,",
        "dark, and at two of them in light. `make screenshots` makes them from one store, in which much goes wrong.",
        "[The dashboard](dashboard.md) says what the screens do.\n",
    ]
    for scene in SCENES:
        links = [f"[{wide}×{high}]({_path(scene, (wide, high))})" for wide, high in scene.sizes]
        links += [f"[{wide}×{high} in light]({_path(scene, (wide, high), light=True)})" for wide, high in scene.light]
        parts += [
            f"## {scene.title}\n",
            f"{scene.says} {' · '.join(links)}\n",
            f"![{scene.title}]({_path(scene, SHOWN)})\n",
        ]
    return reflow("\n".join(parts))


def _path(scene: Scene, size: tuple[int, int], *, light: bool = False) -> str:
    return f"../screenshots/{scene.file(size, light=light)}"


# The world around -------------------------------------------------------------------------------------------------------


_STILL = """
import sys, time
sys.path.insert(0, sys.argv.pop(1))
from armada.cli.main import run
from tests.tools import story
time.time = story.Clock.time
sys.exit(run(sys.argv[1:]))
"""


_WAITS = "import time\ntime.sleep(300)"


def nothing_new(*_: str) -> list[str]:
    """Return the command line of what follows a log to which nothing is added."""
    return [sys.executable, "-c", _WAITS]


def still_command(*words: str) -> list[str]:
    """Return the command line of armada, in a process whose clock stands still, too."""
    return [sys.executable, "-c", _STILL, str(ROOT), *words]


@contextmanager
def still_homes() -> Iterator[tuple[HomePaths, HomePaths]]:
    """A home with the story in it and one that is new, in a world whose clock stands still and whose disks are alike."""
    from textual.widgets import Input

    from armada.tui import asking, logs, outputs, watcher

    os.environ.pop("COLORFGBG", None)
    os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8", "ARMADA_NO_DAEMON": "1"}
    time.tzset()
    time.time = story.Clock.time
    shutil.disk_usage = lambda _: SimpleNamespace(total=1000 * story.GB, used=400 * story.GB, free=600 * story.GB)  # type: ignore[assignment,return-value]
    Input._toggle_cursor = lambda _: None  # type: ignore[assignment]  # noqa: SLF001  # a cursor that blinks is not always there
    watcher.READ_EVERY_S = watcher.LOOK_EVERY_S = 0.02  # nobody's eye is waited for
    asking.Asking.ask = lambda *_: None  # type: ignore[method-assign]  # no host is asked for a plan
    outputs.command = still_command  # type: ignore[attr-defined]  # it is looked up there
    logs.command = nothing_new  # type: ignore[attr-defined]  # no host is asked for its log
    (status.judge.__kwdefaults__ or {})["wall"] = time.time  # it took the clock that goes, before this one stood still
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HOME": folder, "ARMADA_HOME": str(Path(folder, ".armada"))}
        project = Path(folder, "arc")
        project.mkdir()
        os.chdir(project)
        Path("arc.yaml").write_text(story_answers.EXPERIMENT)
        Path("arc-4b.yaml").write_text(story_answers.FAULTY)
        Path("lr-rank.yaml").write_text(story_answers.SWEEP)
        Path("puzzles.jsonl").write_text('{"messages": []}\n')
        home, new = HomePaths.from_environment(), HomePaths(Path(folder, "new"), Path(folder, "new", "state"))
        story.tell(home)
        new.make()
        remembered.keep_toured(new)
        with watched(home), watched(new):
            yield home, new


@contextmanager
def watched(home: HomePaths) -> Iterator[None]:
    """A daemon watches a home, by all that can be seen of it."""
    with instance.only_instance(home):
        status.write(home, status.Status(4711, None, None, __version__, True, story.NOW - 9000, story.NOW - 1, {}, ()))
        yield


@contextmanager
def settings(env: tuple[tuple[str, str], ...]) -> Iterator[None]:
    """Set variables of the environment for a while; none of them was set before."""
    os.environ |= dict(env)
    try:
        yield
    finally:
        for name, _ in env:
            del os.environ[name]


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
    with still_homes() as (home, new):
        for scene in SCENES:
            if scene.name in options.only.split(","):
                read = remembered.notified_until(home)
                try:
                    with settings(scene.env):
                        asyncio.run(shoot(new if scene.is_new else home, scene, folder, sizes))
                except TimeoutError as error:
                    missing.append(f"{scene.name}: {error}")
                remembered.keep_notified_until(home, read)  # each scene is pictured as if it were the only one
        if folder == PICTURES:
            picture_report(folder)
    if folder == PICTURES:
        PAGE.write_text(page(), encoding="utf-8")
    if missing:
        sys.exit("\n".join(missing))
    named = {name for scene in SCENES for name in scene.files}
    for old in {path.name for path in folder.glob("*.svg")} - named:
        (folder / old).unlink()
    total = sum(each.stat().st_size for each in folder.iterdir())
    print(f"{len(list(folder.glob('*.svg')))} pictures, {total / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
