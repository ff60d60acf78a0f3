"""One end-to-end test in a real terminal: launch, see it come, open its chart, stop it, leave."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.store.database import Database
from tests.conftest import Armada, eventually
from tests.tui.terminal import WRITER, Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


@pytest.fixture
def terminal(armada: Armada) -> Iterator[Terminal]:
    armada.env.update(TERM="xterm-256color", LANG="C.UTF-8")
    made = Terminal(armada)
    yield made
    made.tmux("kill-server")


def test_launch_watch_chart_log_stop_and_leave(armada: Armada, terminal: Terminal) -> None:
    terminal.open()
    terminal.shows("1 of 5", "What armada does")
    terminal.keys("Escape")
    terminal.shows("Nothing has been launched yet")
    run_id = armada.json("launch", "--host", "local", armada.command(sys.executable, "-c", WRITER, name="curve"))[
        "run_id"
    ]
    terminal.shows("curve", "1 running", "local")
    terminal.shows("│ step ")  # the end of its log, in the preview
    terminal.keys("Enter")
    terminal.shows(run_id, "because")
    terminal.keys("c")
    seen = terminal.shows("loss (1 of 2)")
    eventually(lambda: any(0x2800 < ord(character) <= 0x28FF for character in terminal.shows("loss (1 of 2)")))
    assert "left with" not in seen
    terminal.keys("x")
    terminal.shows("Stop 1 run?", run_id)
    terminal.keys("y")
    eventually(lambda: armada.json("ps", "--cached")[0]["state"] == "cancelled")
    terminal.keys("1")
    terminal.shows("cancelled")
    terminal.keys("q")
    terminal.shows("continue: armada ps", "left with 0")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [("PRAGMA user_version = 999", "→ update armada"), ("DROP TABLE runs", "→ armada recover")],
)
def test_a_store_that_cannot_be_used_is_said_before_the_screen_is_taken(
    armada: Armada, terminal: Terminal, spoil: str, said: str
) -> None:
    store = armada.folder / "home" / "state" / "armada.db"
    Database(store).close()
    with contextlib.closing(sqlite3.connect(store)) as raw:
        raw.execute(spoil)
        raw.commit()
    terminal.open()
    terminal.shows(said)
    if "update" in said:
        terminal.shows("left with 2")


def test_a_store_that_another_program_has_locked_is_said_to_be_before_the_screen_is_taken(
    armada: Armada, terminal: Terminal
) -> None:
    store = armada.folder / "home" / "state" / "armada.db"
    Database(store).close()
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as thief:
        thief.execute("PRAGMA locking_mode = EXCLUSIVE")
        thief.execute("UPDATE runs SET step = 1")
        terminal.open()
        terminal.shows("another program has locked the store")
    terminal.shows("1 of 5", "What armada does")


def test_bytes_that_are_no_text_neither_end_it_nor_reach_the_shell(armada: Armada, terminal: Terminal) -> None:
    Database(armada.folder / "home" / "state" / "armada.db").close()
    hosts = armada.folder / "home" / "config" / "hosts.yaml"
    hosts.parent.mkdir(exist_ok=True)
    hosts.write_text("hosts: {}\n")  # no newcomer: no tour
    terminal.open()
    terminal.shows("Nothing has been launched yet")
    pasted = armada.folder / "pasted"
    pasted.write_bytes(b"\xe9\xff\x1b[1114112;5u\x1b[<99999999999999999999;1;1M\xff")
    terminal.tmux("load-buffer", str(pasted))
    terminal.tmux("paste-buffer")
    terminal.keys("3")
    terminal.shows("DISK FREE")
    terminal.keys("q")
    terminal.shows("The dashboard is closed", "left with 0")


def test_ctrl_c_ends_a_forward_and_not_the_dashboard(armada: Armada, terminal: Terminal) -> None:
    programs = armada.folder / "programs"
    programs.mkdir()
    connects = 'case "$*" in *"-N -T"*) echo begun; exec sleep 600;; esac'
    (programs / "ssh").write_text(f'#!/bin/sh\n{connects}\nexec {shutil.which("ssh")} "$@"\n')
    (programs / "ssh").chmod(0o755)
    armada.env["PATH"] = f"{programs}:{armada.env['PATH']}"
    hosts = Path(armada.env["ARMADA_HOME"]) / "config" / "hosts.yaml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text("hosts: {far: {ssh: root@192.0.2.1}}\n")
    terminal.open()
    terminal.shows("Nothing has been launched yet")
    terminal.keys("3")
    terminal.shows("far")
    terminal.keys("Home")
    terminal.keys(":")
    terminal.shows("─ Command ─")
    terminal.keys("forward 6006", "Enter")
    terminal.shows("localhost:6006 is port 6006 of far until you press Ctrl-C")
    terminal.keys("C-c")
    seen = terminal.shows("─ Hosts ─")
    assert "left with" not in seen
    terminal.keys("q")
    terminal.shows("left with 0")


def test_a_note_is_written_in_an_editor_and_the_dashboard_comes_back(armada: Armada, terminal: Terminal) -> None:
    editor = armada.folder / "editor"
    editor.write_text('#!/bin/sh\nprintf "of the editor" > "$1"\n')
    editor.chmod(0o755)
    armada.env.update(EDITOR=str(editor), VISUAL=str(editor))
    run_id = armada.json("launch", "--host", "local", armada.command("true", name="edited"))["run_id"]
    terminal.open()
    terminal.shows("edited")
    terminal.keys(":")
    terminal.shows("─ Command ─")
    terminal.keys("note --edit", "Enter")
    terminal.shows("─ Runs")
    eventually(lambda: armada.json("show", "--json", run_id)["note"] == "of the editor")
    terminal.keys("q")
    terminal.shows("left with 0")
