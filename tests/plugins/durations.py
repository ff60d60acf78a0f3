"""Write down what each test took, one JSON line each: `--durations-file .durations.jsonl`; tests/tools/durations.py reads it.

Each process (xdist's workers too) appends its own lines. CPU is that of the process and of the children that a test waited for;
daemons and hosts that it left running are not in it.
"""

from __future__ import annotations

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
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return answer


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
