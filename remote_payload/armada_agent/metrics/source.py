"""The common parts of all sources of metrics, and the first source: the job's own log."""

import collections
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from armada_agent.metrics import past, values
from armada_agent.metrics.recorder import Recorder, now_or
from armada_agent.metrics.tail import Tail, is_position
from armada_agent.metrics.trainer_log import Printed, TrainerLog

LOG_BYTES = 4 * 1024 * 1024  # per poll: as much as is parsed in 0.1 s
_MOST_LOOKS = 64
_MOST_PRINTED = 5000


class Source:
    """A place where a job writes metrics.

    Attributes:
        rank: If several sources report the same metric, the lowest rank counts.
        name: The source's name in metrics.jsonl.
    """

    rank = 0
    name = ""

    def prepare(self, recorder: Recorder) -> None:
        """Read what other sources need, before any of them is read."""

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
        mark: The position up to which an earlier supervisor has read, and how far it had counted.
        clock: Returns unix time.
        is_taken_over: The mark is one of the same attempt. Otherwise the log's present content is from earlier attempts.
            Without a valid position it is skipped, too: most of it was read.

    Attributes:
        began: When the attempt began, in unix time.
    """

    rank = 3
    name = "log"

    def __init__(
        self,
        path: str,
        mark: Optional[Dict[str, Any]],
        clock: Callable[[], float] = time.time,
        is_taken_over: bool = False,
    ) -> None:
        known = mark if isinstance(mark, dict) else {}
        self._clock = clock
        self._tail = Tail(path, mark=known if is_taken_over else None)
        if not (is_taken_over and is_position(known)):
            self._tail.skip_to_end()
        self._reader = TrainerLog()
        self._reader.continue_counting(
            values.whole(known.get("count")), values.number(known.get("epoch")), is_taken_over
        )
        self.began = now_or(values.number(known.get("began")) if is_taken_over else None, clock)
        self._printed: Deque[Tuple[Printed, float]] = collections.deque(maxlen=_MOST_PRINTED)

    @property
    def mark(self) -> Any:
        """The position up to which the log was read, and how far it was counted."""
        count, epoch = self._reader.counted
        return dict(self._tail.mark, count=count, epoch=epoch, began=self.began)

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

    def learn(self, per_epoch: float, total: Optional[int], every: int, reached: Optional[int]) -> None:
        """Set the relation of epochs and steps, from the Trainer's state, and the step at which it was written."""
        self._reader.learn(per_epoch, total, every, reached)

    def give_again(self, recorder: Recorder, entries: Sequence[past.Entry]) -> None:
        """Give counted points once more, with the steps that are known now, and those between them that had a step.

        They were printed between the writing of a state and its reading, so the state does not have them. Only these
        lines are numbered, beginning at the state's step: an epoch of two decimals does not tell the lines apart.

        Args:
            recorder: Receives the points.
            entries: What the state has.
        """
        steps = {entry.step for entry in entries}
        beyond = max(steps)
        first = self._first_after(recorder, entries, beyond)
        for place, (printed, moment) in enumerate(self._printed):
            if printed.is_counted:
                step = self._reader.step_of(printed.numbers) if place >= first else None
                is_missing = step is not None and step > beyond
            else:
                step, is_missing = printed.step, printed.step not in steps
            if step is not None and is_missing:
                recorder.add((self.rank, self.name), step, printed.numbers, moment, printed.kind, is_past=True)
                if printed.is_counted:
                    recorder.note_progress(self.rank, step)
        self._printed.clear()

    def _first_after(self, recorder: Recorder, entries: Sequence[past.Entry], beyond: int) -> int:
        """Return the place of the first counted line that a state does not have.

        It follows the line of the state's newest entry. Lines may be equal, so the entry's number among its equals counts.
        If no entry was printed, the epoch decides.
        """
        places: Dict[past.Mark, List[int]] = {}
        counted = [(place, printed) for place, (printed, _) in enumerate(self._printed) if printed.is_counted]
        for place, printed in counted:
            mark = past.mark_of(printed.kind, recorder.owned(self.rank, printed.numbers))
            places.setdefault(mark, []).append(place)
        newest = next((entry.mark for entry in reversed(entries) if entry.mark in places), None)
        if newest is not None:
            equal = sum(entry.mark == newest for entry in entries)
            return places[newest][min(equal, len(places[newest])) - 1] + 1
        return next(
            (place for place, printed in counted if self._reader.is_after(printed.numbers, beyond)), len(self._printed)
        )

    def _give(self, recorder: Recorder) -> None:
        now = self._clock()  # one for all: how much time was between them is not known, and gives no pace
        for printed in self._reader.found:
            recorder.add((self.rank, self.name), printed.step, printed.numbers, now, printed.kind, printed.is_counted)
            if printed.is_counted or self._printed:
                self._printed.append((printed, now))
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
