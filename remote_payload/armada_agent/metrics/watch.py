"""Watch the metrics of a script or command while it runs, in a separate thread: a slow disk delays curves but no stop request."""

import threading
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence

from armada_agent.foundation import files
from armada_agent.metrics import event_files, lightning, trainer_state, wandb_files
from armada_agent.metrics.event_files import EventSource
from armada_agent.metrics.find import Finder
from armada_agent.metrics.recorder import Recorder, Report
from armada_agent.metrics.records import ReportedSource
from armada_agent.metrics.source import LogSource, Source
from armada_agent.metrics.tables import TableSource
from armada_agent.metrics.trainer_state import StateSource
from armada_agent.metrics.wandb_files import WandbSource
from armada_agent.paths import RunPaths

_INTERVAL_S = 1.0
_WANDB_DIR = "wandb_dir"  # the folder in WANDB_DIR, if armada sets it
_SAVE_EVERY_S = 10.0
_LAST_LOOK_S = 30.0
_MOST_CURVES = 500  # of a recorder that is kept; it has at most a few for each name
_RECORD_LIMIT = 4 * 1024 * 1024


class MetricsWatch:
    """Reads the metrics of one attempt's job from all sources, and writes metrics.jsonl.

    Create it before the job starts: existing data is not of this attempt.

    Args:
        paths: The run's files.
        attempt: The number of the attempt.
        patterns: Tables below the working folder that the experiment names. Without any, those of Lightning's CSVLogger.
        report: Receives findings for the user.
        say: Receives messages for the supervisor's log.
        is_ours: Returns whether the run's folder is still this supervisor's.
        clock: Returns unix time.
    """

    def __init__(
        self,
        paths: RunPaths,
        attempt: int,
        patterns: Sequence[str],
        report: Report,
        say: Report,
        is_ours: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._attempt = attempt
        self._report = report
        self._say = say
        self._is_ours = is_ours
        self._clock = clock
        self._stopping = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._is_broken = False
        self._saved = ""
        self._saved_at = 0.0
        kept = _read_record(paths, say)
        sources = kept.get("sources")
        marks: Dict[str, Any] = sources if isinstance(sources, dict) else {}
        is_first = attempt == 1 and kept.get("attempt") != attempt
        is_taken_over = kept.get("attempt") == attempt
        self._recorder = Recorder(paths.metrics, attempt, report, say, _kept_recorder(kept))
        self._finder = Finder(
            paths.work,
            {
                TableSource.name: patterns or [lightning.TABLES],
                StateSource.name: [trainer_state.PATTERN],
                EventSource.name: [event_files.PATTERN],
                WandbSource.name: [wandb_files.PATTERN],
            },
        )
        self._finder.refresh(at_once=is_first)
        self._wandb_finder = Finder(paths.wandb, {WandbSource.name: [wandb_files.BELOW]})
        try:
            self._sources = self._open(marks, is_first, is_taken_over)
        except Exception:  # a job may have written the marks
            say(traceback.format_exc())
            self._sources = self._open({}, is_first, is_taken_over)
        self._save()

    def _open(self, marks: Dict[str, Any], is_first: bool, is_taken_over: bool) -> List[Source]:
        """Open every source at the position up to which it was read."""
        work, finder, clock = self._paths.work, self._finder, self._clock
        log = LogSource(self._paths.output, marks.get(LogSource.name), clock, is_taken_over)
        return [
            ReportedSource(self._paths.reported, marks.get(ReportedSource.name), clock),
            TableSource(work, finder, marks.get(TableSource.name), is_first, clock),
            log,
            StateSource(work, finder, marks.get(StateSource.name), is_first, log, clock),
            EventSource(work, finder, marks.get(EventSource.name), is_first, clock),
            WandbSource(work, finder, marks.get(WandbSource.name), is_first, clock),
            WandbSource(self._paths.wandb, self._wandb_finder, marks.get(_WANDB_DIR), False, clock, _WANDB_DIR),
        ]

    @property
    def step(self) -> Optional[int]:
        """The last step that the job reported in this attempt; None where its metrics are not read, or no longer."""
        return None if self._is_broken else self._recorder.step

    @property
    def total(self) -> Optional[int]:
        """The number of steps of the whole training, if the job reports it."""
        return None if self._is_broken else self._recorder.total

    @property
    def count(self) -> int:
        """A number that grows with the job's progress."""
        return self._recorder.count

    def start(self) -> None:
        """Start to poll once a second."""
        self._thread = threading.Thread(target=self._keep_looking, name="metrics", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Read the rest after the job's processes have ended, without waiting for a disk that does not answer."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_LAST_LOOK_S)
            if self._thread.is_alive():
                self._say("the metrics are not read to their end: the disk does not answer")
                return
        self.look(final=True)
        self._recorder.conclude()

    def look(self, final: bool = False) -> None:
        """Read new metrics from every source, and write them."""
        if self._is_broken or not self._is_ours():
            return
        try:
            self._finder.refresh(at_once=final)
            self._wandb_finder.refresh(at_once=final)
            if self._finder.is_cut:
                self._recorder.tell(
                    "cut", "the work folder has too many files: those for curves that no path names may be missed"
                )
            for source in self._sources:
                source.prepare(self._recorder)
            for source in self._sources:
                if not self._recorder.is_full:
                    source.look(self._recorder, final)
            self._recorder.flush()
            self._is_broken = self._recorder.is_anothers
            if final or abs(self._clock() - self._saved_at) >= _SAVE_EVERY_S:
                self._save()
        except Exception as error:  # whatever a job wrote, it must be supervised until its end
            self._is_broken = True
            self._say(traceback.format_exc())
            self._report("its metrics are no longer read: %s: %.200s" % (type(error).__name__, error))

    def _keep_looking(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            self.look()

    def _save(self) -> None:
        """Save each source's position, for the next attempt or a supervisor that takes over. A lost record repeats some points."""
        self._saved_at = self._clock()
        record = {
            "attempt": self._attempt,
            "recorder": self._recorder.as_json(),
            "sources": {source.name: source.mark for source in self._sources},
        }  # type: Dict[str, Any]
        text = repr(record)
        if text == self._saved:
            return
        try:
            files.replace_json(self._paths.metrics_watch, record)
            self._saved = text
        except OSError as error:
            self._say("what was read of the metrics cannot be kept: %s" % error)


def _read_record(paths: RunPaths, say: Report) -> Dict[str, Any]:
    try:
        return files.read_json(paths.metrics_watch, _RECORD_LIMIT) or {}
    except files.UnreadableError as error:
        say(str(error))
        return {}


def _kept_recorder(kept: Dict[str, Any]) -> Dict[str, Any]:
    """Return the valid parts of a recorder's state: a job may have written it."""
    found = kept.get("recorder")
    found = found if isinstance(found, dict) else {}
    size, counted = found.get("size"), found.get("counted")
    return {
        "size": size if isinstance(size, int) else 0,
        "told": _words(found.get("told")),
        "placed": _words(found.get("placed"))[:_MOST_CURVES],
        "counted": {
            source: _words(curves)[:_MOST_CURVES]
            for source, curves in (counted.items() if isinstance(counted, dict) else ())
            if source in (TableSource.name, LogSource.name, WandbSource.name)
        },
    }


def _words(value: Any) -> List[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
