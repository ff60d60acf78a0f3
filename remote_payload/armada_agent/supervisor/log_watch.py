"""Write the heartbeat of a job that writes none: it counts as alive while its log grows."""

import os
import time
from typing import Any, Callable, Dict, Optional, Tuple

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.paths import RunPaths

_INTERVAL_S = 1.0


class LogWatch:
    """Writes heartbeat-0.json, whose time is that of the job's last output.

    Args:
        paths: The run's files.
        attempt: The number of the attempt.
        find_step: Returns the step of the last checkpoint.
        clock: Returns unix time.
    """

    def __init__(
        self,
        paths: RunPaths,
        attempt: int,
        find_step: Callable[[], Optional[int]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._attempt = attempt
        self._find_step = find_step
        self._clock = clock
        self._looked_at = 0.0
        self._said: Optional[Tuple[int, Optional[int]]] = None

    def look(self) -> None:
        """Write a heartbeat if the log has grown or a checkpoint was taken since the last check. Check at most once a second."""
        now = self._clock()
        if 0 <= now - self._looked_at < _INTERVAL_S:
            return
        self._looked_at = now
        try:
            size = os.stat(self._paths.output).st_size
        except OSError:
            return
        said = (size, self._find_step())
        if said == self._said:
            return
        self._said = said
        beat: Dict[str, Any] = {
            "rank": 0,
            "phase": "running",
            "step": said[1],
            "total_steps": None,
            "time": now,
            "attempt": self._attempt,
        }
        try:
            files.replace_json(os.path.join(self._paths.folder, "heartbeat-0.json"), beat)
        except OSError as error:
            say("the heartbeat cannot be written: %s" % error)
