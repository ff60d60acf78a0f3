"""Identify a process at home, to check later whether it is still alive: a pid alone may be reused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process of this machine. None means that a value could not be read. `start_time` is opaque and only compared."""

    pid: int
    start_time: str | None
    boot_id: str | None


def current() -> Process:
    """Return this process."""
    return process_info(os.getpid())


def process_info(pid: int) -> Process:
    """Return the process that has this pid now, or had it a moment ago."""
    return Process(pid, _start_time(pid), boot_id())


def lives(process: Process) -> bool:
    """Return whether the process is alive. A zombie is not."""
    if process.boot_id is not None and process.boot_id != boot_id():
        return False
    found = _start_time(process.pid)
    if found is not None and process.start_time is not None:
        return found == process.start_time
    return found is not None


def boot_id() -> str | None:
    """Return an id that changes when the machine is restarted."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _say("sysctl", "-n", "kern.boottime")


def _start_time(pid: int) -> str | None:
    """Return when a process started, as the system reports it; None if there is no such process."""
    if sys.platform == "linux":
        try:
            # After the name, which may contain spaces and parentheses: state is field 3, start is field 22.
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return fields[19] if fields[0] not in "ZX" else None
    return _say("ps", "-o", "lstart=", "-p", str(pid))


def _say(*argv: str) -> str | None:
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
