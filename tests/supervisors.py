"""Kill what sees to a run: its supervisor, and the guardian that would take its job over."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from typing import Any


def kill_both(job: Mapping[str, Any]) -> None:
    """Leave a job without anybody who sees to it.

    Args:
        job: job.json of its submission.
    """
    kill_all(job[name]["pid"] for name in ("guardian", "supervisor") if job.get(name))


def kill_all(pids: Iterable[int]) -> None:
    """Kill processes; one that has ended by itself meanwhile is as dead."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
