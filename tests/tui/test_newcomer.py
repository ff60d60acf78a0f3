"""Ten tasks of a newcomer, each in at most six keys; the table of them is in docs/reference/dashboard.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui.app import Dashboard
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, nothing, shows, until

MOST = 6
TASKS = {
    "launch": ("Launch the quickstart on this machine, after its plan", ("n", "q", "→", "^l")),
    "best": ("Find the best run of a sweep, from its row", ("enter", "s", "s", "s", "s", "j")),
    "why": ("Why did it fail?", (":", "w", "h", "y", "enter")),
    "free": ("Free a GPU: stop the run that holds it", ("3", "l", "x", "y")),
    "costs": ("What costs money?", (":", "c", "o", "s", "tab", "enter")),
    "safe": ("Is this box safe to destroy?", ("3", "r")),
    "log": ("Follow the log of the newest run", ("e", "l")),
    "fetch": ("Fetch a checkpoint", ("enter", "h", "p")),
    "compare": ("Compare two runs", ("space", "space", "c")),
    "again": ("Start a failed run again", ("u", "y")),
}
NAMES = {"→": "right", "^l": "ctrl+l", ":": "colon"}


def table() -> str:
    """The table of the docs."""
    rows = [f"| {task} | {' '.join(f'`{key}`' for key in keys)} |" for task, keys in TASKS.values()]
    return "\n".join(["| task | keys |", "|---|---|", *rows])


def test_each_task_needs_few_keys_and_the_docs_list_them() -> None:
    assert len(TASKS) == 10
    assert all(len(keys) <= MOST for _, keys in TASKS.values())
    page = Path(__file__).parents[2] / "docs" / "reference" / "dashboard.md"
    assert table() in page.read_text()


class Newcomer:
    """Presses the keys of a task, and counts them by pressing no others."""

    def __init__(self, pilot: Pilot[None], task: str) -> None:
        self._pilot = pilot
        self._left = [NAMES.get(key, key) for key in TASKS[task][1]]

    async def press(self, count: int = 1) -> None:
        keys, self._left = self._left[:count], self._left[count:]
        assert len(keys) == count
        await self._pilot.press(*keys)
        await self._pilot.pause()

    def is_done(self) -> bool:
        return not self._left


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the dashboard starts; it stays with the words."""
    found: list[list[str]] = []
    monkeypatch.setattr(
        "armada.tui.operations.start", lambda _home, _title, words, _tell, **_: found.append(list(words))
    )
    return found


def runs_screen(board: Dashboard) -> RunsScreen:
    first = board.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return first


def test_launch_the_quickstart(world: World, started: list[list[str]]) -> None:
    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "launch")
        await shows(pilot, "Nothing has been launched yet")
        await newcomer.press()
        await shows(pilot, "Type an experiment and a host")
        await newcomer.press(2)
        await shows(pilot, "^l launches this plan")
        await newcomer.press()
        await until(pilot, lambda: started == [["launch", "--host=local", "--", "quickstart"]])
        assert newcomer.is_done()

    drive(world.board(), use)


def test_find_the_best_of_a_sweep(world: World) -> None:
    for cell, loss in enumerate((2.0, 0.5, 1.0), 1):
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": cell}}
        world.run(f"lr-{cell}-aaaaaa", spec=spec)
        world.losses(f"lr-{cell}-aaaaaa", [3.0, loss])
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "best")
        await shows(pilot, "lr-x7 (3 cells)", "0.5")
        await newcomer.press()
        await shows(pilot, "lr-1-aaaaaa")
        await newcomer.press(4)
        await shows(pilot, "by loss")
        await newcomer.press()
        assert runs_screen(board).table.cursor == "lr-2-aaaaaa"
        assert newcomer.is_done()

    drive(board, use, (170, 40))


def test_why_did_it_fail(world: World) -> None:
    world.run("demo-aaaaaa", state="failed", reason="oom", message="CUDA out of memory")

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "why")
        await shows(pilot, "oom: CUDA out of memory")
        await newcomer.press(5)
        await shows(pilot, "armada why demo-aaaaaa", "y copy command", "demo-aaaaaa ")
        assert newcomer.is_done()

    drive(world.board(), use)


