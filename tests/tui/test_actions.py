"""What is done from the dashboard: the same commands, as processes of their own, on the local host."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.store import operations, runs
from tests.conftest import Armada
from tests.tui.conftest import World, drive, heard, said, shows, until
from tests.waiting import eventually


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return Armada(Path.cwd(), dict(os.environ)).run(*words)


def followers(run_id: str) -> int:
    """How many processes follow a log."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            lines.append((folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0"))
    return sum({"logs", "--follow", run_id} <= set(line) for line in lines)


@pytest.fixture
def sleeper(world: World) -> Iterator[str]:
    """A real run on `local` that prints and goes on."""
    script = "echo hello from the run; exec sleep 600"
    Path("exp.yaml").write_text(json.dumps({"name": "sleeper", "task": "command", "command": ["sh", "-c", script]}))
    launched = command("launch", "--host", "local", "exp.yaml", "--json")
    assert launched.returncode == 0, launched.stderr
    run_id = json.loads(launched.stdout)["run_id"]
    yield run_id
    if not runs.find(world.database, run_id).ended:
        command("stop", run_id, "--grace", "0")


def test_a_real_run_is_seen_its_log_read_and_stopped_after_a_question(world: World, sleeper: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "sleeper", "hello from the run")
        await pilot.press("l")
        await shows(pilot, "hello from the run", "following")
        await pilot.press("escape", "x")
        await shows(pilot, "Stop 1 run?", f"{sleeper} on local")
        await pilot.press("y")
        await shows(pilot, "cancelled", "stop")
        await until(pilot, lambda: runs.find(world.database, sleeper).state == "cancelled")
        await until(pilot, lambda: "done" in said(pilot))
        await pilot.press("enter", "x", "1")
        await shows(pilot, "1 of 1 runs")
        await pilot.press("u")
        await shows(pilot, "Resume 1 run?", f"{sleeper} on local")
        await pilot.press("y")
        await until(pilot, lambda: runs.find(world.database, sleeper).submission == 2)
        # Nobody watches here: what the resume saw of the run, just handed over, stays until somebody looks.
        await until(pilot, lambda: json.loads(command("ps", "--json").stdout)[0]["state"] == "running")
        await shows(pilot, "1 running")
        await pilot.press("u")
        await until(pilot, lambda: "resume: sleeper is running: x stops it first" in said(pilot))

    drive(world.board(), use)
    for kind in ("stop", "resume"):
        (done,) = operations.of_run(world.database, sleeper, kind=kind)
        assert done.state == "done"


def test_a_log_that_is_not_at_home_is_fetched_and_followed_until_the_screen_is_left(world: World) -> None:
    world.hosts(here={"local": True})
    script = "echo word 1; echo word 2; until [ -e more ]; do sleep 0.05; done; echo word 3; echo word 4; sleep 600"
    Path("exp.yaml").write_text(json.dumps({"name": "talker", "task": "command", "command": ["sh", "-c", script]}))
    launched = command("launch", "--host", "here", "exp.yaml", "--json")
    assert launched.returncode == 0, launched.stderr
    run_id = json.loads(launched.stdout)["run_id"]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "talker", "press l to follow")
        await pilot.press("l")
        await shows(pilot, "word 1", "word 2")
        (world.home.local_root / "runs" / run_id / "work" / "more").touch()
        await shows(pilot, "word 1", "word 4")
        assert followers(run_id) == 1
        await pilot.press("escape")
        await until(pilot, lambda: followers(run_id) == 0)

    try:
        drive(world.board(), use)
    finally:
        command("stop", run_id, "--grace", "0")


def test_a_followed_log_begins_with_what_sync_brought_home(world: World) -> None:
    world.hosts(here={"local": True})
    script = "for n in 1 2 3 4 5 6 7 8 9; do echo word $n; done; sleep 600"
    Path("exp.yaml").write_text(json.dumps({"name": "talker", "task": "command", "command": ["sh", "-c", script]}))
    run_id = json.loads(command("launch", "--host", "here", "exp.yaml", "--json").stdout)["run_id"]
    home = world.home.run(run_id) / "outputs" / "output.log"
    home.parent.mkdir(parents=True)
    home.write_text("word 1\nword 2\nword 3")  # as sync may bring it: cut in the middle of a line

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "talker")
        await pilot.press("l")
        seen = await shows(pilot, "word 1", "word 9")
        lines = [line.strip("│ ").lstrip("0123456789 ") for line in seen.splitlines()]  # without their numbers
        assert [line for line in lines if line.startswith("word ")][:9] == [f"word {n}" for n in range(1, 10)]
        assert "its end" not in seen

    try:
        drive(world.board(), use)
    finally:
        command("stop", run_id, "--grace", "0")


def test_without_a_daemon_a_child_looks_at_the_hosts(world: World, sleeper: str) -> None:
    before = runs.find(world.database, sleeper).observed_at or 0.0

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: (runs.find(world.database, sleeper).observed_at or 0.0) > before)

    drive(world.board(watch=True), use)


def test_a_launch_from_the_dashboard_outlives_it(world: World) -> None:
    Path("exp.yaml").write_text(json.dumps({"name": "outlive", "task": "command", "command": ["true"]}))

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await shows(pilot, "Type an experiment and a host")
        await pilot.press(*"exp", "full_stop", *"yaml", "tab", *"local")
        await shows(pilot, "^l launches this plan")
        await pilot.press("ctrl+l", "ctrl+c")  # left before the launch can have ended
        await until(pilot, lambda: not pilot.app.is_running)

    drive(world.board(), use)
    eventually(lambda: [run.name for run in runs.every(world.database)] == ["outlive"])
    eventually(lambda: [each.state for each in operations.recent(world.database)] == ["done"])
    (run,) = runs.every(world.database)
    eventually(lambda: command("ps", "--json").stdout and runs.find(world.database, run.run_id).state == "succeeded")


def test_a_command_that_fails_says_why_and_where_all_of_it_is(world: World) -> None:
    world.hosts(gone={"ssh": "root@127.0.0.1:1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "gone")
        await pilot.press("home", "c")
        await until(pilot, lambda: "ended with 4" in said(pilot))
        (note,) = [note for note in heard(pilot) if "ended with" in note]
        assert note.endswith("(7 shows its output)")

    drive(world.board(), use)


def test_a_store_of_a_newer_armada_is_refused_with_a_sentence(world: World) -> None:
    with contextlib.closing(sqlite3.connect(world.home.store)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    master, slave = os.openpty()
    refused = subprocess.run(
        [sys.executable, "-m", "armada"], stdin=slave, stdout=slave, stderr=slave, check=False, timeout=60
    )
    said = os.read(master, 65_536).decode()
    assert refused.returncode == 2
    assert "version 99" in said
    assert "\x1b[?1049h" not in said, "the terminal was not taken"


def test_without_a_terminal_armada_alone_is_help_and_the_dashboard_refuses(world: World) -> None:
    alone = command()
    assert (alone.returncode, "COMMAND" in alone.stdout) == (2, True)
    asked = command("dashboard")
    assert asked.returncode == 2
    assert "needs a terminal" in asked.stderr


def test_nothing_but_the_dashboard_imports_textual(world: World) -> None:
    program = "import sys; from armada.__main__ import main; main(['ps', '--cached']); print({'textual', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
