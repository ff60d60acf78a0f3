"""What metrics.jsonl already says about the points of a trainer_state.json: which of them it has, and when they were printed.

A line of the log and an entry of the state are the same point if their epoch and loss are equal in four digits: as many
as the Trainer prints. So nothing has to be counted, and a log that is cut or another distance between losses does no harm.
"""

import contextlib
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from armada_agent.foundation import files
from armada_agent.metrics import values
from armada_agent.metrics.tail import LONGEST_LINE

_MOST_BYTES = 64 * 1024 * 1024
_LOG, _STATE = '"source": "log"', '"source": "trainer_state"'
_RESET = '"kind": "reset"'
_COUNTED = "counted/"
Mark = Tuple[str, str, str]  # kind, epoch, and loss or run time


class Entry(NamedTuple):
    """One point of a trainer_state.json, and the kind under which the log has it."""

    step: int
    numbers: Dict[str, float]
    kind: Optional[str]
    printed_as: str
    mark: Mark


class Past:
    """The lines of metrics.jsonl that belong to some entries.

    Attributes:
        given: Steps and marks of the points that home has.
        times: When the points were printed; otherwise, when an earlier state with them was read.
        end: The size of metrics.jsonl when it was read.
    """

    def __init__(self) -> None:
        self.given: Set[Tuple[int, Mark]] = set()
        self.times: Dict[Mark, float] = {}
        self.end = 0


def mark_of(kind: Optional[str], numbers: Dict[str, Any]) -> Mark:
    """Return what identifies a point, however its numbers were rounded."""
    if kind == "summary":
        return "summary", "", _rounded(numbers.get("train_runtime"))
    evaluated = [name for name in numbers if name.startswith(("eval_", _COUNTED + "eval_"))]
    if len(evaluated) == len(numbers):
        return "eval", "", _rounded(numbers.get("eval_loss", numbers.get(_COUNTED + "eval_loss")))
    return "train", _rounded(numbers.get("epoch")), _rounded(numbers.get("loss"))


def read(path: str, entries: Sequence[Entry], since: int = 0) -> Past:
    """Read the end of metrics.jsonl, 64 MB at most. Only what belongs to the entries is kept. A job may have written it.

    Args:
        path: metrics.jsonl.
        entries: The entries.
        since: The position at which their lines begin; ignored if the file is shorter.
    """
    wanted = {entry.mark for entry in entries if entry.mark[1] or entry.mark[2]}
    past = Past()
    stated: Dict[Mark, float] = {}
    # No file yet, or one that is not ours: then nothing was given.
    with contextlib.suppress(OSError), files.open_regular(path) as stream:
        size = past.end = stream.seek(0, 2)
        left = min(size - since if since <= size else size, _MOST_BYTES)
        stream.seek(size - left)
        while left > 0:
            content = stream.readline(min(left, LONGEST_LINE))
            if not content:
                break
            left -= len(content)
            _take(content.decode("utf-8", "replace"), wanted, past, stated)
    stated.update(past.times)
    past.times = stated
    return past


def _take(text: str, wanted: Set[Mark], past: Past, stated: Dict[Mark, float]) -> None:
    if _RESET in text:
        past.given.clear()
        return
    is_printed = _LOG in text
    if not is_printed and _STATE not in text:
        return
    try:
        line = json.loads(text, parse_int=values.whole_number)
    except (ValueError, RecursionError):
        return
    if not isinstance(line, dict):
        return
    step, moment = values.whole(line.get("step")), values.number(line.get("time"))
    kind = line.get("kind")
    numbers = {name: value for name, value in line.items() if name not in values.RESERVED}
    mark = mark_of(kind if kind == "summary" else None, numbers)
    if mark not in wanted or step is None or moment is None or not 0 < moment < 1e11:
        return
    (past.times if is_printed else stated)[mark] = moment
    if line.get("steps") != "counted":
        past.given.add((step, mark))


def _rounded(value: Any) -> str:
    number = values.number(value)
    return "" if number is None else "%.4g" % number


def moments(
    known: Sequence[Optional[float]], began: float, written: float, now: float, is_of_this_attempt: bool
) -> List[float]:
    """Return a time for each entry of a state, in which time does not go backwards.

    Unknown ones are spread evenly between those around them. The last ones were made before the file was written, and
    those of a file of this attempt after the attempt began, because an earlier attempt's were read during that.

    Args:
        known: Unix times, None where unknown.
        began: When the attempt began.
        written: When the file was written.
        now: When it was read; no time is later.
        is_of_this_attempt: Whether this attempt's job wrote the file.
    """
    found: List[float] = []
    waiting = 0
    before: Optional[float] = None
    for place in range(len(known) + 1):
        moment = known[place] if place < len(known) else min(written, now)
        if moment is None:
            waiting += 1
            continue
        after = min(moment, now)
        if before is not None:
            after = max(after, before)
        first = before if before is not None else began
        if is_of_this_attempt and first < began <= after:
            first = began
        first = min(first, after)
        parts = waiting + (place < len(known))  # the last one is of the moment at which the file was written
        found += [first + (after - first) * (each + 1) / parts for each in range(waiting)]
        if place < len(known):
            found.append(after)
        before, waiting = after, 0
    return found
