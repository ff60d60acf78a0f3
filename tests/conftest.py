"""What all tests share: a home of their own, and the command line as a user runs it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import fork_server
from tests.chance import ARMADA_SEED
from tests.leftovers import end_all
from tests.waiting import eventually as eventually  # noqa: PLC0414  # tests import it from here, too

pytest_plugins = ["tests.plugins.pressed_keys", "tests.plugins.repeats", "tests.plugins.turns"]

# Hypothesis throws the same dice every time, as `tests.chance` does; where others are asked for, it prints how to throw those again.
hypothesis.settings.register_profile("armada", derandomize=not ARMADA_SEED, print_blob=True, deadline=None)
hypothesis.settings.load_profile("armada")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell in the background ignores Ctrl-C for all it starts, and they for theirs: then none of our tests could press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # So does nohup with the end of the terminal.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass(frozen=True)
class Armada:
    """The command line, in a home of its own."""

    folder: Path
    env: dict[str, str]

    def start(self, *arguments: str, **kwargs: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "armada", *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def run(self, *arguments: str, timeout_s: float = 240.0, process: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command to its end.

        Args:
            arguments: The words after `armada`.
            timeout_s: When to give up; there to end a hopeless test, never to measure.
            process: Start the interpreter anew, for tests about how it starts and ends.
        """
        if not process and fork_server.suits(self.env):
            return fork_server.running().run(arguments, cwd=self.folder, env=self.env, timeout_s=timeout_s)
        with self.start(*arguments) as started:
            out, err = started.communicate(timeout=timeout_s)
            return subprocess.CompletedProcess(arguments, started.returncode, out, err)

    def json(self, *arguments: str, rc: int | None = 0) -> Any:
        answer = self.run(*arguments, "--json")
        assert rc is None or answer.returncode == rc, answer.stderr + answer.stdout
        return json.loads(answer.stdout)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def command(self, *argv: str, name: str = "test", **more: Any) -> str:
        """An experiment file with a command; JSON is YAML."""
        return self.write("exp.yaml", json.dumps({"name": name, "task": "command", "command": list(argv), **more}))

    def await_end(self, run_id: str) -> None:
        """Wait until a run on `local` has ended, by what its supervisor wrote: asking armada takes a hundred times as long."""
        state = self.local_runs / run_id / "state.json"
        ends = ("succeeded", "failed", "cancelled")
        eventually(lambda: state.exists() and json.loads(state.read_text())["state"] in ends, f"the end of {run_id}")

    @property
    def local_runs(self) -> Path:
        return self.folder / "home" / "state" / "local" / "runs"


@pytest.fixture
def armada(tmp_path: Path) -> Iterator[Armada]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ARMADA_", "WANDB_", "HF_"))}
    env.pop("FORCE_COLOR", None)  # tests read plain words
    env |= {"ARMADA_HOME": str(tmp_path / "home"), "COLUMNS": "120", "ARMADA_NO_DAEMON": "1"}
    program = Armada(tmp_path, env)
    yield program
    for host, run_id in _unfinished(program):
        if host != "local":
            program.run("stop", run_id, "--grace", "0")
    if (tmp_path / "home").exists():
        end_all(tmp_path)


def _unfinished(program: Armada) -> list[tuple[str, str]]:
    """Hosts and ids of the runs that may go on; none where the test left no store, or a damaged one."""
    store = program.folder / "home" / "state" / "armada.db"
    if not store.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(store)) as database:
            return database.execute(
                "SELECT host, run_id FROM runs WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
            ).fetchall()
    except sqlite3.Error:
        return []


def pytest_sessionfinish() -> None:
    fork_server.end()
