"""Runs are removed from the dashboard as by `armada rm`: after a question that names what is given up."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.home import own
from armada.store import runs
from armada.tui.operations import Answer
from armada.tui.screens.palette import Palette
from armada.tui.screens.runs import RunsScreen
from tests.conftest import Armada
from tests.tui.conftest import REAL_ASK, World, drive, heard, lacks, nothing, said, screen, shows, until
from tests.waiting import eventually


def command(*words: str) -> str:
    done = Armada(Path.cwd(), dict(os.environ)).run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_ended_run_is_removed_after_a_question_and_only_then(world: World) -> None:
    Path("exp.yaml").write_text(json.dumps({"name": "over", "task": "command", "command": ["true"]}))
    run_id = json.loads(command("launch", "--host", "local", "exp.yaml", "--follow", "--json"))["run_id"]
    there = world.home.local_root / "runs" / run_id

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "over")
        await pilot.press("d")
        await shows(pilot, "Remove 1 run?", f"{run_id} on local, succeeded", "its folder is deleted there")
        await pilot.press("n")
        await lacks(pilot, "Remove 1 run?")
        assert there.exists()
        await pilot.press("enter", "D")
        await shows(pilot, "Remove 1 run?")
        await pilot.press("y")
        await until(pilot, lambda: f"remove {run_id} done: {run_id} forgotten" in said(pilot))
        await shows(pilot, "is no longer in the store")

    drive(world.board(), use)
    assert not there.exists()
    assert runs.every(world.database) == []


def test_a_run_whose_host_is_gone_is_forgotten_at_home_alone_once_what_is_given_up_was_named(world: World) -> None:
    world.hosts(gone={"ssh": "root@127.0.0.1:1", "price_per_hour": 12.4})
    world.run("tale-aaaaaa", host="gone", observed_at=1.0)
    world.checkpoint("tale-aaaaaa", 40, home=False)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "tale-aaaaaa")
        await pilot.press("delete")
        await shows(
            pilot,
            "Remove 1 run?",
            "nothing is deleted there: gone: root@127.0.0.1:1 refuses connections",
            "given up: 1 checkpoint (2.1 GB) only on gone: step 40",
        )
        await shows(pilot, "given up: its job: it was running when last seen", "removed at home only")
        await pilot.press("y")
        await until(pilot, lambda: "remove tale-aaaaaa done" in said(pilot))

    drive(world.board(), use)
    assert runs.every(world.database) == []


def test_a_run_that_may_not_be_removed_says_why_and_what_to_do(world: World) -> None:
    Path("exp.yaml").write_text(json.dumps({"name": "going", "task": "command", "command": ["sleep", "600"]}))
    run_id = json.loads(command("launch", "--host", "local", "exp.yaml", "--json"))["run_id"]
    eventually(lambda: json.loads(command("show", run_id, "--json"))["state"] == "running")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "going")
        await pilot.press("d")
        await until(pilot, lambda: f"going stays: {run_id} is running (armada stop {run_id})" in said(pilot))
        assert "Remove" not in screen(pilot)

    try:
        drive(world.board(), use)
    finally:
        command("stop", run_id, "--grace", "0")


def test_of_several_runs_those_that_stay_and_those_of_another_home_are_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"job": {"argv": ["true"]}, "experiment": {}}
    other = {"id": "ab" * 16, "label": "ada@desktop", "path": "/home/ada"}
    world.run("theirs-aaaaaa", spec={**spec, "home": other}, state="failed")
    world.run("ours-bbbbbb", spec={**spec, "home": own(world.home).as_json()}, state="failed")
    world.run("only-cccccc", name="only", spec=spec, state="failed")
    asked: list[list[str]] = []
    monkeypatch.setattr(
        "armada.tui.operations.start", lambda _home, _title, words, _tell, **_: asked.append(list(words))
    )
    kept = {"step": 5, "digest": "d", "size_bytes": 3_000_000_000}
    told = {
        "theirs-aaaaaa": {"kept_home": ["a", "b"], "host_error": None, "deleted_host": [kept, kept]},
        "ours-bbbbbb": {"kept_home": [], "host_error": "box: [bold]no route", "given_up": {"sentences": ["its log"]}},
        "only-cccccc": {"error": {"message": "1 checkpoint of it on box and nowhere else", "hint": "armada pull it"}},
    }
    checked: list[list[str]] = []

    def answer(words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        checked.append(list(words))
        tell(Answer(0, json.dumps(told[words[-1]]), ""))
        return nothing

    monkeypatch.setattr("armada.tui.operations.ask", answer)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "theirs", "ours", "only")
        await pilot.press("a", "d")
        await shows(
            pilot,
            "Remove 2 runs?",
            "theirs-aaaaaa on box, failed, launched by ada@desktop",
            "its folder with 2 checkpoints (6.0 GB) is deleted there;",
            "nothing is deleted there: box: [bold]no route",
            "given up: its log",
            "1 run of another home, not of this one",
        )
        seen = await shows(pilot, "only stays: 1 checkpoint of it on box and nowhere else")
        assert seen.index("only stays") < seen.index("theirs-aaaaaa on box"), "what stays is not below the fold"
        assert asked == []
        await pilot.press("y")

    drive(world.board(), use)
    assert sorted(words for words in checked if "--other-home" in words) == [
        ["rm", "--dry-run", "--json", "--other-home", "theirs-aaaaaa"]
    ]
    assert sorted(asked) == [
        ["rm", "--other-home", "theirs-aaaaaa"],
        ["rm", "--without-host", "ours-bbbbbb"],
    ]


def test_a_dashboard_that_only_shows_removes_nothing(world: World) -> None:
    world.run("over-aaaaaa", state="failed")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "over-aaaaaa")
        await pilot.press("d")
        await until(pilot, lambda: "remove: disabled" in said(pilot))
        assert len(heard(pilot)) == 1

    drive(world.board(read_only=True), use)


def _three_with_a_slow_check(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Three runs, and a check of each that answers only when a test calls what this returns."""
    answers: list[Callable[[], None]] = []
    for name in ("one", "two", "six"):
        world.run(f"{name}-aaaaaa", state="failed")
    found = json.dumps({"kept_home": [], "host_error": None, "deleted_host": []})

    def ask(_words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        answers.append(lambda: tell(Answer(0, found, "")))
        return lambda: answers.append(lambda: None)

    monkeypatch.setattr("armada.tui.operations.ask", ask)
    return answers


def test_escape_cancels_the_checks_of_several_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = _three_with_a_slow_check(world, monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-aaaaaa", "six-aaaaaa")
        await pilot.press("a", "d")
        await shows(pilot, "1 of 3: check what is lost with", "esc cancels")
        answers[0]()
        await shows(pilot, "2 of 3: check what is lost with")
        await pilot.press("y", "3", "escape")
        await lacks(pilot, "check what is lost")
        await until(pilot, lambda: "cancelled, nothing was changed" in said(pilot))
        await until(pilot, lambda: len(answers) == 3)  # the second check was ended, the third never began
        answers[1]()
        await pilot.pause()
        assert "Remove" not in screen(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)

    drive(world.board(), use)


def test_no_key_meant_for_another_window_answers_the_question(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`y` syncs on Runs, `:` opens the command line, and the palette opens over every window."""
    answers = _three_with_a_slow_check(world, monkeypatch)
    started: list[object] = []
    monkeypatch.setattr("armada.tui.operations.start", lambda *words, **_: started.append(words))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await pilot.press("d")
        await shows(pilot, "check what is lost with")
        await pilot.press("y", "colon", "7", "ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Palette))
        answers[0]()
        await pilot.press(*"why")
        await until(pilot, lambda: "why" in screen(pilot))
        assert "Remove 1 run?" not in screen(pilot)
        await pilot.press("escape")
        await shows(pilot, "Remove 1 run?", "one-aaaaaa")
        assert started == []

    drive(world.board(), use)


def test_a_check_ends_with_the_dashboard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = _three_with_a_slow_check(world, monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await pilot.press("d")
        await shows(pilot, "check what is lost with")
        assert len(answers) == 1
        await pilot.press("ctrl+c")

    drive(world.board(), use)
    assert len(answers) == 2


def test_a_cancelled_check_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "armada.tui.operations.command", lambda *words: [sys.executable, "-c", "import time; time.sleep(600)", *words]
    )
    answers: list[Answer] = []
    stop = REAL_ASK(["rm"], answers.append)
    stop()
    assert eventually(lambda: answers)[0].exit_code == -signal.SIGTERM