def test_free_a_gpu(world: World, started: list[list[str]]) -> None:
    world.hosts(a={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", host="a")
    world.run("other-bbbbbb", host="elsewhere")

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "free")
        await shows(pilot, "demo-aaaaaa", "other-bbbbbb")
        await newcomer.press()
        await shows(pilot, "not checked")
        await newcomer.press()
        await shows(pilot, "/ host:a", "demo-aaaaaa")
        await newcomer.press()
        await shows(pilot, "Stop 1 run?", "demo-aaaaaa on a")
        await newcomer.press()
        await until(pilot, lambda: started == [["stop", "demo-aaaaaa"]])
        assert newcomer.is_done()

    drive(world.board(), use)


def test_what_costs_money(world: World) -> None:
    world.hosts(a={"ssh": "root@192.0.2.1", "price_per_hour": 10})
    world.run("demo-aaaaaa", host="a")

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "costs")
        await shows(pilot, "burning $10.00/h")
        await newcomer.press()
        await shows(pilot, "Open the dashboard")
        await newcomer.press(5)
        await shows(pilot, "armada costs", "y copy command", "$")
        assert newcomer.is_done()

    drive(world.board(), use)


def test_is_this_box_safe_to_destroy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.hosts(a={"ssh": "root@192.0.2.1"})
    asked: list[Sequence[str]] = []

    def ask(words: Sequence[str], _tell: object) -> Callable[[], None]:
        asked.append(words)
        return nothing

    monkeypatch.setattr("armada.tui.operations.ask", ask)

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "safe")
        await newcomer.press()
        await shows(pilot, "not checked")
        await newcomer.press()
        assert asked == [["hosts", "release", "--dry-run", "--json", "a"]]
        assert newcomer.is_done()

    drive(world.board(), use)


def test_follow_the_log_of_the_newest_run(world: World) -> None:
    world.run("old-aaaaaa", state="failed", reason="oom")
    world.run("new-bbbbbb")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "log")
        await shows(pilot, "old-aaaaaa", "new-bbbbbb")
        assert runs_screen(board).table.cursor == "old-aaaaaa"
        await newcomer.press(2)
        shown = board.screen
        assert isinstance(shown, RunScreen)
        assert (shown.run_id, shown.shown) == ("new-bbbbbb", "log")
        assert newcomer.is_done()

    drive(board, use)


def test_fetch_a_checkpoint(world: World, started: list[list[str]]) -> None:
    world.run("demo-aaaaaa")
    world.checkpoint("demo-aaaaaa", 7, home=False)

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "fetch")
        await shows(pilot, "demo-aaaaaa")
        await newcomer.press(2)
        await shows(pilot, "checkpoint-7")
        await newcomer.press()
        assert started == [["pull", "demo-aaaaaa", "--checkpoint", "7"]]
        assert newcomer.is_done()

    drive(world.board(), use)


def test_compare_two_runs(world: World) -> None:
    for run_id in ("a-aaaaaa", "b-bbbbbb"):
        world.run(run_id)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "compare")
        await shows(pilot, "a-aaaaaa", "b-bbbbbb")
        await newcomer.press(3)
        shown = board.screen
        assert isinstance(shown, CompareScreen)
        assert set(shown.run_ids) == {"a-aaaaaa", "b-bbbbbb"}
        assert newcomer.is_done()

    drive(board, use)


def test_start_a_failed_run_again(world: World, started: list[list[str]]) -> None:
    world.run("demo-aaaaaa", state="failed", reason="oom")

    async def use(pilot: Pilot[None]) -> None:
        newcomer = Newcomer(pilot, "again")
        await shows(pilot, "demo-aaaaaa")
        await newcomer.press()
        await shows(pilot, "Resume 1 run?")
        await newcomer.press()
        assert started == [["resume", "demo-aaaaaa"]]
        assert newcomer.is_done()

    drive(world.board(), use)
