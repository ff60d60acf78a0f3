"""Write down what each test took, one JSON line each: `--durations-file .durations.jsonl`; tests/tools/durations.py reads it.

Each process (xdist's workers too) appends its own lines. CPU is that of the process, of the servers that fork commands and trainings
for it, and of all that either waited for; daemons and the hosts' own processes are not in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", type=Path, help="append what each test took here, as JSON lines")


def pytest_configure(config: pytest.Config) -> None:
    if (path := config.getoption("--durations-file")) is not None:
        config.pluginmanager.register(_Durations(config.invocation_params.dir / path))


class _Durations:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker = os.environ.get("PYTEST_XDIST_WORKER", "main")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        when, wall, cpu = time.time(), time.monotonic(), _cpu_s()
        answer = yield
        line = {
            "test": item.nodeid,
            "wall_s": round(time.monotonic() - wall, 3),
            "cpu_s": round(_cpu_s() - cpu, 3),
            "worker": self._worker,
            "when": round(when, 3),
        }
        if (marker := item.get_closest_marker("takes_long")) is not None:
            line["why"] = marker.args[0]
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return answer


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + sum(map(_of_child, _children()))


def _children() -> list[str]:
    """Pids of the children that live; none where there is no /proc."""
    found: list[str] = []
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread has ended
            found += listed.read_text().split()
    return found


def _of_child(pid: str) -> float:
    """CPU seconds of a living child and of what it waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
