"""A supervisor's records: state.json and events.jsonl. A full disk, or one that refuses, delays them but never ends the job."""

import contextlib
import json
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.paths import RunPaths
from armada_agent.records import forgetting, job_status
from armada_agent.records.ending import Ending
from armada_agent.records.place import Place, await_seen, is_seen_gone

_LONGEST_MESSAGE = 500  # characters of an event's message; state.json has the whole message


class Journal:
    """Writes a run's state and events in order, and keeps in memory what cannot be written yet.

    Args:
        paths: The run's files.
        submission: The submission of the supervisor that writes.
        clock: Returns unix time.
    """

    def __init__(self, paths: RunPaths, submission: int, clock: Callable[[], float] = time.time) -> None:
        self._paths = paths
        self._submission = submission
        self._clock = clock
        self._lock = threading.RLock()
        self._pending: List[Callable[[], None]] = []
        self._told = False
        self._written: Dict[str, Any] = {}
        self._restored = False
        self._failed_attempt = 0
        self._seq = _last_seq(paths)
        self.place = Place(paths, submission)
        self.state: Dict[str, Any] = {
            "state": "queued",
            "reason": None,
            "message": None,
            "submission": submission,
            "attempt": 0,
            "gpus": [],
            "exit_code": None,
            "signal": None,
            "queued_at": clock(),
            "started_at": None,
            "ended_at": None,
        }

    def take_up(self, attempt: int) -> None:
        """Continue the records of a killed supervisor of the same submission."""
        self._seq = max(self._seq, _last_seq(self._paths))
        try:
            earlier = await_seen(self._paths, lambda: files.read_json(self._paths.state)) or {}
        except files.UnreadableError:
            earlier = {}  # cut short when its supervisor was killed
        if earlier.get("submission") == self.state["submission"]:
            self.state.update({name: earlier[name] for name in self.state if name in earlier})
        self.state["attempt"] = attempt

    def update(self, **changes: Any) -> None:
        """Change the state and append an event about the change."""
        with self._lock:
            self.state.update(changes)
            shown = {name: self.state[name] for name in ("state", "reason", "message")}
            self.record("state", **shown)
            self._written = dict(self.state, seq=self._seq)
            self.write_json(self._paths.state, self._written)

    def restore(self) -> None:
        """Write the state again if the supervisor of a former attempt has replaced it.

        It was frozen between its check whether the run is still its own and its write. No lock closes this gap on every
        shared file system, and a lock of a frozen process would keep this one waiting.
        """
        with self._lock:
            try:
                seen = files.read_json(self._paths.state) or {}
            except (files.UnreadableError, OSError):
                return
            theirs, ours = (_number_of(seen), _number_of(self._written))
            if self._pending or theirs is None or ours is None or theirs >= ours:
                return
            if not self._restored:
                self._restored = True
                message = (
                    "the supervisor of attempt %d was frozen; it replaced the state of attempt %d, which is restored"
                )
                self.record("finding", message=message % (theirs[1], ours[1]))
            self.write_json(self._paths.state, self._written)

    def record(self, kind: str, **fields: Any) -> None:
        """Append an event."""
        with self._lock:
            self._seq += 1
            event = {"seq": self._seq, "time": self._clock(), "attempt": self.state["attempt"], "kind": kind}
            event.update(fields)
            self._do(lambda: files.append_line(self._paths.events, event))

    def write_json(self, path: str, value: Dict[str, Any]) -> None:
        """Write a file after everything that was recorded before it.

        If its disk was put back to before the attempt began, the attempt's folder is made again: without the end in it, the
        supervisor would wait for ever to write it.
        """
        self._do(lambda: self._write(path, value))

    def note_status(self, status: int) -> None:
        """Write how the job of the current attempt ended, before anything else is done about its end."""
        attempt = self.state["attempt"]
        told = job_status.compose(attempt, self.state["submission"], status)
        self.write_json(job_status.path_of(self._paths, attempt), told)

    def conclude(self, ending: Ending, at: Optional[float] = None) -> None:
        """Write a run's end: first the attempt's exit, then delete the secrets, and last write the state.

        Args:
            ending: The end.
            at: When it ended, unix time; by default now.
        """
        now = self._clock() if at is None else at
        self.close_attempt(ending, now)
        self._do(self._forget_secrets)
        self.update(ended_at=now, **_told(ending))
        self.settle()

    def complete(self, attempt: int, told: Dict[str, Any]) -> None:
        """Complete a run's end of which a killed supervisor wrote only the attempt's exit.

        Args:
            attempt: The attempt.
            told: What its exit.json says.
        """
        self.take_up(attempt)
        self._do(self._forget_secrets)
        known = {
            name: told[name]
            for name in ("state", "reason", "message", "exit_code", "signal", "ended_at")
            if name in told
        }
        self.update(**known)
        self.settle()

    def requeue(self, ending: Ending) -> None:
        """Write the end of an attempt after which the run waits for its next one. The secrets stay for the next attempt."""
        now = self._clock()
        self.close_attempt(ending, now)
        self.update(state="queued", reason=ending.reason, message=ending.message, gpus=[], queued_at=now)
        self.settle()

    def close_attempt(self, ending: Ending, now: Optional[float] = None) -> None:
        """Write the exit of the current attempt, if one has begun."""
        attempt = self.state["attempt"]
        if attempt:
            told = dict(_told(ending), attempt=attempt, submission=self.state["submission"])
            told["ended_at"] = self._clock() if now is None else now
            told.update(ending.steps)
            if ending.cause is not None and self._failed_attempt != attempt:  # it may be closed again with another end
                self._failed_attempt = attempt
                shown = {name: told[name] for name in ("exit_code", "signal")}
                shown["submission"] = self.state["submission"]
                message = ending.cause.message and ending.cause.message[:_LONGEST_MESSAGE]
                self.record("failure", **dict(ending.cause._asdict(), message=message, **shown))
            self.write_json(self._paths.attempt(attempt, "exit.json"), told)

    def flush(self) -> bool:
        """Write what is pending; return False if the disk did not take it."""
        with self._lock:
            while self._pending:
                if not self.place.is_ours(at_once=True):
                    self._pending.clear()  # if a folder of this name exists, it is not the run's
                    return True
                try:
                    self._pending[0]()
                except OSError as error:
                    if not is_seen_gone(self._paths):
                        self._tell(error)
                        return False
                    self._pending.clear()  # the run's folder was deleted: there is nowhere to write
                    return True
                del self._pending[0]
            self._told = False
            return True

    def settle(self, pause: Callable[[float], None] = time.sleep) -> None:
        """Write everything, and wait as long as the disk is full or cannot be reached."""
        while not self.flush():
            pause(1.0)

    def _forget_secrets(self) -> None:
        forgetting.forget(self._paths, self._submission)

    def _write(self, path: str, value: Dict[str, Any]) -> None:
        try:
            files.write_json(path, value)
        except FileNotFoundError:
            self._make_again(os.path.dirname(path))
            files.write_json(path, value)

    def _make_again(self, folder: str) -> None:
        """Make a folder below the run's own; never that one, which somebody deleted if it is missing."""
        made = self._paths.folder
        for part in os.path.relpath(folder, made).split(os.sep):
            if part in (os.curdir, os.pardir):
                return
            made = os.path.join(made, part)
            with contextlib.suppress(FileExistsError):
                os.mkdir(made)

    def _do(self, write: Callable[[], None]) -> None:
        with self._lock:
            self._pending.append(write)
            self.flush()

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            say("cannot write, will keep trying: %s" % error)


def _told(ending: Ending) -> Dict[str, Any]:
    return {name: getattr(ending, name) for name in ("state", "reason", "message", "exit_code", "signal")}


def _number_of(state: Dict[str, Any]) -> Optional[Tuple[int, int]]:
    """Return a state's submission and attempt; None if it names none, as after a job wrote into it."""
    submission, attempt = state.get("submission"), state.get("attempt")
    return (submission, attempt) if isinstance(submission, int) and isinstance(attempt, int) else None


def _last_seq(paths: RunPaths) -> int:
    numbers = [0]
    try:
        numbers.append((files.read_json(paths.state) or {}).get("seq", 0))
        numbers.append(json.loads(files.last_line(paths.events) or "{}").get("seq", 0))
    except (files.UnreadableError, ValueError, AttributeError, RecursionError) as error:
        say("earlier records are damaged: %s" % error)
    return max(number for number in numbers if isinstance(number, int))
