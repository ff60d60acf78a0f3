"""Moments at which tests end a process: steps of its work, so that on a slow machine too it had got that far, and a bit later."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import Armada

Moment = Callable[[], object] | None
"""A step of a process's work; None for the first, where it loads armada. Before that there is only Python's own start, which
Ctrl-C ends with Python's own words."""
LATER_S = 0.15
"""At most so long after a moment a process is ended: whatever it does then."""


def times(short: int) -> int:
    """How often a fault is made: `short`, or what ARMADA_FAULT_KILLS says in the long form."""
    return int(os.environ.get("ARMADA_FAULT_KILLS", str(short)))


def end_after(process: subprocess.Popen[str], moment: Moment, end: Callable[[], None], chance: Random) -> bool:
    """Wait for a moment of a process and end it a little later.

    Returns:
        Whether it lived still: it may have come to its end by itself before.
    """
    seen = moment or (lambda: _loads_armada(process.pid))
    eventually(lambda: seen() or process.poll() is not None)
    try:
        process.wait(chance.uniform(0.0, LATER_S))
    except subprocess.TimeoutExpired:
        end()
        return True
    return False


def of_a_launch(armada: Armada) -> list[Moment]:
    """The steps of the next launch on `local`: begun, recorded at home, made there, claimed, started."""
    rows, paths = _operations(armada), set(armada.local_runs.rglob("*"))

    def made(pattern: str) -> Moment:
        return lambda: any(path not in paths for path in armada.local_runs.glob(pattern))

    return [
        None,
        lambda: _operations(armada) > rows,
        made("[!.]*"),
        made("*/submissions/1/claim.json"),
        made("*/attempts/1"),
    ]


def _loads_armada(pid: int) -> bool:
    """Whether it has come to the first library that armada's command line needs."""
    try:
        return "_sqlite3" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False  # it has ended


def _operations(armada: Armada) -> int:
    store = armada.folder / "home" / "state" / "armada.db"
    if not store.exists():
        return 0
    with contextlib.closing(sqlite3.connect(store)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM operations").fetchone()[0])
        except sqlite3.OperationalError:  # it is just being made
            return 0
