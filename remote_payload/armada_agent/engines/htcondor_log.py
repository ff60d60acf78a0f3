"""HTCondor's event log of one job: each read continues where the last one ended, and costs the pool nothing."""

import contextlib
import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.engines import engine
from armada_agent.engines.engine import Handed
from armada_agent.foundation import files
from armada_agent.verdicts import liveness

_HEAD = re.compile(r"^(\d{3}) \((\d{1,20})\.(\d{1,20})\.\d+\) (.*)$")
_CODE = re.compile(r"^\s*Code (\d{1,9}) Subcode")
_HOLDS = {
    1: "held by hand (condor_hold)",
    3: "held by a policy of the submit file",
    4: "a job cannot run as this user there; ask the pool's administrators",
    6: "its command could not be started on the worker",
    7: "its output files could not be written",
    12: "the worker could not fetch its input; the file system may not be shared",
    13: "its output could not be brought back; the file system may not be shared",
    14: "its folder is missing on the worker; `root` must be on the shared file system",
    21: "its worker's starter was refused",
    26: "held by a policy of the pool",
    34: "it used more memory than it asked for; raise `resources.memory`",
    35: "its container could not be started",
    46: "it reached `allowed_job_duration`",
    47: "it ran for its time limit; once released, it continues from its last checkpoint",
}
_MEMORY_HOLD, _TIME_HOLD = 34, 47
SUBMITTED = "submitted"
"""The detail of a job of which the log has only its first event."""
REMOVED = "removed"
"""The detail of a job that was removed; with a node, while it ran: the log has no line that says that it left that node."""
_MOST_BYTES = 16 * 1024 * 1024
"""More than HTCondor writes about a job between two reads: a job that writes there is not read into memory."""
_LONGEST_TEXT = 500
_LAST_BYTES = 256  # longer than one event, so its timestamps make it unique in any log


def follow(seen: Dict[str, Any], text: str, job_id: str = "") -> Dict[str, Any]:
    """Update a job's state with more lines of its event log.

    Args:
        seen: What an earlier call returned; empty at first.
        text: Whole events, each ended by a line of three dots.
        job_id: The job whose events count; empty if its id is not known yet.
    """
    seen = dict(seen)
    for event in text.split("\n...\n"):
        lines = event.strip("\n").splitlines()
        head = _HEAD.match(lines[0]) if lines else None
        if head is not None and (not job_id or is_same_job(job_id, "%s.%s" % head.group(2, 3))):
            _take_event(seen, int(head.group(1)), "%s.%s" % head.group(2, 3), head.group(4), lines[1:])
    return seen


def is_same_job(one: str, other: str) -> bool:
    """Return whether two of HTCondor's spellings, such as `3.0` and `003.000`, mean the same job."""
    return [part.lstrip("0") for part in one.split(".")] == [part.lstrip("0") for part in other.split(".")]


def _take_event(seen: Dict[str, Any], number: int, job_id: str, headline: str, body: List[str]) -> None:
    words = body[0].strip()[:_LONGEST_TEXT] if body else ""
    told: Optional[Tuple[str, str, Optional[str], Optional[str]]] = None
    if number == 0:
        seen["job_id"] = job_id
        told = (engine.PENDING, SUBMITTED, None, None)
    elif number == 1:
        name = next((line.partition(":")[2].strip() for line in body if line.strip().startswith("SlotName:")), None)
        seen["node"] = (name or headline.rpartition(" ")[2])[:_LONGEST_TEXT]
        told = (engine.RUNNING, "executing", None, None)
    elif number in (10, 11, 22, 23):
        # The text of the other events is only counts and names.
        detail = {10: "suspended", 22: "disconnected"}.get(number, "executing")
        told = (engine.RUNNING, detail, None, words or None if number in (10, 22) else None)
    elif number in (4, 7, 24):
        detail = {4: "evicted", 7: "shadow exception", 24: "reconnect failed"}[number]
        reason = "node_failure" if number == 24 else None
        told = (engine.PENDING, detail, reason, "lost its worker (%s); waits for another" % detail)
        if number == 4 and "terminated and was requeued" in words:
            told = (engine.PENDING, "requeued", None, None)  # by its supervisor, whose own records say why
    elif number == 5:
        told = (engine.ENDED, "terminated", "ended_silently", words)
    elif number == 9:
        told = (engine.ENDED, REMOVED, "removed", words)
    elif number == 12:
        code = next((int(match.group(1)) for match in map(_CODE.match, body) if match), 0)
        reason = {_MEMORY_HOLD: "out_of_memory", _TIME_HOLD: "time_limit"}.get(code)
        why = _HOLDS.get(code, "held")
        told = (
            engine.HELD,
            "hold code %d" % code,
            reason,
            "%s: %s; `condor_release %s` releases it" % (why, words, job_id),
        )
    elif number == 13:
        told = (engine.PENDING, "released", None, None)
    if told is not None:
        seen["state"], seen["detail"], seen["reason"], seen["message"] = told
        if told[0] not in (engine.RUNNING, engine.ENDED):
            seen["node"] = None


