"""A batch job's activity: what its files show, and what each observing machine remembers of them.

They are looked at only where the scheduler's word and the supervisor's differ. Each reader counts by its own clock since its
own boot: login nodes share the run's folder and no clock.
"""

import hashlib
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from armada_agent.engines.engine import Handed, scheduler_status
from armada_agent.host import files, process_identity
from armada_agent.paths import RunPaths, list_folder, newest
from armada_agent.verdicts import liveness
from armada_agent.verdicts.requeue import REQUEUED

_MOST_HEARTBEATS = 256
_MOST_READERS = 8
_FILE = "liveness.json"
_APART_S = 1.0
_asked_at: Dict[str, float] = {}
_WRITTEN = {"running": liveness.BEGUN, "queued": liveness.GOES_BACK}

Clock = Callable[[], Dict[str, Any]]


class Memory:
    """What this machine remembers of its looks at a submission that is in doubt.

    Args:
        handed: The submission.
        clock: Says `boot` and `seconds`, in place of `process_identity.moment`.
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
        """For how long the scheduler has been saying the same, with no sign of life in between."""
        return self.now_s - float(self.watch["since"])

    @property
    def changed_s(self) -> Optional[float]:
        """Seconds since a sign of life was last seen to change."""
        changed = self.watch["changed"]
        return None if changed is None else self.now_s - float(changed)

    def doubts(self, dates: List[int]) -> bool:
        """Tell whether this machine doubted files of these dates."""
        return bool(self._dates == dates)

    def doubt(self, dates: List[int]) -> None:
        """Remember the dates of files that show no sign of life; with the next observation they are kept."""
        self._dates = dates

    def follow(self, word: str, answer: Any, paths: RunPaths) -> None:
        """Update the memory with one more observation."""
        before = self.watch
        self.watch = liveness.follow(before or None, self.now_s, word, answer, sign(paths))
        if self.watch is not before:
            if self.watch["since"] == self.now_s:
                self.second = None  # it was about something else
            self._keep()

    def ask_second(self, root: str, ask: Callable[[], Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """Answer the second question, which costs a controller more than a row of its queue; asked again when its answer is old.

        Args:
            root: Of the jobs that are missing under one root, each look asks for one.
            ask: Asks it.

        Returns:
            What `ask` returned, then or before; None: it is to be asked soon.
        """
        last = _asked_at.get(root)
        if not self._has_fresh_second() and (last is None or not 0 <= self.now_s - last < _APART_S):
            self.second = dict(ask(), at=self.now_s)
            self._keep()
            _asked_at[root] = self.now_s
        return self.second

    def note_end(self, said: Dict[str, Any]) -> None:
        """Remember that the scheduler was believed to say how the job ended: it forgets its jobs some minutes later."""
        if self._end is None or self._end.get("sign") != self.watch["sign"]:
            self._end = {"sign": self.watch["sign"], "said": said}
            self._keep()

    def recall_end(self, paths: RunPaths) -> Optional[Dict[str, Any]]:
        """Recall what any machine noted with `note_end`; None where something of the job's has changed since, or nobody did."""
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

    def _has_fresh_second(self) -> bool:
        if self.second is None or not isinstance(self.second.get("at"), (int, float)):
            return False
        return 0 <= self.now_s - float(self.second["at"]) < liveness.ask_again_after_s(self.lasted_s)

    def _keep(self) -> None:
        own: Dict[str, Any] = {"boot": self._boot, "watch": self.watch, "second": self.second, "end": self._end}
        if self._dates is not None:
            own["dates"] = self._dates
        try:
            files.replace_json(self._path, {"format": 1, "readers": self._others[1 - _MOST_READERS :] + [own]})
        except OSError:
            return  # on a full disk every look is the first, and nothing is concluded


def forget(handed: Handed) -> None:
    """Forget the doubt: scheduler and supervisor agree."""
    try:
        files.remove(handed.file(_FILE))
    except OSError:
        return  # something else lies there, or the disk fails: no look is worth less for it


def sign(paths: RunPaths) -> str:
    """Sign what the supervisor and its job write: any change of it changes the signature.

    The files are opened, because an NFS client that opens a file asks the server for its size and time; one that only looks at
    its name may show those of a minute ago.
    """
    names = [paths.telemetry, paths.output, paths.state, paths.events, paths.metrics]
    names += paths.heartbeats()[:_MOST_HEARTBEATS]
    attempt = newest(paths.attempts())
    if attempt is not None:
        names += [paths.attempt(attempt, name) for name in list_folder(paths.attempt(attempt))[:_MOST_HEARTBEATS]]
    found = [(os.path.relpath(name, paths.folder),) + _describe(name) for name in names]
    return hashlib.sha256(files.encode(found)).hexdigest()


def last_word(paths: RunPaths, submission: int) -> str:
    """Tell what a supervisor wrote last of this submission's job: `UNBEGUN`, `BEGUN` or `GOES_BACK` of `liveness`.

    What cannot be read tells that something is there: then it is treated as a job that has begun.
    """
    try:
        state = files.read_json(paths.state) or {}
        is_own = state.get("submission") == submission
        attempt = newest(paths.attempts())
        if attempt is None:
            return _WRITTEN.get(str(state.get("state")), liveness.UNBEGUN) if is_own else liveness.UNBEGUN
        exit_ = files.read_json(paths.attempt(attempt, "exit.json"))
        run = files.read_json(paths.attempt(attempt, "run.json"))
    except files.UnreadableError:
        return liveness.BEGUN
    if run is not None:
        is_own = run.get("submission") == submission
    if not is_own:
        return liveness.UNBEGUN
    if exit_ is None:
        return liveness.BEGUN
    return liveness.GOES_BACK if exit_.get("state") == REQUEUED else liveness.UNBEGUN


def correct(said: Dict[str, Any], believed: str, engine: str, memory: Memory, wrote: str) -> Dict[str, Any]:
    """Replace the scheduler's state by the decided one, with a message that names both.

    Args:
        said: A scheduler status, as the scheduler's word alone gives it.
        believed: As `liveness.judge` answers.
        engine: What the scheduler is called.
        memory: Of the looks.
        wrote: As `last_word` answers.
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
        wait, since = (
            "%s says “%s”; its supervisor wrote that it returns to the queue: armada knows in %.0f s whether it does",
            "since",
        )
    else:
        wait, since = (
            "%s says “%s”; its supervisor wrote “running”: armada knows in %.0f s whether it still writes",
            "still",
        )
    left_s = max(0.0, liveness.ALIVE_S - (memory.now_s - float(memory.watch[since])))
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
        return []  # torn by a crash: the count begins anew
    listed = kept.get("readers")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
