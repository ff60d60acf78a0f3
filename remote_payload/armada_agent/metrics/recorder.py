"""Write metrics.jsonl for a job that does not, in the words of the bundled payload: all that is drawn and judged reads these."""

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
    """Takes points from several sources, and writes each once.

    Several sources may tell the same metric: then the one of the lowest rank that ever told it counts, and no other.

    Args:
        path: metrics.jsonl.
        attempt: Written into every line.
        report: Told what a person should know.
        say: Told what is for the supervisor's log.
        kept: What an earlier recorder of the run kept (`as_json`).

    Attributes:
        step: Of the newest training point, or what the job says; None: nobody said.
        total: Steps of the whole training, where somebody said so.
        count: How many points were taken; grows whenever anything came.
    """

    def __init__(
        self, path: str, attempt: int, report: Report, say: Report, kept: Optional[Dict[str, Any]] = None
    ) -> None:
        self._path = path
        self._attempt = attempt
        self._report = report
        self._say = say
        self.step: Optional[int] = None
        self.total: Optional[int] = None
        self.count = 0
        self._counted: Set[str] = set()
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
        """Whether so much waits for the disk that sources should not be read on."""
        return len(self._pending) >= _MOST_PENDING

    @property
    def is_anothers(self) -> bool:
        """Whether the job writes metrics.jsonl itself: then nothing is added to it."""
        return self._is_anothers

    def as_json(self) -> Dict[str, Any]:
        """What a recorder of the run's next attempt has to know."""
        return {"size": self._size, "told": sorted(self._told)}

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
        """Take the numbers of one record.

        Args:
            source: Its rank and name.
            step: Which they are of.
            found: By clean names, as `values.numbers` gives them.
            moment: Unix time.
            kind: `summary`; None parts them into those of the training and those of an evaluation.
            is_counted: The job said no step: this is the number of the record.
            is_past: It is told later than it was: it says nothing of the pace, nor of how far the job is.
        """
        if is_counted:  # home joins evaluations and checkpoints by their steps, and this is none
            found = {"counted/" + name if name.startswith("eval_") else name: value for name, value in found.items()}
        parts = {kind: found} if kind else dict(zip(("train", "eval"), values.split(found)))
        for each, numbers in parts.items():
            mine = {name: value for name, value in numbers.items() if self._owns(source[0], name)}
            if mine and self._is_new((source[1], each, step), mine):
                self._take(each, source, step, mine, moment, is_counted, is_past)

    def note_progress(self, rank: int, step: Optional[int], total: Optional[int] = None) -> None:
        """Take how far a source says that the job is; where several say so, the one of the lowest rank counts."""
        if step is not None and rank <= self._step_rank:
            self.count += step != self.step
            self.step, self._step_rank = step, rank
        if total and rank <= self._total_rank:
            self.total, self._total_rank = total, rank

    def tell(self, what: str, message: str) -> None:
        """Record a finding, once for each `what`."""
        if what not in self._told:
            self._told.add(what)
            self._report(message)

    def has(self, source: str, kind: str, step: int) -> bool:
        """Tell whether a source told of a step, as far back as is remembered."""
        return (source, kind, step) in self._seen

    @property
    def is_counting(self) -> bool:
        """Whether curves of this attempt have steps that only count their points."""
        return bool(self._counted)

    def take_back_counted(self) -> None:
        """Have home forget the points whose steps were counted, because the right ones follow."""
        line = {"kind": "reset", "step": 0, "time": 0.0, "attempt": self._attempt, "source": "armada"}
        self._pending.append(dict(line, names=sorted(self._counted)))
        self._counted.clear()
        self._seen.clear()

    def note_unreadable(self, where: str, problem: str, count: int = 1) -> None:
        """Count records that are none; the first is said at once, how many there were at the end."""
        self.tell("unreadable " + where, "%s: a record cannot be read for curves: %.120s" % (where, problem))
        self._unreadable[where] = self._unreadable.get(where, 0) + count

    def conclude(self) -> None:
        """Say how many records could not be read, where there was more than one."""
        for where, count in sorted(self._unreadable.items()):
            if count > 1:
                self._report("%s: %d records could not be read for curves" % (where, count))

    def flush(self) -> None:
        """Write what waits; a full disk takes it later."""
        while self._pending and not self._is_anothers:
            if not self._is_ours():
                self._is_anothers = True
                break
            some = self._pending[:_MOST_AT_ONCE]
            try:
                self._size = files.append_lines(self._path, some)
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
        """Tell whether a source says something that it has not said of this step: files are read again that were written anew."""
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
        if is_counted:
            line["steps"] = "counted"
            self._counted.update(numbers if kind == "train" else ("%s/%s" % (kind, name) for name in numbers))
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
        """Say how fast the training is, over the last ten moments in which something was told."""
        told = next((numbers[name] for name in _CUMULATED_TOKENS if name in numbers), None)
        self._tokens = self._tokens + numbers.get("tokens", 0.0) if told is None else told
        if self._moments and step < self._moments[-1][1]:
            self._moments.clear()  # it was resumed, or begins anew
        if self._moments and moment <= self._moments[-1][0]:
            return {}  # several at once: the time of each is not known
        self._moments.append((moment, step, self._tokens))
        before, then, tokens = self._moments[0]
        if step <= then:
            return {}
        found = {"step_time_s": (moment - before) / (step - then)}
        if self._tokens > tokens:
            found["tokens_per_s"] = (self._tokens - tokens) / (moment - before)
        return found

    def _is_ours(self) -> bool:
        """Tell whether nobody else has written since; a line of ours may be there that a killed supervisor did not count."""
        try:
            size = os.lstat(self._path).st_size
        except OSError:
            size = 0
        return size in (self._size, 0) or _OURS in files.last_line(self._path)


def now_or(moment: Optional[float], clock: Callable[[], float]) -> float:
    """Give a record's own time where it is a time, and the clock's otherwise."""
    return moment if moment is not None and 0 < moment < 1e11 else clock()
