"""Kill what sees to a run: its supervisor, and the guardian that would take its job over."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from typing import Any


def kill_both(job: Mapping[str, Any]) -> None:
    """Leave a job without anybody who sees to it.

    Args:
        job: job.json of its submission.
    """
    for name in ("guardian", "supervisor"):
        if job.get(name):
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(job[name]["pid"], signal.SIGKILL)
