"""The check that every key of the dashboard is pressed by a test: what it says, and when it says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.pressed_keys import all_declared

ROOT = Path(__file__).parents[1]
BOARD = """
from textual.app import App
from textual.binding import Binding
from textual.widgets import Input

class Board(App[None]):
    BINDINGS = [Binding("a,f1", "add(1)", "add"), Binding("U,shift+u", "undo", "undo")]
    total = 0

    def compose(self):
        yield Line()

    def action_add(self, by):
        self.total += by

    def action_undo(self):
        self.total = 0

class Line(Input):
    BINDINGS = [Binding("tab", "complete", "complete")]

    async def on_key(self, event):
        if event.key == "tab":
            event.stop()
            event.prevent_default()
            await self.run_action("complete")

    def action_complete(self):
        self.app.total += 10
"""
CONFTEST = """
from pathlib import Path
from tests.plugins.pressed_keys import PressedKeys

def pytest_configure(config):
    config.pluginmanager.register(PressedKeys(config, Path(__file__).parent / "tui", "board"))
"""
TEST = """
import asyncio
from board.app import Board

def use(*keys, focus=False):
    async def go():
        board = Board()
        async with board.run_test() as pilot:
            if not focus:
                board.set_focus(None)
            await board.run_action("add(1)")  # nothing pressed it
            await pilot.press(*keys)
            return board.total
    return asyncio.run(go())
"""
HEAD, ALL = "keys of the dashboard that no test presses", "all 4 keys of the dashboard were pressed"
MISSING = "board.app.Board binds 'f1' to add(1), and no test presses it there."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Tests of a small dashboard that press all its keys but one."""
    for name, text in {
        "board/__init__.py": "",
        "board/app.py": BOARD,
        "conftest.py": CONFTEST,
        "pytest.ini": "[pytest]\nmarkers = long: left out\n",
        "tui/test_line.py": f"{TEST}\ndef test_tab():\n    assert use('tab', focus=True) == 11\n",
        "tui/test_board.py": f"{TEST}\ndef test_a():\n    assert use('a') == 2\n\ndef test_undo():\n    assert use('U') == 0\n",
        "unit/test_f1.py": f"{TEST}\ndef test_f1_elsewhere():\n    assert use('f1') == 2\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def session(project: Path, *options: str) -> tuple[int, list[str]]:
    """Run pytest there; its exit code, and what it said of keys."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    env |= {"PYTHONPATH": f"{project}{os.pathsep}{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", *options]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert "INTERNALERROR" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode, [
        line.strip(" =") for line in done.stdout.splitlines() if " binds " in line or "keys of " in line
    ]


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "2"]])
def test_a_key_that_no_test_presses_fails_the_session(project: Path, workers: list[str]) -> None:
    assert session(project, *workers) == (1, [HEAD, MISSING])
    with (project / "tui" / "test_line.py").open("a") as file:
        file.write("\ndef test_f1():\n    assert use('f1') == 2\n")
    assert session(project, *workers) == (0, [ALL])


@pytest.mark.parametrize(
    "options",
    [
        ["-k", "undo"],
        ["tui/test_board.py"],
        ["tui/test_board.py::test_undo", "tui/test_line.py"],
        ["--ignore", "tui/test_line.py"],
        ["--collect-only"],
        ["unit"],
    ],
)
def test_a_session_of_some_tests_says_nothing(project: Path, options: list[str]) -> None:
    assert session(project, *options) == (0, [])


def test_after_a_failure_the_failure_alone_is_said(project: Path) -> None:
    with (project / "tui" / "test_line.py").open("a") as file:
        file.write("\ndef test_wrong():\n    assert use('tab', focus=True) == 0\n")
    assert session(project) == (1, [])


def test_long_tests_may_be_left_out_and_skipped_ones_count_as_there(project: Path) -> None:
    with (project / "tui" / "test_line.py").open("a") as file:
        file.write("\nimport pytest\n\n@pytest.mark.long\ndef test_f1():\n    assert use('f1') == 2\n")
        file.write("\n@pytest.mark.skip\ndef test_browser():\n    pass\n")
    (project / "tui" / "test_only_long.py").write_text(
        "import pytest\n\n@pytest.mark.long\ndef test_hours():\n    pass\n"
    )
    assert session(project, "-m", "not long") == (1, [HEAD, MISSING])
    assert session(project) == (0, [ALL])


def test_the_keys_of_the_dashboard_are_found() -> None:
    found = {(bound.owner.rpartition(".")[2], bound.key, bound.action) for bound in all_declared("armada.tui")}
    assert {("RunsScreen", "x", "stop"), ("Dashboard", "f1", "help"), ("Chooser", "pageup", "step(-10)")} <= found
    assert not [each for each in found if each[0] in ("Input", "DataTable")], "what Textual binds is not ours"
