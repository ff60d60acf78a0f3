"""End to end on a real SSH host, in a real terminal: launch, watch, open the chart, sync, stop, leave; all of it by keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.fleet.test_dashboard import SAVER
from tests.tui.terminal import WRITER, Terminal

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def terminal(armada: Armada) -> Iterator[Terminal]:
    armada.env.update(TERM="xterm-256color", LANG="C.UTF-8")
    made = Terminal(armada)
    yield made
    made.tmux("kill-server")


@pytest.mark.takes_long("a whole visit, as a person makes it, each step after the screen showed the one before")
def test_launch_watch_chart_sync_stop_and_leave_on_an_ssh_host(
    armada: Armada, fleet: Fleet, terminal: Terminal
) -> None:
    del armada.env["ARMADA_NO_DAEMON"]  # as a user has it: the dashboard's launch starts one
    up = fleet.host("workstation")
    added = armada.run("hosts", "add", "workstation", up.target, "--identity", str(machines.IDENTITY), "--yes")
    assert added.returncode == 0, added.stderr
    (armada.folder / "project").mkdir()
    armada.write("project/job.py", SAVER + WRITER)
    armada.command("python3", "job.py", name="curve", code="project")
    terminal.open()
    try:
        terminal.shows("Nothing has been launched yet")
        terminal.keys("n")
        terminal.shows("Type an experiment and a host")
        terminal.keys("C-o")
        terminal.shows("Which experiment?")
        terminal.keys("exp.yaml")
        terminal.shows(" exp.yaml  ")
        terminal.keys("Enter")
        terminal.shows("experiment    exp.yaml", "its name; local is this machine")
        terminal.keys("workstation")
        terminal.shows("one command on workstation", "^l launches this plan", within_s=120)
        terminal.keys("C-l")
        terminal.shows("curve", "1 running", "workstation", within_s=120)
        run_id = armada.json("ps", "--cached")[0]["run_id"]
        terminal.keys("Enter")
        terminal.shows(run_id, "because")
        terminal.keys("c")
        terminal.shows("loss (1 of 2)", within_s=120)
        eventually(lambda: any(0x2800 < ord(character) <= 0x28FF for character in terminal.shows("loss (1 of 2)")))
        terminal.keys("l")
        terminal.shows("step 3", "following", within_s=120)
        terminal.keys("y")
        eventually(lambda: any(c["home_path"] for c in armada.json("show", run_id)["checkpoints"]), within_s=120)
        terminal.keys("h")
        terminal.shows("checkpoint-7", "workstation", "5.0 kB", "home")
        terminal.keys("x")
        terminal.shows("Stop 1 run?", f"{run_id} on workstation")
        terminal.keys("y")
        eventually(lambda: armada.json("ps", "--cached")[0]["state"] == "cancelled", within_s=120)
        terminal.keys("1")
        terminal.shows("cancelled")
        terminal.keys("q")
        terminal.shows("continue: armada ps", "left with 0")
    finally:
        armada.run("daemon", "stop")
    (checkpoint,) = armada.json("show", run_id)["checkpoints"]
    manifest = json.loads((Path(checkpoint["home_path"]) / "MANIFEST.json").read_text())
    assert [file["path"] for file in manifest["files"]] == ["weights.bin"]
    assert fleet.run("workstation", f"pgrep -f '[{run_id[0]}]{run_id[1:]}' | wc -l").strip() == "0"
