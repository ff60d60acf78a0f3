"""What all tests share: a home of their own, the command line as a user runs it, waiting without sleeping through."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell in the background ignores Ctrl-C for all it starts, and they for theirs: then none of our tests could press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def eventually(look: Callable[[], T], *, within_s: float = 60.0) -> T:
    """The first true thing `look` returns; fails once the deadline has passed."""
    deadline = time.monotonic() + within_s
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"not so within {within_s} s: {look}")
        time.sleep(0.05)


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

    def run(self, *arguments: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=timeout_s)
            return subprocess.CompletedProcess(arguments, process.returncode, out, err)

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

    @property
    def local_runs(self) -> Path:
        return self.folder / "home" / "state" / "local" / "runs"


@pytest.fixture
def armada(tmp_path: Path) -> Iterator[Armada]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ARMADA_", "WANDB_", "HF_"))}
    env |= {"ARMADA_HOME": str(tmp_path / "home"), "COLUMNS": "120", "ARMADA_NO_DAEMON": "1"}
    program = Armada(tmp_path, env)
    yield program
    for run in json.loads(program.run("ps", "--cached", "--json").stdout or "[]"):
        if run["state"] not in ("succeeded", "failed", "cancelled"):
            program.run("stop", run["run_id"], "--grace", "0")
