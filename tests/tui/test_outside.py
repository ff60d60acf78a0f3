"""What leaves the dashboard: the page of a run in a browser, a shell on its host."""

from __future__ import annotations

import asyncio
import errno
import io
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pytest
from textual.pilot import Pilot

from armada.tui import lending
from armada.tui.screens import outside
from tests.tui.conftest import World, drive, said, shows, until

if TYPE_CHECKING:
    from armada.tui.app import Dashboard


def printed(world: World, words: str) -> None:
    log = world.home.run("demo-aaaaaa") / "outputs" / "output.log"
    log.parent.mkdir(parents=True)
    log.write_text(words)


def test_the_page_of_a_run_is_shown_and_copied_where_there_is_no_browser(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("demo-aaaaaa", spec={"job": {"argv": ["true"]}, "experiment": {"model": "Qwen/Qwen2.5-0.5B"}})
    printed(world, "wandb: View run at https://wandb.ai/me/arc/runs/demo-aaaaaa\n")
    monkeypatch.setattr(outside, "has_browser", lambda: False)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("w")
        await shows(pilot, "https://wandb.ai/me/arc/runs/demo-aaaaaa", "https://huggingface.co/Qwen/Qwen2.5-0.5B")
        await pilot.press("enter")
        await until(pilot, lambda: "there is no browser on this machine; copied: https://wandb.ai" in said(pilot))
        assert board.clipboard == "https://wandb.ai/me/arc/runs/demo-aaaaaa"

    drive(board, use)


def test_a_run_without_a_page_says_why(world: World) -> None:
    world.run("demo-aaaaaa")
    printed(world, "see file:///etc/passwd/runs/demo-aaaaaa and javascript:x\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("w")
        await until(pilot, lambda: "demo-aaaaaa has no page" in said(pilot))

    drive(world.board(), use)


def test_a_browser_in_the_terminal_is_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> webbrowser.BaseBrowser:
        raise webbrowser.Error("none")

    for found, has in (
        (lambda: webbrowser.GenericBrowser("w3m"), False),
        (lambda: webbrowser.BackgroundBrowser("firefox"), True),
        (none, False),
    ):
        monkeypatch.setattr(webbrowser, "get", found)
        assert outside.has_browser() == has


@pytest.mark.parametrize("way", ["", "2"])
def test_a_shell_needs_a_terminal_of_its_own(world: World, way: str) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press(*way, "exclamation_mark")
        await until(
            pilot, lambda: "a shell needs a terminal of its own; in another one: armada ssh demo" in said(pilot)
        )

    drive(world.board(), use)


def test_a_shell_gets_the_terminal_and_gives_it_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.hosts(far={"ssh": "root@192.0.2.1"})
    order: list[str] = []
    board = world.board()
    typed = io.StringIO("\n")
    monkeypatch.setattr("sys.stdin", typed)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "far")
        driver = board._driver  # noqa: SLF001  # Textual has no public name for it
        assert driver is not None
        monkeypatch.setattr(type(driver), "can_suspend", True)
        monkeypatch.setattr(driver, "suspend_application_mode", lambda: order.append("given"))
        monkeypatch.setattr(driver, "resume_application_mode", lambda: order.append("back"))
        monkeypatch.setattr(outside, "command", lambda *words: ["sh", "-c", f"exit {len(words)}"])
        await pilot.press("home", "exclamation_mark")
        await until(pilot, lambda: "armada ssh far ended with 2" in said(pilot))
        await shows(pilot, "far")

    drive(board, use)
    assert order == ["given", "back"]
    assert typed.read() == "", "why there was no shell stands there until Enter"


class Lent:
    """A dashboard that lends its terminal. As Textual's, it is not taken back after an exception."""

    def __init__(self) -> None:
        self.did: list[object] = []

    @contextmanager
    def suspend(self) -> Iterator[None]:
        self.did.append("given")
        yield
        self.did.append("back")

    def exit(self, *codes: object) -> None:
        self.did.append(codes)


def lent(*words: str) -> tuple[int, list[object]]:
    """Lend a terminal to a command; its exit code, and what the dashboard did until a while later."""
    board = Lent()

    async def use() -> int:
        lending.heed_signals(cast("Dashboard", board))
        code = lending.lend(cast("Dashboard", board), words, "armada ssh far")
        for _ in range(5):
            await asyncio.sleep(0)
        return code

    try:
        return asyncio.run(use()), board.did
    except OSError as error:
        return error.errno or 0, board.did


def test_a_command_that_cannot_be_started_gives_the_terminal_back() -> None:
    assert lent("/no/such/editor") == (errno.ENOENT, ["given", "back"])


def test_ctrl_c_in_a_shell_ends_what_runs_there_and_not_the_dashboard() -> None:
    ends = "kill -INT $PPID; kill -INT $PPID; kill -QUIT $PPID; exit 7"
    assert lent("sh", "-c", ends) == (7, ["given", "back"])
    assert lent("sh", "-c", "trap 'exit 3' INT; kill -INT $$; sleep 60") == (3, ["given", "back"])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_system_that_shuts_down_ends_the_dashboard_once_it_has_its_terminal() -> None:
    assert lent("sh", "-c", "kill -TERM $PPID") == (0, ["given", "back", (None, 0)])
