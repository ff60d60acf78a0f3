"""A batch job's activity: what its files show, and what each polling machine remembers of them.

The files are read only if the scheduler and the supervisor disagree. Each reader measures time by its own clock since
its own boot: login nodes share the run's folder but no clock.
"""

import hashlib
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from armada_agent.engines.engine import Handed, scheduler_status
from armada_agent.foundation import files, process_identity
from armada_agent.paths import RunPaths, list_folder, newest
from armada_agent.records.ending import exit_of
from armada_agent.verdicts import liveness
from armada_agent.verdicts.requeue import LOST, REQUEUED

_MOST_HEARTBEATS = 256
_MOST_READERS = 8
_FILE = "liveness.json"
_APART_S = 1.0
_asked_at: Dict[str, float] = {}
_WRITTEN = {"running": liveness.BEGUN, "queued": liveness.GOES_BACK}

Clock = Callable[[], Dict[str, Any]]


class Memory:
    """This machine's memory of its observations of a submission in doubt.

    Args:
        handed: The submission.
        clock: Returns `boot` and `seconds`; the default is `process_identity.moment`.
    """

    def __init__(self, handed: Handed, clock: Optional[Clock] = None) -> None:
        self._path = handed.file(_FILE)
        moment = (clock or process_identity.moment)()
        self._boot, self.now_s = str(moment["boot"]), float(moment["seconds"])
        self._others: List[Dict[str, Any]] = []
        self.watch: liveness.Watch = {}
        self.second: Optional[Dict[str, Any]] = None
        self._end: Optional[Dict[str, Any]] = None
        self._dates: Any = None
        for each in _readers(self._path):
            if each.get("boot") == self._boot:
                self.watch = each["watch"] if isinstance(each.get("watch"), dict) else {}
                self.second = each["second"] if isinstance(each.get("second"), dict) else None
                self._end = each["end"] if isinstance(each.get("end"), dict) else None
                self._dates = each.get("dates")
            else:
                self._others.append(each)

    @property
    def lasted_s(self) -> float:
        """Seconds for which the scheduler's answer has been the same, without a sign of life in between."""
        return liveness.saying_s(self.watch)

    @property
    def changed_s(self) -> Optional[float]:
        """Seconds since the last sign of life; None if there was none."""
        changed = self.watch["changed"]
        return None if changed is None else self.now_s - float(changed)

    def time_of(self, moment: Dict[str, Any]) -> Optional[float]:
        """Return a moment by this machine's clock; None if another machine's clock, or that of an earlier boot, told it."""
        seconds = moment.get("seconds")
        if moment.get("boot") != self._boot or not isinstance(seconds, (int, float)):
            return None
        return float(seconds)

    def doubts(self, dates: List[int]) -> bool:
        """Return whether this machine has doubted files with these dates."""
        return bool(self._dates == dates)

    def doubt(self, dates: List[int]) -> None:
        """Remember the dates of files that show no sign of life. The next observation writes them to disk."""
        self._dates = dates

    def follow(self, word: str, answer: Any, paths: RunPaths, given_s: Optional[float] = None) -> None:
        """Add one observation. `given_s` is the time of the scheduler's answer by this machine's clock; now by default."""
        before = self.watch
        self.watch = liveness.follow(before or None, self.now_s, word, answer, sign(paths), given_s)
        if self.watch is not before:
            if self.watch["since"] == self.now_s:
                self.second = None  # it belonged to an earlier question
            self._keep()

    @property
    def silent_s(self) -> float:
        """Seconds since this machine has seen the job's files change."""
        return self.now_s - float(self.watch["still"])

    def ask_second(
        self, root: str, ask: Callable[[], Dict[str, Any]], lasted_s: Optional[float] = None
    ) -> Optional[Dict[str, Any]]:
        """Ask the second question, which costs a controller more than a row of its queue. It is repeated only when its answer is old.

        Args:
            root: The host's root. Each poll asks about only one of the jobs that are missing below it.
            ask: Asks the question.
            lasted_s: How long the job has been missing, in seconds; by default, for how long the scheduler has said so.

        Returns:
            The new or the earlier answer of `ask`; None if the question is still to be asked.
        """
        last = _asked_at.get(root)
        if not self._has_fresh_second(self.lasted_s if lasted_s is None else lasted_s) and (
            last is None or not 0 <= self.now_s - last < _APART_S
        ):
            self.second = dict(ask(), at=self.now_s)
            self._keep()
            _asked_at[root] = self.now_s
        return self.second

    def note_end(self, said: Dict[str, Any]) -> None:
        """Remember that the scheduler's report of the job's end was accepted: a scheduler forgets a job some minutes after its end."""
        if self._end is None or self._end.get("sign") != self.watch["sign"]:
            self._end = {"sign": self.watch["sign"], "said": said}
            self._keep()

    def forget_end(self) -> None:
        """Forget the end that was accepted, on all machines: the scheduler shows the job again, and not as ended."""
        others = [{name: value for name, value in each.items() if name != "end"} for each in self._others]
        if self._end is not None or others != self._others:
            self._end, self._others = None, others
            self._keep()

    def recall_end(self, paths: RunPaths) -> Optional[Dict[str, Any]]:
        """Return the end that any machine recorded with `note_end`; None if there is none, or if the job's files changed since."""
        ends = [self._end] + [each.get("end") for each in self._others]
        noted = [each for each in ends if isinstance(each, dict)]
        own = sign(paths) if noted else ""
        for each in noted:
            said = each.get("said")
            if each.get("sign") == own and isinstance(said, dict) and said.get("state") == liveness.ENDED:
                at = said.get("seen_at")
                seen_at = float(at) if isinstance(at, (int, float)) and 0 <= at < 1e12 else None
                words = {name: _text(said.get(name)) for name in ("detail", "reason", "message", "node")}
                return scheduler_status(liveness.ENDED, seen_at, **words)
        return None

    def _has_fresh_second(self, lasted_s: float) -> bool:
        if self.second is None or not isinstance(self.second.get("at"), (int, float)):
            return False
        return 0 <= self.now_s - float(self.second["at"]) < liveness.ask_again_after_s(lasted_s)

    def _keep(self) -> None:
        own: Dict[str, Any] = {"boot": self._boot, "watch": self.watch, "second": self.second, "end": self._end}
        if self._dates is not None:
            own["dates"] = self._dates
        try:
            files.replace_json(self._path, {"format": 1, "readers": self._others[1 - _MOST_READERS :] + [own]})
        except OSError:
            return  # on a full disk every poll is the first, and nothing is concluded


