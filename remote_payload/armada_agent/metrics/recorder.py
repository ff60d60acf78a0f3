"""Write metrics.jsonl for a job that does not, in the format of the bundled payload, which all charts and verdicts read."""

import collections
import os
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from armada_agent.foundation import files
from armada_agent.metrics import values

_MOST_PENDING = 20000
_MOST_AT_ONCE = 500
_MOST_REMEMBERED = 20000
_PACE_MOMENTS = 10
_CUMULATED_TOKENS = ("num_tokens", "num_input_tokens_seen", "total_tokens")
_LOWEST_RANK = 99
_OURS = '"source": "'
Report = Callable[[str], None]
Moment = Tuple[float, int, float]  # unix time, step, tokens so far


class Recorder:
    """Takes points from several sources, and writes each of them once.

    If several sources report the same metric, only the source of the lowest rank that ever reported it counts.

    Args:
        path: metrics.jsonl.
        attempt: Written into every line.
        report: Receives findings for the user.
        say: Receives messages for the supervisor's log.
        kept: The state of an earlier recorder of the run (`as_json`).

    Attributes:
        step: The step of the newest training point, or the job's own report; None if unknown.
        total: The number of steps of the whole training, if known.
        count: How many points were taken. It grows with each report.
        path: metrics.jsonl.
    """

    def __init__(
        self, path: str, attempt: int, report: Report, say: Report, kept: Optional[Dict[str, Any]] = None
    ) -> None:
        self.path = path
        self._attempt = attempt
        self._report = report
        self._say = say
        self.step: Optional[int] = None
        self.total: Optional[int] = None
        self.count = 0
        self._counted: Dict[str, Set[str]] = {
            name: set(curves) for name, curves in (kept or {}).get("counted", {}).items()
        }
        self._placed: Set[str] = set((kept or {}).get("placed") or ())
        self._unreadable: Dict[str, int] = {}
        self._step_rank = self._total_rank = _LOWEST_RANK
        self._pending: List[Dict[str, Any]] = []
        self._seen: "collections.OrderedDict[Tuple[str, str, int], int]" = collections.OrderedDict()
        self._moments: Deque[Moment] = collections.deque(maxlen=_PACE_MOMENTS)
        self._tokens = 0.0
        self._names: Dict[str, int] = {}
        self._told = set((kept or {}).get("told") or ())
        self._size = (kept or {}).get("size", 0)
        self._is_anothers = False

    @property
    def is_full(self) -> bool:
        """Whether so many points wait for the disk that no source should be read any further."""
        return len(self._pending) >= _MOST_PENDING

    @property
    def is_anothers(self) -> bool:
        """Whether the job writes metrics.jsonl itself. Nothing is then added to it."""
        return self._is_anothers

    def as_json(self) -> Dict[str, Any]:
        """Return the state that a recorder of the run's next attempt needs."""
        counted = {source: sorted(curves) for source, curves in sorted(self._counted.items()) if curves}
        return {"size": self._size, "told": sorted(self._told), "counted": counted, "placed": sorted(self._placed)}

    def add(
        self,
        source: Tuple[int, str],
        step: int,
        found: Dict[str, float],
        moment: float,
        kind: Optional[str] = None,
        is_counted: bool = False,
        is_past: bool = False,
    ) -> None:
        """Add the numbers of one record.

        Args:
            source: Its rank and name.
            step: The record's step.
            found: Numbers by clean names, as `values.numbers` returns them.
            moment: Unix time.
            kind: `summary`; None splits them into those of the training and those of an evaluation.
            is_counted: The job gave no step; `step` is the number of the record.
            is_past: The record is reported late, so it shows neither the pace nor the job's progress.
        """
        if is_counted:  # home joins evaluations and checkpoints by step, and this is none
            found = {"counted/" + name if name.startswith("eval_") else name: value for name, value in found.items()}
        parts = {kind: found} if kind else dict(zip(("train", "eval"), values.split(found)))
        for each, numbers in parts.items():
            mine = self.owned(source[0], numbers)
            if mine and self._is_new((source[1], each, step), mine):
                self._take(each, source, step, mine, moment, is_counted, is_past)

    def owned(self, rank: int, numbers: Dict[str, float]) -> Dict[str, float]:
        """Return those numbers that no source of a lower rank reports."""
        return {name: value for name, value in numbers.items() if self._owns(rank, name)}

    def note_progress(self, rank: int, step: Optional[int], total: Optional[int] = None) -> None:
        """Add a source's report of the job's progress. If several sources report it, the one of the lowest rank counts."""
        if step is not None and rank <= self._step_rank:
            self.count += step != self.step
            self.step, self._step_rank = step, rank
        if total and rank <= self._total_rank:
            self.total, self._total_rank = total, rank

    def tell(self, what: str, message: str) -> None:
        """Report a finding, once for each `what`."""
        if what not in self._told:
            self._told.add(what)
            self._report(message)

    def has(self, source: str, kind: str, step: int) -> bool:
        """Return whether a source reported a step, as far back as the recorder remembers."""
        return (source, kind, step) in self._seen

    def take_back_counted(self, source: str) -> bool:
        """Delete the points whose steps a source has counted at home, because points with the right steps follow.

        Returns:
            Whether there were any, of this attempt or an earlier one.
        """
        counted = self._counted.pop(source, set())
        if counted:
            self._reset(counted)
            self._seen.clear()
        return bool(counted)

    def _reset(self, curves: Set[str]) -> None:
        line = {"kind": "reset", "step": 0, "time": 0.0, "attempt": self._attempt, "source": "armada"}
        self._pending.append(dict(line, names=sorted(curves)))

    def _place(self, source: str, curves: Set[str]) -> None:
        """Note that a source knows the steps of curves. Points that other sources counted for them are deleted.

        Its own counted points stay: one line with a step after 2000 without one does not replace them.
        A curve that already has right points keeps them all: home cannot delete some of them.
        """
        for name, counted in self._counted.items():
            if name == source:
                continue
            wrong = counted & curves
            if wrong - self._placed:
                self._reset(wrong - self._placed)
            counted.difference_update(wrong)
        self._placed |= curves

    def note_unreadable(self, where: str, problem: str, count: int = 1) -> None:
        """Count invalid records. The first one is reported at once, their number at the end."""
        self.tell("unreadable " + where, "%s: a record cannot be read for curves: %.120s" % (where, problem))
        self._unreadable[where] = self._unreadable.get(where, 0) + count

    def conclude(self) -> None:
        """Report how many records were invalid, if there was more than one."""
        for where, count in sorted(self._unreadable.items()):
            if count > 1:
                self._report("%s: %d records could not be read for curves" % (where, count))

    def flush(self) -> None:
        """Write pending points. If the disk is full, a later call writes them."""
        while self._pending and not self._is_anothers:
            if not self._is_ours():
                self._is_anothers = True
                break
            some = self._pending[:_MOST_AT_ONCE]
            try:
                self._size = files.append_lines(self.path, some)
            except OSError as error:
                self._say("metrics cannot be written: %s" % error)
                return
            del self._pending[: len(some)]
        if self._is_anothers:
            del self._pending[:]

    def _owns(self, rank: int, name: str) -> bool:
        known = self._names.get(name)
        if known is None and len(self._names) >= values.MOST_NAMES:
            self.tell("names", "the job has more than %d metrics; the others are not drawn" % values.MOST_NAMES)
            return False
        if known is None or rank < known:
            self._names[name] = rank
        return self._names[name] == rank

    def _is_new(self, key: Tuple[str, str, int], numbers: Dict[str, float]) -> bool:
        """Return whether a source reports new numbers for a step: a file that was rewritten is read again."""
        said = hash(tuple(sorted((name, repr(value)) for name, value in numbers.items())))
        if self._seen.get(key) == said:
            return False
        self._seen[key] = said
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _take(
        self,
        kind: str,
        source: Tuple[int, str],
        step: int,
        numbers: Dict[str, float],
        moment: float,
        is_counted: bool,
        is_past: bool,
    ) -> None:
        line: Dict[str, Any] = {
            "kind": kind,
            "step": step,
            "time": moment,
            "attempt": self._attempt,
            "source": source[1],
        }
        curves = set(numbers if kind == "train" else ("%s/%s" % (kind, name) for name in numbers))
        if is_counted:
            line["steps"] = "counted"
            self._counted.setdefault(source[1], set()).update(curves)
        else:
            self._place(source[1], curves)
        if kind == "train" and "loss" in numbers and not is_past:
            line.update(self._pace(step, numbers, moment))
            self.note_progress(source[0], step)
        line.update(numbers)
        self._pending.append(line)
        if len(self._pending) >= _MOST_AT_ONCE:
            self.flush()
        self.count += 1
        loss = numbers.get("loss")
        if kind == "train" and loss is not None and loss - loss != 0:
            self.tell("loss", "the loss is not a number at step %d (%s)" % (step, repr(loss)))

    def _pace(self, step: int, numbers: Dict[str, float], moment: float) -> Dict[str, float]:
        """Return the speed of the training over the last ten reports."""
        told = next((numbers[name] for name in _CUMULATED_TOKENS if name in numbers), None)
        self._tokens = self._tokens + numbers.get("tokens", 0.0) if told is None else told
        if self._moments and step < self._moments[-1][1]:
            self._moments.clear()  # it was resumed, or started again
        if self._moments and moment <= self._moments[-1][0]:
            return {}  # several at once: their individual times are unknown
        self._moments.append((moment, step, self._tokens))
        before, then, tokens = self._moments[0]
        if step <= then:
            return {}
        found = {"step_time_s": (moment - before) / (step - then)}
        if self._tokens > tokens:
            found["tokens_per_s"] = (self._tokens - tokens) / (moment - before)
        return found

    def _is_ours(self) -> bool:
        """Return whether only armada has written since. A killed supervisor may have written a line that it did not count."""
        try:
            size = os.lstat(self.path).st_size
        except OSError:
            size = 0
        return size in (self._size, 0) or _OURS in files.last_line(self.path)


def now_or(moment: Optional[float], clock: Callable[[], float]) -> float:
    """Return a record's own time if it is valid, otherwise the clock's."""
    return moment if moment is not None and 0 < moment < 1e11 else clock()
