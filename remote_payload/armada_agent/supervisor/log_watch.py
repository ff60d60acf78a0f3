"""Write the heartbeat of a job that writes none: it counts as alive while its log grows."""

import os
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.paths import RunPaths

_INTERVAL_S = 1.0


class Reached(NamedTuple):
    """A job's progress: its step, the total number of steps, and a number that grows with each report of its training."""

    step: Optional[int]
    total_steps: Optional[int]
    told: int


class LogWatch:
    """Writes heartbeat-0.json, whose time is that of the job's last output.

    Args:
        paths: The run's files.
        attempt: The number of the attempt.
        find_reached: Returns the job's progress.
        clock: Returns unix time.
    """

    def __init__(
        self,
        paths: RunPaths,
        attempt: int,
        find_reached: Callable[[], Reached],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._attempt = attempt
        self._find_reached = find_reached
        self._clock = clock
        self._looked_at = 0.0
        self._said: Optional[Tuple[int, Reached]] = None

    def look(self, at_once: bool = False) -> None:
        """Write a heartbeat if the log has grown, a checkpoint was taken or the training advanced since the last check.

        It checks at most once a second, unless `at_once`.
        """
        now = self._clock()
        if 0 <= now - self._looked_at < _INTERVAL_S and not at_once:
            return
        self._looked_at = now
        try:
            size = os.stat(self._paths.output).st_size
        except OSError:
            return
        said = (size, self._find_reached())
        if said == self._said:
            return
        self._said = said
        beat: Dict[str, Any] = {
            "rank": 0,
            "phase": "running",
            "step": said[1].step,
            "total_steps": said[1].total_steps,
            "time": now,
            "attempt": self._attempt,
        }
        try:
            files.replace_json(os.path.join(self._paths.folder, "heartbeat-0.json"), beat)
        except OSError as error:
            say("the heartbeat cannot be written: %s" % error)
