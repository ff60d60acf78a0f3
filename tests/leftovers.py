"""Ending what a test left running: supervisors, jobs and daemons name their folder in command line or environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.waiting import eventually


def end_all(folder: Path) -> None:
    """Kill every process of armada's that belongs to a folder, until there is none: a job may start one meanwhile."""
    mark = re.compile(re.escape(os.fsencode(folder)) + rb"(?![^/\0:\"'])")
    eventually(lambda: not _kill_those_with(mark), f"the end of every process of {folder}")


def _kill_those_with(mark: re.Pattern[bytes]) -> bool:
    found = False
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            told = b"\0".join((Path(entry.path) / name).read_bytes() for name in ("cmdline", "environ"))
            if b"ARMADA_" in told and mark.search(told):
                os.kill(int(entry.name), signal.SIGKILL)
                found = True
    return found


@contextlib.contextmanager
def marked_processes(root: Path | str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Give a function that starts a process with armada's marks, such as `RUN_ID="a-1"`: by default it sleeps. All end with this."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, **marks: str) -> subprocess.Popen[bytes]:
        named = {f"ARMADA_{name}": value for name, value in {"ROOT": str(root), **marks}.items()}
        begun.append(subprocess.Popen(argv or ("sleep", "1000"), env={**os.environ, **named}))
        # For a moment after exec the kernel shows no environment.
        environment = Path(f"/proc/{begun[-1].pid}/environ")
        eventually(lambda: b"ARMADA_ROOT=" in environment.read_bytes(), "the marks of a process")
        return begun[-1]

    try:
        yield start
    finally:
        for each in begun:
            each.kill()
            each.wait()
