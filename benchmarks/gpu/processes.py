"""Start a program of a check, and end it with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

TIMED_OUT = -1000
"""In place of an exit code."""

_LOOK_EVERY_S = 0.05


def run_to_end(
    argv: list[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
    limit_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run a program in a session of its own and return its exit code, negative for a signal.

    Whatever has `folder` in its variables or its command is ended afterwards: it would keep the memory of the GPU.

    Args:
        argv: The program.
        folder: It starts there.
        log: Gets what it prints.
        environment: All of its variables.
        limit_s: After it, it is killed.
        clock: In seconds.
    """
    until = clock() + limit_s
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**environment, "ARMADA_GPU_FOLDER": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    code: int | None = None
    try:
        while (code := process.poll()) is None and clock() < until:
            time.sleep(_LOOK_EVERY_S)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        end_all_of(folder)
        process.wait()
    return TIMED_OUT if code is None else code


def end_all_of(folder: Path) -> None:
    """Kill the processes that name a folder in their variables or their command, other than this one."""
    for pid in processes_of(folder):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def processes_of(folder: Path, also: str = "") -> list[int]:
    """List the processes that name a folder, and `also`, in their variables or their command."""
    # A neighbour's name may begin with the folder's own.
    marks, found = [os.fsencode(f"{folder}{end}") for end in ("/", "\0")], []
    ancestors = {os.getpid(), os.getppid()}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if not entry.name.isdecimal() or int(entry.name) in ancestors:
            continue
        with contextlib.suppress(OSError):
            said = (entry / "environ").read_bytes() + b"\0" + (entry / "cmdline").read_bytes()
            if any(mark in said for mark in marks) and os.fsencode(also) in said:
                found.append(int(entry.name))
    return found
