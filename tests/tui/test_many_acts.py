"""An act on many runs starts few processes, loses no end, and leaves nothing half told when the dashboard is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.tui import acts, operations
from armada.tui.app import Dashboard
from armada.tui.operations import Answer, Ended
from armada.tui.waiting_acts import AT_ONCE, Waiting
from tests.tui.conftest import World, drive, lacks, nothing, said, shows, until
from tests.waiting import eventually

GO = Path("go")
"""The stub command ends once this file exists."""


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command is a shell that waits for `GO`, then prints its last word."""
    script = f'while [ ! -e {GO} ]; do sleep 0.02; done; for word; do :; done; echo "$word: is done"'
    monkeypatch.setattr("armada.tui.operations.command", lambda *words: ["sh", "-c", script, "armada", *words])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started, of which none runs."""
    found: list[list[str]] = []
    monkeypatch.setattr(
        "armada.tui.operations.start", lambda _home, _title, words, _tell, **_: found.append(list(words))
    )
    return found


def many(world: World, count: int, **facts: Any) -> list[str]:
    return [world.run(f"run{number:02}-aaaaaa", **facts) for number in range(count)]


@pytest.mark.usefixtures("held")
def test_many_runs_are_resumed_a_few_at_a_time_and_every_end_is_told(world: World) -> None:
    run_ids = many(world, 3 * AT_ONCE, state="failed")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, run_ids[-1], f"{len(run_ids)} of {len(run_ids)} runs")
        await pilot.press("a", "u")
        await shows(pilot, f"Resume {len(run_ids)} runs?")
        await pilot.press("y")
        await until(pilot, lambda: "What still waits when you quit is not started." in said(pilot))
        assert sum(act.runs for act in acts.newest(world.home)) == len(acts.newest(world.home)) == AT_ONCE
        await pilot.press("7")
        await shows(pilot, f"{2 * AT_ONCE} more wait", "running")
        GO.touch()
        await until(pilot, lambda: all(f"resume {each} done: is done" in said(pilot) for each in run_ids))
        await lacks(pilot, "more wait")

    told = _most_at_once(world, board)
    drive(board, use)
    assert max(told) == AT_ONCE
    assert sorted(act.words for act in acts.newest(world.home)) == [("resume", each) for each in run_ids]


def _most_at_once(world: World, board: Dashboard) -> list[int]:
    """Return a list that gets the number of processes that live after each start."""
    counts: list[int] = []
    operate = board.operate

    def counted(*given: Any, **options: Any) -> Path | None:
        log = operate(*given, **options)
        counts.append(sum(act.runs for act in acts.newest(world.home)))
        return log

    board.operate = counted  # type: ignore[method-assign]  # what the queue starts is counted
    return counts


@pytest.mark.parametrize(("key", "words"), [("x", ("stop",)), ("y", ("sync", "now"))])
def test_one_command_takes_all_runs_where_it_can(
    world: World, asked: list[list[str]], key: str, words: Sequence[str]
) -> None:
    run_ids = many(world, 6)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, *run_ids)
        await pilot.press("a", key)
        if key == "x":
            await shows(pilot, "Stop 6 runs?")
            await pilot.press("y")
        await until(pilot, lambda: f"{words[0]} 6 runs" in said(pilot))

    drive(world.board(), use)
    ((*begun, _, _, _, _, _, _),) = asked
    assert begun == list(words)
    assert sorted(asked[0][-6:]) == run_ids


def test_the_runs_of_a_host_are_removed_by_one_command(
    world: World, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("box", "far"):
        for number in range(3):
            world.run(f"{host}{number}-aaaaaa", host=host, state="failed")

    def answer(_words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        tell(Answer(0, json.dumps({"kept_home": [], "host_error": None, "deleted_host": []}), ""))
        return nothing

    monkeypatch.setattr("armada.tui.operations.ask", answer)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "box0-aaaaaa", "far2-aaaaaa")
        await pilot.press("a", "d")
        await shows(pilot, "Remove 6 runs?")
        await pilot.press("y")
        await until(pilot, lambda: "remove 3 runs on far" in said(pilot))

    drive(world.board(), use)
    assert sorted(sorted(words) for words in asked) == [
        ["box0-aaaaaa", "box1-aaaaaa", "box2-aaaaaa", "rm"],
        ["far0-aaaaaa", "far1-aaaaaa", "far2-aaaaaa", "rm"],
    ]


@pytest.mark.usefixtures("held")
def test_what_waits_when_the_dashboard_is_left_is_not_started_and_the_terminal_says_so(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.run("demo-aaaaaa", state="failed")
    board = world.board()
    given_up: list[Ended] = []

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        board.waiting.start(
            [Waiting(f"resume [b]{number}[/b]", ("resume", f"{number}"), given_up.append) for number in range(6)]
        )
        await pilot.press("q")
        await until(pilot, lambda: not board.is_running)

    drive(board, use)
    assert len(acts.newest(world.home)) == AT_ONCE
    assert [end.title for end in given_up] == ["resume [b]4[/b]", "resume [b]5[/b]"]
    assert "2 commands were not started: resume [b]4[/b], resume [b]5[/b]" in capsys.readouterr().err
    GO.touch()
    eventually(lambda: not any(act.runs for act in acts.newest(world.home)))


@pytest.mark.usefixtures("held")
def test_once_the_store_is_gone_nothing_that_waits_is_started(world: World) -> None:
    world.run("demo-aaaaaa", state="failed")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        board.waiting.start([Waiting(f"resume {number}", ("resume", f"{number}")) for number in range(AT_ONCE + 2)])
        world.home.store.rename("elsewhere")
        GO.touch()
        await until(pilot, lambda: "2 commands were not started: resume 4, resume 5" in said(pilot))

    drive(board, use)
    assert len(acts.newest(world.home)) == AT_ONCE


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("word", ["ps", "resume"])
def test_the_ends_of_more_commands_than_logs_are_kept_are_all_told(world: World, word: str) -> None:
    told: list[Ended] = []
    for number in range(14):
        operations.start(world.home, f"act {number}", [word, "it"], told.append, is_own=True)
    GO.touch()
    eventually(lambda: len(told) == 14)
    assert {end.exit_code for end in told} == {0}
    assert {end.last for end in told} == {"" if word == "ps" else "it: is done"}


@pytest.mark.parametrize("word", ["ps", "resume"])
def test_the_end_of_a_command_whose_output_is_gone_is_told(
    world: World, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "armada.tui.operations.command", lambda *_: ["sh", "-c", f'rm "{acts.folder_of(world.home)}"/*.log']
    )
    told: list[Ended] = []
    operations.start(world.home, "act", [word], told.append)
    (end,) = eventually(lambda: told)
    assert (end.exit_code, end.last) == (0, "what it printed cannot be read: No such file or directory")


def test_the_last_line_of_a_long_output_is_read_alone(tmp_path: Path) -> None:
    log = tmp_path / "1.000-sync.log"
    log.write_text("é" * 100_000 + "\narmada: the end\n  → do this\n")
    assert operations.last_line(log) == "the end"