class Log:
    """One submission's event log; each read continues where the last one ended."""

    def __init__(self, handed: Handed) -> None:
        self.path = handed.file("job.log")
        self._kept_path = handed.file("watch.json")
        self._job_id = handed.job_id
        self.error: Optional[str] = None
        self.quiet_s = 0.0
        """Seconds since it said something new, by the wall clock, which may have been set; 0 if unknown."""

    def read(self) -> Dict[str, Any]:
        try:
            kept = files.read_json(self._kept_path) or {}
        except files.UnreadableError:
            kept = {}
        offset, seen, inode = kept.get("offset"), kept.get("seen"), kept.get("inode")
        last = kept["last"] if isinstance(kept.get("last"), str) else ""  # an older armada recorded none
        if (
            not isinstance(offset, int)
            or not 0 <= offset < 1 << 53
            or not isinstance(seen, dict)
            or not _is_status(seen)
        ):
            offset, seen, last = 0, {}, ""  # the record is damaged: read the log from its beginning
        try:
            with files.open_regular(self.path) as stream:
                status = os.fstat(stream.fileno())
                stream.seek(max(0, offset - len(last)))
                is_as_read = stream.read(len(last)).decode("latin-1") == last
                if status.st_size < offset or inode not in (None, status.st_ino) or not is_as_read:
                    offset, seen = (
                        0,
                        {},
                    )  # truncated, another file, or overwritten: read its present content from the beginning
                    self._keep({"offset": 0, "seen": {}})
                stream.seek(offset)
                block = stream.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            if seen or self._job_id:
                self.error = "its event log is not there: %s" % self.path
            return dict(seen)
        except OSError as error:
            self.error = str(error)
            return dict(seen)
        if len(block) > _MOST_BYTES:
            self.error = "its event log grew by more than %d MB: %s" % (_MOST_BYTES >> 20, self.path)
            return dict(seen)
        end = block.rfind(b"\n...\n") + 5
        if end < 5:
            self._note_quiet(kept, seen)
            return dict(seen)
        seen = dict(follow(seen, block[:end].decode("utf-8", "replace"), self._job_id), at=time.time())
        last = block[:end][-_LAST_BYTES:].decode("latin-1")
        self._keep({"offset": offset + end, "seen": seen, "inode": status.st_ino, "last": last})
        return seen

    def _keep(self, record: Dict[str, Any]) -> None:
        """Note how far it was read. Where that fails, the disk is full or a job has put something there: it is read again."""
        with contextlib.suppress(OSError):
            files.keep_json(self._kept_path, record)

    def _note_quiet(self, kept: Dict[str, Any], seen: Dict[str, Any]) -> None:
        """Note since when nothing new was said; the clock may have been set back since then, and an older armada noted nothing."""
        at, now = seen.get("at"), time.time()
        if isinstance(at, (int, float)) and at <= now:
            self.quiet_s = now - at
        elif seen and kept.get("seen") == seen:
            self._keep(dict(kept, seen=dict(seen, at=now)))


def _is_status(seen: Dict[str, Any]) -> bool:
    texts = [seen.get(name) for name in ("job_id", "detail", "reason", "message", "node")]
    is_word = seen.get("state") in (None,) + liveness.WORDS
    is_time = isinstance(seen.get("at"), (int, float, type(None)))
    return is_word and is_time and all(isinstance(text, (str, type(None))) for text in texts)
