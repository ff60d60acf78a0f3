"""Ask Slurm about jobs: the queue once for all runs and all clients of a host, or about one job by its id or its name."""

import os
import re
import time
from typing import Any, Callable, Dict, Optional

from armada_agent.engines import engine, slurm_answers, slurm_controller, slurm_nodes
from armada_agent.engines.engine import EngineError, Handed
from armada_agent.engines.slurm_answers import Answer, Row
from armada_agent.foundation import files

_LONGEST_BACKOFF_S = 300.0
_LOOK_S = 12.0  # a client waits twenty seconds for this host, and also asks about other runs
SECOND_S = 4.0
_ARRAY_SIZE = 1001


class Queue:
    """The last answer of squeue. All clients of this host share it through a file.

    Attributes:
        rows: Rows by job name.
        looked_at: Unix time of the answer; None before the first one.
        moment: The same by a clock that nobody sets; empty if it is unknown.
        error: Why there is no newer answer.
        doubt: Why a job without a row may still be in the queue.
    """

    def __init__(self, root: str, poll_s: float, clock: Callable[[], Dict[str, Any]]) -> None:
        folder = os.path.join(root, "schedulers")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._file = os.path.join(folder, "squeue.json")
        self._poll_s = poll_s
        self._clock = clock
        self.rows: Dict[str, Row] = {}
        self.looked_at: Optional[float] = None
        self.moment: Dict[str, Any] = {}
        self.error: Optional[str] = None
        self.doubt: Optional[str] = None
        self._next_at = 0.0
        self._failures = 0
        self._failed_at: Optional[float] = None
        self._load()
        if self._is_due():
            lock = files.lock(os.path.join(folder, ".squeue.lock"), timeout_s=5.0 if self.looked_at is None else 0.0)
            if lock is not None:
                try:
                    self._load()
                    if self._is_due():
                        self._refresh()
                finally:
                    os.close(lock)

    def _is_due(self) -> bool:
        # A next poll far in the future was written before the clock was set back.
        return not 0 <= self._next_at - time.time() <= max(_LONGEST_BACKOFF_S, self._poll_s)

    def _load(self) -> None:
        try:
            kept = files.read_json(self._file) or {}
        except files.UnreadableError:
            return  # cut short by a crash; the next poll replaces it
        rows, failures, doubt = kept.get("rows"), kept.get("failures"), kept.get("doubt")
        looked_at, next_at, error = kept.get("looked_at"), kept.get("next_at"), kept.get("error")
        if (
            kept.get("format") == 1
            and isinstance(rows, dict)
            and all(map(slurm_answers.is_row, rows.values()))
            and isinstance(looked_at, (int, float, type(None)))
            and isinstance(next_at, (int, float))
            and isinstance(failures, int)
            and all(isinstance(text, (str, type(None))) for text in (error, doubt))
        ):
            self.rows, self.looked_at, self.error, self.doubt = rows, looked_at, error, doubt
            self._next_at, self._failures = float(next_at), failures
            self.moment = kept["moment"] if isinstance(kept.get("moment"), dict) else {}

    def _refresh(self) -> None:
        now, moment = time.time(), self._clock()
        try:
            answer = ask(_LOOK_S)
        except EngineError as error:
            self._failures, self._failed_at = self._failures + 1, time.time()
            self.error = error.message
            pause_s = max(self._poll_s * 2 ** min(self._failures, 10), self._failed_at - now)  # no command waits twice
            self._next_at = self._failed_at + min(_LONGEST_BACKOFF_S, pause_s)
        else:
            slurm_nodes.note_failed(self.rows, answer.rows)
            self.rows, self.doubt, self.looked_at, self.moment = answer.rows, answer.doubt, now, moment
            self._failures, self.error, self._failed_at = 0, None, None
            self._next_at = now + self._poll_s
        kept = {"format": 1, "rows": self.rows, "looked_at": self.looked_at, "error": self.error, "doubt": self.doubt}
        kept.update(next_at=self._next_at, failures=self._failures, failed_at=self._failed_at, moment=self.moment)
        files.keep_json(self._file, kept)


def ask(timeout_s: float = 45.0) -> Answer:
    # %i is `100_3` for a job of an array; --array shows those that wait one by one.
    argv = ["squeue", "--noheader", "--array", "--states=all", "--user=%d" % os.getuid(), "--format=%i|%T|%r|%N|%j"]
    return slurm_answers.parse_queue(*slurm_controller.ask(argv, timeout_s))


def ask_job(handed: Handed, is_patient: bool = False) -> Optional[Row]:
    """Query a job by its id, which no site's filter hides. Return None if there is no such job.

    Args:
        handed: The submission.
        is_patient: Wait for a busy controller; otherwise for a few seconds only.

    Raises:
        EngineError: scontrol does not answer, or answers something else.
    """
    argv = ["scontrol", "--oneliner", "show", "job", handed.job_id]
    try:
        said = slurm_controller.ask(argv)[0] if is_patient else engine.run_tool(argv, timeout_s=SECOND_S)
    except EngineError as error:
        # The second is said of an array that Slurm has, about a job that it no longer has or never had.
        if re.search(r"invalid job id|job %s not found" % handed.job_id, error.message, re.IGNORECASE):
            return None
        raise
    return slurm_answers.parse_job(said, handed)


def ask_accounting(
    name: str, since: float, timeout_s: float = 45.0, index: Optional[int] = None
) -> Optional[Dict[str, str]]:
    """Query the accounting database. Return a row, an empty dict if it has no such job, or None if there is no database.

    Args:
        name: The job's name, or its array's.
        since: Unix time from which to search.
        timeout_s: The time limit.
        index: Of a job in an array; None for any job of this name.
    """
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(0.0, since - 60)))
    argv = ["sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--name=" + name]
    try:
        said = engine.run_tool(
            argv + ["--starttime=" + start, "--format=JobID,State,ExitCode,Start,NodeList,JobName"],
            timeout_s=timeout_s,
        )
    except EngineError:
        return None
    return slurm_answers.parse_accounting(said, name, index) or {}


def forgotten_after() -> float:
    """Return for how many seconds slurmctld remembers ended jobs; the minimum if its configuration is unreadable."""
    return float(_read_setting("MinJobAge") or 0)


def largest_array() -> int:
    """Return how many jobs an array may have; Slurm's default if its configuration is unreadable."""
    found = _read_setting("MaxArraySize")
    return _ARRAY_SIZE if found is None else max(1, found)


def _read_setting(name: str) -> Optional[int]:
    try:
        said = engine.run_tool(["scontrol", "show", "config"])
    except EngineError:
        return None
    match = re.search(r"^%s\s*=\s*(\d+)" % name, said, re.MULTILINE)
    return int(match.group(1)) if match else None
