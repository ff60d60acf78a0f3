"""Read trainer_state.json, which Hugging Face's Trainer writes into each checkpoint: every metric so far, with its step.

It completes the log if the log contains no steps, or if nothing is printed at all.
"""

import json
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from armada_agent.foundation import files
from armada_agent.metrics import past, values
from armada_agent.metrics.find import Finder
from armada_agent.metrics.past import Entry
from armada_agent.metrics.recorder import Recorder
from armada_agent.metrics.source import LogSource, Source
from armada_agent.metrics.tail import is_within

PATTERN = "**/trainer_state.json"
_LONGEST = 16 * 1024 * 1024
_MOST_ENTRIES = 200000
_RANK_OF_PROGRESS = 8


class _Newest(NamedTuple):
    """The last entry of a state whose points home has all, its time, and the size of metrics.jsonl at that time."""

    step: int
    mark: past.Mark
    moment: float
    end: int


class StateSource(Source):
    """The newest of these files, which contains everything that the older ones contain.

    Args:
        work: The job's working folder.
        finder: Finds files below it.
        mark: The files that an earlier supervisor has read.
        is_first: No job of the run has written yet: existing files came with the code.
        log: The source that knows epochs but possibly no steps.
        clock: Returns unix time.
    """

    rank = LogSource.rank
    name = "trainer_state"

    def __init__(
        self,
        work: str,
        finder: Finder,
        mark: Optional[Dict[str, Any]],
        is_first: bool,
        log: LogSource,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._work = work
        self._finder = finder
        self._log = log
        self._clock = clock
        known = mark.get("read") if isinstance(mark, dict) else None
        self._read: List[str] = [str(each) for each in known] if isinstance(known, list) else []
        if is_first:
            self._read = [self._sign(path) for path in finder.find(self.name)]
        self._taught = _taught(mark.get("taught") if isinstance(mark, dict) else None)
        if self._taught is not None:
            log.learn(*self._taught)
        self._newest: Optional[_Newest] = None
        self._is_prepared = False

    @property
    def mark(self) -> Any:
        """The files that were read, and what the newest said about epochs and steps."""
        return {"read": self._read, "taught": self._taught}

    def prepare(self, recorder: Recorder) -> None:
        """Read what an earlier attempt left, so that the first line of this one's log has its step."""
        if not self._is_prepared:
            self._is_prepared = True
            self.look(recorder)

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read the newest file once. An incomplete file is read later; at the end it is ignored."""
        del final
        for path in self._finder.find(self.name)[-1:]:
            signature = self._sign(path)
            if not signature or signature in self._read:
                continue
            state = self._load(path, recorder)
            if state is not None:
                self._read = [*self._read[-31:], signature]
                self._take(state, int(signature.split()[-1]) / 1e9, recorder)

    def _sign(self, path: str) -> str:
        try:
            found = os.lstat(os.path.join(self._work, path))
        except OSError:
            return ""
        return "%d %d %d" % (found.st_ino, found.st_size, found.st_mtime_ns)

    def _load(self, path: str, recorder: Recorder) -> Optional[Dict[Any, Any]]:
        place = os.path.join(self._work, path)
        if not is_within(place, self._work):
            return None
        try:
            with files.open_regular(place) as stream:
                content = stream.read(_LONGEST + 1)
        except OSError:
            return None
        if len(content) > _LONGEST:
            recorder.tell("state", "%.80s is larger than %d MB, and is not read for curves" % (path, _LONGEST >> 20))
            return {}
        try:
            state = json.loads(content.decode("utf-8"), parse_int=values.whole_number)
        except (ValueError, RecursionError):
            return None
        return state if isinstance(state, dict) else {}

    def _take(self, state: Dict[Any, Any], written: float, recorder: Recorder) -> None:
        history = state.get("log_history")
        found = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
        entries = self._entries(found, recorder)
        total, reached = values.whole(state.get("max_steps")), values.whole(state.get("global_step"))
        self._teach(state, entries)
        is_taken_back = bool(entries) and recorder.take_back_counted(LogSource.name)
        if is_taken_back and self._newest is not None:
            self._newest = None
            entries = self._entries(found, recorder)
        if not all(_is_printed(entry, recorder) or self._is_newest(entry) for entry in entries):
            self._give(entries, written, is_taken_back, recorder)
        if is_taken_back:
            self._log.give_again(recorder, entries)
        recorder.note_progress(_RANK_OF_PROGRESS, reached, total)

    def _entries(self, found: List[Dict[Any, Any]], recorder: Recorder) -> List[Entry]:
        """Return a state's entries from the last one that home is known to have; all if the state does not have that."""
        entries: List[Entry] = []
        for each in reversed(found[-_MOST_ENTRIES:]):
            entry = _entry(each, recorder)
            if entry is not None:
                entries.append(entry)
                if self._is_newest(entry):
                    break
        entries.reverse()
        return entries

    def _is_newest(self, entry: Entry) -> bool:
        return self._newest is not None and (entry.step, entry.mark) == (self._newest.step, self._newest.mark)

    def _teach(self, state: Dict[Any, Any], entries: List[Entry]) -> None:
        reached = values.whole(state.get("global_step"))
        ends = [(reached, values.number(state.get("epoch")))]
        ends += [(entry.step, entry.numbers.get("epoch")) for entry in reversed(entries)]
        for step, epoch in ends:
            if step and epoch is not None and 0 < epoch < values.MOST_STEP:
                every = values.whole(state.get("logging_steps")) or 0
                self._taught = _taught([step / epoch, values.whole(state.get("max_steps")), every, reached])
                if self._taught is not None:
                    self._log.learn(*self._taught)
                return

    def _give(self, entries: List[Entry], written: float, is_taken_back: bool, recorder: Recorder) -> None:
        """Give the points that home does not have, with the times at which they were printed, as far as that is known."""
        recorder.flush()
        newest = self._newest if self._is_newest(entries[0]) else None
        known = past.read(recorder.path, entries, newest.end if newest is not None else 0)
        if is_taken_back:
            known.given.clear()
        if newest is not None:
            known.times[newest.mark] = newest.moment
            known.given.add((newest.step, newest.mark))
        times = past.moments(
            [known.times.get(entry.mark) for entry in entries],
            self._log.began,
            written,
            self._clock(),
            is_of_this_attempt=written >= self._log.began,
        )
        for entry, moment in zip(entries, times):
            if not _is_printed(entry, recorder) and (entry.step, entry.mark) not in known.given:
                recorder.add((self.rank, self.name), entry.step, entry.numbers, moment, entry.kind, is_past=True)
        self._newest = _Newest(entries[-1].step, entries[-1].mark, times[-1], known.end)


def _entry(said: Dict[Any, Any], recorder: Recorder) -> Optional[Entry]:
    step = values.whole(said.get("step"))
    if step is None:
        return None
    kind = "summary" if "train_runtime" in said else None
    numbers = values.numbers({key: value for key, value in said.items() if key != "step"})
    if kind or any(name.startswith("eval_") for name in numbers):
        numbers.pop("epoch", None)
    if kind and "loss" in numbers:
        numbers["train_loss"] = numbers.pop("loss")
    printed_as = kind or ("train" if "loss" in numbers else "eval")
    numbers = recorder.owned(StateSource.rank, numbers)
    return Entry(step, numbers, kind, printed_as, past.mark_of(kind, numbers))


def _is_printed(entry: Entry, recorder: Recorder) -> bool:
    """Return whether the log of this attempt had the point, with its step, or other sources have all its numbers."""
    return not entry.numbers or recorder.has(LogSource.name, entry.printed_as, entry.step)


def _taught(value: Any) -> Optional[Tuple[float, Optional[int], int, Optional[int]]]:
    """Return steps per epoch, steps of the training, steps between two losses and the last step, if they are valid."""
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        return None
    per_epoch = values.number(value[0])
    if per_epoch is None or not 0 < per_epoch <= values.MOST_STEP:
        return None
    return per_epoch, values.whole(value[1]), values.whole(value[2]) or 0, values.whole(value[3])
