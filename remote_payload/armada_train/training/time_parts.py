"""Split the time of a training into parts: data, forward, backward and so on. It needs the standard library alone.

Each moment belongs to the innermost part that was entered. On a GPU the moments are events in its queue, which wait for
nothing: a part is then as long as the GPU took for it, or was idle during it.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

PARTS = ("data", "forward", "backward", "communication", "optimizer", "saving", "evaluation", "other")
_WORK = ("data", "forward", "backward", "optimizer")
"""What a rank does by itself. A rank that needs longer for it makes the others wait."""
RANK_TIMES = ("time/slowest_rank", "time/waits_for_it", "time/data_slowest")
"""What several ranks have beside the parts."""
_WHOLE = frozenset({"saving", "evaluation"})
"""What happens inside of these belongs to them."""

_Call = TypeVar("_Call", bound=Callable[..., Any])


class Timer(Protocol):
    """Adds the time since the last mark to a part."""

    def mark(self, part: str | None) -> None:
        """End a part here; None: what was before belongs to no part."""

    def take(self) -> dict[str, float]:
        """Return the seconds of each part that ended, and start from zero."""


class HostTimer:
    """Reads the machine's clock: for CPUs, where an operation has ended when the call returns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = clock()
        self._sums = dict.fromkeys(PARTS, 0.0)

    def mark(self, part: str | None) -> None:
        now = self._clock()
        if part is not None:
            self._sums[part] += now - self._last
        self._last = now

    def take(self) -> dict[str, float]:
        taken, self._sums = self._sums, dict.fromkeys(PARTS, 0.0)
        return taken


class QueueTimer:
    """Puts an event into the GPU's queue at each mark, and reads those that the GPU has reached. It never waits.

    Args:
        make_event: Makes an event with `record`, `query` and `elapsed_time` in milliseconds, such as `torch.cuda.Event`.
    """

    def __init__(self, make_event: Callable[[], Any]) -> None:
        self._make_event = make_event
        self._pending: deque[tuple[str | None, Any]] = deque()
        self._spare: list[Any] = []
        self._last: Any = None
        self._sums = dict.fromkeys(PARTS, 0.0)

    def mark(self, part: str | None) -> None:
        event = self._spare.pop() if self._spare else self._make_event()
        event.record()
        self._pending.append((part, event))
        if self._pending[0][1].query():
            self._read()

    def take(self) -> dict[str, float]:
        self._read()
        taken, self._sums = self._sums, dict.fromkeys(PARTS, 0.0)
        return taken

    def _read(self) -> None:
        while self._pending and self._pending[0][1].query():
            part, event = self._pending.popleft()
            if self._last is not None:
                if part is not None:
                    self._sums[part] += self._last.elapsed_time(event) / 1000
                self._spare.append(self._last)
            self._last = event


class TimeParts:
    """Knows which part the training is in, and how long each part took since the last lap.

    Args:
        timer: Measures.
        clock: The machine's clock, in seconds, for the waits in the data loader.
    """

    def __init__(self, timer: Timer, clock: Callable[[], float] = time.perf_counter) -> None:
        self._timer = timer
        self._clock = clock
        self._inside = ["other"]
        self._described_at = 0
        self.waited_s = 0.0
        """How long this process waited for the data loader since the last description."""

    def begin(self, step: int) -> None:
        """Start to measure after a step: what was before belongs to no part."""
        self._described_at = step
        self._timer.mark(None)
        self._timer.take()

    def enter(self, part: str) -> None:
        inside = self._inside
        if inside[-1] in _WHOLE:
            inside.append(inside[-1])
            return
        self._timer.mark(inside[-1])
        inside.append(part)

    def leave(self) -> None:
        inside = self._inside
        if len(inside) == 1:
            return
        part = inside.pop()
        if inside[-1] not in _WHOLE:
            self._timer.mark(part)

    def turn_into(self, part: str) -> None:
        """End the innermost part here; from here to its end it is another one."""
        inside = self._inside
        if len(inside) > 1 and inside[-1] not in _WHOLE:
            self._timer.mark(inside[-1])
            inside[-1] = part

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def within(self, part: str, call: _Call) -> _Call:
        """Return a function that does the same inside a part."""

        @functools.wraps(call)
        def timed_call(*args: Any, **kwargs: Any) -> Any:
            self.enter(part)
            try:
                return call(*args, **kwargs)
            finally:
                self.leave()

        return timed_call  # type: ignore[return-value]  # it takes and returns what `call` does

    def watch(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return an iterator whose waits for the next batch are the part `data`."""
        return _Watched(batches, self)

    def lap(self) -> dict[str, float]:
        """Return the seconds of each part since the last lap. On a GPU, what it has not reached counts for the next one."""
        self._timer.mark(self._inside[-1])
        return self._timer.take()

    def describe(self, ranks: Sequence[int], step: int) -> dict[str, float]:
        """Return the metrics of the steps since the last description, each in seconds a step.

        Args:
            ranks: What `in_microseconds` returned, of all ranks one after the other.
            step: The last one of the steps.
        """
        steps = max(1, step - self._described_at)
        found = {"data_wait_s": self.waited_s / steps, **describe_parts(_of_ranks(ranks), steps)}
        self.waited_s, self._described_at = 0.0, step
        return found

    def next_batch(self, batches: Iterator[Any]) -> Any:
        started = self._clock()
        self.enter("data")
        try:
            return next(batches)
        finally:
            self.leave()
            self.waited_s += self._clock() - started


class _Watched:
    def __init__(self, batches: Iterator[Any], times: TimeParts) -> None:
        self._batches = batches
        self._times = times

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._times.next_batch(self._batches)


def timed(part: str) -> Callable[[_Call], _Call]:
    """Decorate a method of an object that has `times`: what it does is in this part."""

    def decorate(method: _Call) -> _Call:
        @functools.wraps(method)
        def timed_method(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.times.part(part):
                return method(self, *args, **kwargs)

        return timed_method  # type: ignore[return-value]  # it takes and returns what `method` does

    return decorate


def in_microseconds(times: Mapping[str, float]) -> list[int]:
    """Return the seconds of all parts as whole numbers, which ranks can exchange together with their counts."""
    return [round(times[part] * 1e6) for part in PARTS]


def _of_ranks(packed: Sequence[int]) -> list[Mapping[str, float]]:
    width = len(PARTS)
    rows = [packed[start : start + width] for start in range(0, len(packed), width)]
    return [{part: each / 1e6 for part, each in zip(PARTS, row, strict=True)} for row in rows]


def describe_parts(ranks: Sequence[Mapping[str, float]], steps: int) -> dict[str, float]:
    """Describe where the time of some steps went, as metrics.

    Args:
        ranks: The seconds of each part, of each rank.
        steps: How many steps they are of.

    Returns:
        `time/<part>`: the mean over ranks, in seconds a step. With several ranks also `time/slowest_rank`, the one whose
        own work took longest; `time/waits_for_it`, how long the others wait for it on average, in seconds a step; and
        `time/data_slowest`, what the rank that waited longest for data waited.
    """
    steps = max(1, steps)
    found = {f"time/{part}": sum(rank[part] for rank in ranks) / len(ranks) / steps for part in PARTS}
    if len(ranks) > 1:
        work = [sum(rank[part] for part in _WORK) for rank in ranks]
        slowest = max(range(len(work)), key=work.__getitem__)
        others = (sum(work) - work[slowest]) / (len(work) - 1)
        found["time/slowest_rank"] = float(slowest)
        found["time/waits_for_it"] = (work[slowest] - others) / steps
        found["time/data_slowest"] = max(rank["data"] for rank in ranks) / steps
    return found
