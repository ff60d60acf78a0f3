"""The common parts of all sources of metrics, and the first source: the job's own log."""

import time
from typing import Any, Callable, Dict, Optional

from armada_agent.metrics.recorder import Recorder
from armada_agent.metrics.tail import Tail
from armada_agent.metrics.trainer_log import TrainerLog

LOG_BYTES = 4 * 1024 * 1024  # per poll: as much as is parsed in 0.1 s
_MOST_LOOKS = 64


class Source:
    """A place where a job writes metrics.

    Attributes:
        rank: If several sources report the same metric, the lowest rank counts.
        name: The source's name in metrics.jsonl.
    """

    rank = 0
    name = ""

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read new metrics in bounded pieces.

        Args:
            recorder: Receives the metrics.
            final: The job has ended, so incomplete records stay incomplete.
        """
        raise NotImplementedError

    @property
    def mark(self) -> Any:
        """The position up to which it was read, as JSON, for another supervisor of the run."""
        return None


class LogSource(Source):
    """The dictionaries that the Trainer prints to output.log.

    Args:
        path: The log.
        mark: The position up to which a killed supervisor of the same attempt has read. None: the log's present content
            is from earlier attempts.
        clock: Returns unix time.
    """

    rank = 3
    name = "log"

    def __init__(self, path: str, mark: Optional[Dict[str, Any]], clock: Callable[[], float] = time.time) -> None:
        self._tail = Tail(path, mark=mark)
        if mark is None:
            self._tail.skip_to_end()
        self._reader = TrainerLog()
        self._clock = clock
        self._has_waited = False

    @property
    def mark(self) -> Any:
        """The position up to which the log was read."""
        return self._tail.mark

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read on. If no progress bar follows a dictionary until the next poll, it has the step of the bar before it."""
        had_waiting = self._reader.is_waiting
        for _ in range(_MOST_LOOKS if final else 1):
            before = self._tail.offset
            for line in self._tail.lines(LOG_BYTES, final, at_returns=True):
                self._reader.take(line.decode("utf-8", "replace"))
            if self._tail.offset == before:
                break
        if final or had_waiting:
            self._reader.settle()
        self._give(recorder)

    def learn(self, per_epoch: float, total: Optional[int], every: int) -> None:
        """Set the relation of epochs and steps, from the Trainer's state."""
        self._reader.learn(per_epoch, total, every)

    def _give(self, recorder: Recorder) -> None:
        for printed in self._reader.found:
            recorder.add(
                (self.rank, self.name), printed.step, printed.numbers, self._clock(), printed.kind, printed.is_counted
            )
            if printed.is_counted:
                recorder.tell(
                    "counted",
                    "the log names no steps: those of its curves count the lines with a loss, until a file tells more",
                )
        del self._reader.found[:]
        recorder.note_progress(self.rank, self._reader.step, self._reader.total)
        if self._tail.skipped_bytes:
            message = "the log grows faster than curves are read from it: %d MB of it were passed over"
            recorder.tell("flood", message % (self._tail.skipped_bytes // 1000000))
