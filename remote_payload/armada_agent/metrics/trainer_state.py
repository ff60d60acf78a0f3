"""Read trainer_state.json, which Hugging Face's Trainer writes into each checkpoint: every metric so far, with its step.

It completes the log if the log contains no steps, or if nothing is printed at all.
"""

import json
import os
import time
from typing import Any, Callable, Dict, List, Optional

from armada_agent.foundation import files
from armada_agent.metrics import values
from armada_agent.metrics.find import Finder
from armada_agent.metrics.recorder import Recorder
from armada_agent.metrics.records import whole_number
from armada_agent.metrics.source import LogSource, Source
from armada_agent.metrics.tail import is_within

PATTERN = "**/trainer_state.json"
_LONGEST = 16 * 1024 * 1024
_MOST_ENTRIES = 200000
_RANK_OF_PROGRESS = 8


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

    @property
    def mark(self) -> Any:
        """The files that were read."""
        return {"read": self._read}

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
                self._take(state, recorder)

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
            state = json.loads(content.decode("utf-8"), parse_int=whole_number)
        except (ValueError, RecursionError):
            return None
        return state if isinstance(state, dict) else {}

    def _take(self, state: Dict[Any, Any], recorder: Recorder) -> None:
        history = state.get("log_history")
        entries = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
        entries = [each for each in entries[-_MOST_ENTRIES:] if values.whole(each.get("step")) is not None]
        total = values.whole(state.get("max_steps"))
        self._teach(entries, total, values.whole(state.get("logging_steps")) or 0)
        if entries and recorder.is_counting:
            recorder.take_back_counted()
        for entry in entries:
            self._add(entry, values.whole(entry["step"]) or 0, recorder)
        recorder.note_progress(_RANK_OF_PROGRESS, values.whole(state.get("global_step")), total)

    def _teach(self, entries: List[Dict[Any, Any]], total: Optional[int], every: int) -> None:
        for entry in reversed(entries):
            step, epoch = values.whole(entry["step"]), values.number(entry.get("epoch"))
            if step and epoch is not None and 0 < epoch < values.MOST_STEP:
                self._log.learn(step / epoch, total, every)
                return

    def _add(self, entry: Dict[Any, Any], step: int, recorder: Recorder) -> None:
        kind = "summary" if "train_runtime" in entry else None
        numbers = values.numbers({key: value for key, value in entry.items() if key != "step"})
        if kind or any(name.startswith("eval_") for name in numbers):
            numbers.pop("epoch", None)
        if kind and "loss" in numbers:
            numbers["train_loss"] = numbers.pop("loss")
        said_as = kind or ("train" if "loss" in numbers else "eval")
        if not recorder.has(LogSource.name, said_as, step):
            recorder.add((self.rank, self.name), step, numbers, self._clock(), kind, is_past=True)