def forget(handed: Handed) -> None:
    """Delete the memory: scheduler and supervisor agree."""
    try:
        files.remove(handed.file(_FILE))
    except OSError:
        return  # something else lies there, or the disk fails; the answer is not affected


def sign(paths: RunPaths) -> str:
    """Return a signature of the files that the supervisor and its job write. Any change of them changes it.

    The files are opened because an NFS client asks the server for size and time only when it opens a file. A plain stat
    may return those of a minute ago.
    """
    names = [paths.telemetry, paths.output, paths.state, paths.events, paths.metrics]
    names += paths.heartbeats()[:_MOST_HEARTBEATS]
    attempt = newest(paths.attempts())
    if attempt is not None:
        names += [paths.attempt(attempt, name) for name in list_folder(paths.attempt(attempt))[:_MOST_HEARTBEATS]]
    found = [(os.path.relpath(name, paths.folder),) + _describe(name) for name in names]
    return hashlib.sha256(files.encode(found)).hexdigest()


def last_word(paths: RunPaths, submission: int) -> str:
    """Return the supervisor's last record of this submission's job: `UNBEGUN`, `BEGUN` or `GOES_BACK` of `liveness`.

    An unreadable record counts as a job that has begun. So does an attempt whose end the next one's supervisor wrote: its own
    has not said that it left, and may go on, on a node that the batch system believes dead.
    """
    try:
        state = files.read_json(paths.state) or {}
        is_own = state.get("submission") == submission
        by_state = _WRITTEN.get(str(state.get("state")), liveness.UNBEGUN) if is_own else liveness.UNBEGUN
        attempt = newest(paths.attempts())
        if attempt is None:
            return by_state
        exit_ = files.read_json(paths.attempt(attempt, "exit.json"))
        run = files.read_json(paths.attempt(attempt, "run.json"))
    except files.UnreadableError:
        return liveness.BEGUN
    if run is not None or "submission" in (exit_ or {}):
        is_own = (run or exit_ or {}).get("submission") == submission
    if not is_own:
        # The attempt is an earlier submission's; this one's supervisor may have left before it began one.
        return by_state if by_state == liveness.GOES_BACK else liveness.UNBEGUN
    exit_ = exit_of(exit_, submission)
    if exit_ is None or exit_.get("reason") == LOST:
        return liveness.BEGUN
    return liveness.GOES_BACK if exit_.get("state") == REQUEUED else liveness.UNBEGUN


def has_begun(paths: RunPaths, submission: int) -> bool:
    """Return whether the supervisor of this submission recorded that it began an attempt."""
    attempt = newest(paths.attempts())
    if attempt is None:
        return False
    try:
        run = files.read_json(paths.attempt(attempt, "run.json"))
    except files.UnreadableError:
        return True
    return run is not None and run.get("submission") == submission


def correct(said: Dict[str, Any], believed: str, engine: str, memory: Memory, wrote: str) -> Dict[str, Any]:
    """Replace the scheduler's state by the decided one, with a message that names both.

    Args:
        said: The status by the scheduler's answer alone.
        believed: The state that `liveness.judge` decided.
        engine: The scheduler's name.
        memory: The memory of the observations.
        wrote: The result of `last_word`.
    """
    if believed == said["state"]:
        return said
    word = said["detail"] or said["state"]
    if believed == liveness.RUNNING:
        wrote = "%s says “%s”, but its job wrote %.0f s ago" % (engine, word, memory.changed_s or 0.0)
        return dict(said, state=believed, reason=None, message=wrote)
    if wrote == liveness.UNBEGUN:
        return dict(said, state=believed, reason=None, message=None)
    if wrote == liveness.GOES_BACK:
        wait = "%s says “%s”; its supervisor wrote that it returns to the queue: armada knows in %.0f s whether it does"
        since_s, needed_s = memory.watch["since"], liveness.ALIVE_S
    else:
        wait = "%s says “%s”; its supervisor wrote “running”: armada knows in %.0f s whether it still writes"
        since_s, needed_s = memory.watch["still"], liveness.silence_s(said["state"])
    left_s = max(0.0, needed_s - (memory.now_s - float(since_s)))
    return dict(said, state=believed, reason=None, message=wait % (engine, word, left_s))


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _describe(path: str) -> Tuple[int, int]:
    try:
        with files.open_regular(path) as stream:
            status = os.fstat(stream.fileno())
            return status.st_size, status.st_mtime_ns
    except OSError:
        return -1, -1


def _readers(path: str) -> List[Dict[str, Any]]:
    try:
        kept = files.read_json(path) or {}
    except files.UnreadableError:
        return []  # cut short by a crash: start from zero
    listed = kept.get("readers")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
