"""Parse JSON lines that jobs write: those of `armada_log`, and of files that an experiment names."""

import json
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from armada_agent.metrics import values
from armada_agent.metrics.recorder import Recorder, now_or
from armada_agent.metrics.source import Source
from armada_agent.metrics.tail import Tail

PIECE_BYTES = 1024 * 1024
_MOST_PIECES = 256
_DEEPEST = 50
_BRACKET = re.compile(rb"[\[\]{}]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def parse(line: bytes) -> Dict[Any, Any]:
    """Parse one record. NaN and the infinities count as numbers.

    Raises:
        ValueError: It is not a JSON object, or has deeper nesting or longer numbers than any record.
    """
    if line.count(b"[") + line.count(b"{") > _DEEPEST and _is_deep(line):
        raise ValueError("nested too deep")
    value = json.loads(line.decode("utf-8"), parse_int=values.whole_number)
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - as what is no JSON raises
    return value


def _is_deep(line: bytes) -> bool:
    """Return whether brackets are nested deeper than in any record; those in names do not count (`expert[3]/load`)."""
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", line)):
        depth += 1 if bracket.group() in b"[{" else -1
        if depth > _DEEPEST:
            return True
    return False


def pieces(tail: Tail, final: bool, recorder: Recorder) -> Iterator[List[bytes]]:
    """Yield the new lines of a file while there is space for them: one piece per poll, and everything that is left at the last one."""
    for _ in range(_MOST_PIECES if final else 1):
        if recorder.is_full:
            return
        before = tail.offset
        lines = tail.lines(PIECE_BYTES, final)
        yield lines
        if tail.offset == before:
            return


class ReportedSource(Source):
    """The metrics that the job reports through `armada_log`.

    Args:
        path: The file to which the module writes.
        mark: The position up to which an earlier supervisor has read.
        clock: Returns unix time, for records without a time.
    """

    rank = 1
    name = "armada_log"

    def __init__(self, path: str, mark: Optional[Dict[str, Any]], clock: Callable[[], float] = time.time) -> None:
        self._tail = Tail(path, mark=mark)
        self._clock = clock

    @property
    def mark(self) -> Any:
        """The position up to which the file was read."""
        return self._tail.mark

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read the new lines."""
        for lines in pieces(self._tail, final, recorder):
            for line in lines:
                try:
                    self._take(parse(line), recorder)
                except (ValueError, RecursionError) as error:
                    recorder.note_unreadable("armada_log", str(error))
        if self._tail.too_long:
            recorder.note_unreadable("armada_log", "longer than 64 KiB", self._tail.too_long)
            self._tail.too_long = 0

    def _take(self, record: Dict[Any, Any], recorder: Recorder) -> None:
        step = values.whole(record.get("step"))
        if step is None:
            raise ValueError("it has no step")
        told = record.get("values")
        if isinstance(told, dict):
            moment = now_or(values.number(record.get("time")), self._clock)
            recorder.add((self.rank, self.name), step, values.numbers(told), moment)
        elif "total" in record:
            recorder.note_progress(self.rank, step, values.whole(record["total"]))
