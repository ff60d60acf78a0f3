"""Start one cell as a process of its own, wait for it, and end it with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from armada_train.bench.cells import Cell

_LOOK_EVERY_S = 0.05
_MARK = "ARMADA_BENCH_CELL"
TIMED_OUT = -1000
"""In place of an exit code."""


class Child:
    """A running cell.

    Args:
        pid: Of its first process, which leads a session of its own.
        mark: Variable that all of its processes have; torchrun gives its ranks sessions of their own.
    """

    def __init__(self, pid: int, mark: str) -> None:
        self._pid = pid
        self._mark = f"{_MARK}={mark}".encode()
        self._started = time.monotonic()
        self.seconds = 0.0

    def wait(self, timeout_s: float, beat: Callable[[], None]) -> int:
        """Wait for the end and return the exit code, negative for a signal; `TIMED_OUT` after too long."""
        try:
            while True:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                self.seconds = time.monotonic() - self._started
                if pid:
                    return os.waitstatus_to_exitcode(status)
                if self.seconds > timeout_s:
                    self.kill()
                    os.waitpid(self._pid, 0)
                    return TIMED_OUT
                beat()
                time.sleep(_LOOK_EVERY_S)
        finally:
            self._kill_left()

    def kill(self) -> None:
        """End the cell at once."""
        self._kill_left()

    def _kill_left(self) -> None:
        """End what is left of the cell: a process that hangs in CUDA keeps the memory that the next cell needs."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        for pid in self._marked():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _marked(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if self._mark in (entry / "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)


def start_cell(cell: Cell, folder: Path) -> Child:
    """Start a cell by accelerate's launcher, as a training is started."""
    mark = f"{os.getpid()}-{cell.number}"
    words = ["-m", "armada_train.launch", "--config_file", cell.accelerate, "--spec", str(folder / "spec.json")]
    process = subprocess.Popen([sys.executable, *words], env={**cell.variables(), _MARK: mark}, start_new_session=True)
    return Child(process.pid, mark)


def fork_cell(cell: Cell, folder: Path) -> Child:
    """Fork a cell of one process from this one, which has imported everything and not started CUDA."""
    mark = f"{os.getpid()}-{cell.number}"
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Child(pid, mark)
    code = 70
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        code = _train(cell, folder, {**cell.variables(), _MARK: mark})
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _train(cell: Cell, folder: Path, environment: Mapping[str, str]) -> int:
    """Train in this process, as accelerate's launcher for one process would start it."""
    import torch
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_simple_launcher_cmd_env

    from armada_train.__main__ import main

    os.environ.clear()
    os.environ.update(environment)
    words = ["--config_file", cell.accelerate, "-m", "armada_train", "--spec", str(folder / "spec.json")]
    arguments, _, _ = launch._validate_launch_command(launch.launch_command_parser().parse_args(words))  # noqa: SLF001
    _, prepared = prepare_simple_launcher_cmd_env(arguments)
    os.environ.update(prepared)
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))  # torch read the variable when it was imported
    return main(["--spec", str(folder / "spec.json")])
