"""Let rank 0 do some work before the other ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder

_BETWEEN_LOOKS_S = 0.05


def as_main_first(run: RunFolder, heartbeat: Heartbeat, work: Callable[[], Any]) -> Any:
    """Let rank 0 do some work first; the other ranks then find it done.

    They wait for a file and not in a collective, which would time out however well the work proceeds. If rank 0 fails,
    the launcher ends the waiting ranks.
    """
    # Each start has a new port from the launcher, so a marker of an earlier start does not apply.
    marker = run.attempt_folder / f".prepared-{os.environ.get('MASTER_PORT', '0')}"
    if run.is_main:
        result = work()
        if run.world_size > 1:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
        return result
    while not marker.exists():
        heartbeat.beat("preparing")
        time.sleep(_BETWEEN_LOOKS_S)
    return work()
