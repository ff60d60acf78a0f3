"""Parse what Slurm prints about jobs, and convert a row into a status. Asks nothing."""

import re
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.engines import engine
from armada_agent.engines.engine import EngineError, Handed, scheduler_status

_FIELDS = ("id", "state", "reason", "node", "name")
_SACCT_FIELDS = ("id", "state", "exit", "start", "node", "name")
_PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "RESV_DEL_HOLD")
_HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
_HOLD_REASONS = ("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch_failed_requeued_held")
_REASONS = {
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "node_failure",
    "PREEMPTED": "preempted",
    "OUT_OF_MEMORY": "out_of_memory",
    "CANCELLED": "removed",
    "REVOKED": "removed",
    "COMPLETED": "ended_silently",
    "FAILED": "ended_silently",
}
_JOB_ID = re.compile(r"\d+(?:_(\d+)|\+\d+)?")
Row = Dict[str, str]


class Answer:
    """An answer of squeue.

    Attributes:
        rows: Rows by job name, of array jobs by `row_name`. Of two jobs with one name, the one that has not ended
            counts.
        doubt: Why a job without a row may still be in the queue.
    """

    def __init__(self, rows: Dict[str, Row], doubt: Optional[str]) -> None:
        self.rows = rows
        self.doubt = doubt


def parse_queue(text: str, beside: str = "") -> Answer:
    """Parse squeue's lines. A row always counts; a missing row counts only if the answer is complete.

    Args:
        text: squeue's stdout.
        beside: squeue's stderr, at exit code 0.

    Raises:
        EngineError: squeue printed something, but no row.
    """
    rows: Dict[str, Row] = {}
    doubt = "squeue said: %.200s" % beside.strip() if beside.strip() else None
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        doubt = "squeue's answer was cut at %.60r" % lines.pop()
    for line in lines:
        cells = line.split("|", len(_FIELDS) - 1)
        job_id = _JOB_ID.fullmatch(cells[0].strip())
        if len(cells) != len(_FIELDS) or job_id is None:
            doubt = "squeue's answer has a line that is not a job: %.60r" % line
            continue
        row = dict(zip(_FIELDS, (cell.strip() for cell in cells)))
        row["state"] = _state_word(row["state"])
        if job_id.group(1) is not None:
            row["name"] = row_name(row["name"], int(job_id.group(1)))
        before = rows.get(row["name"])
        if before is None or is_over(before) or not is_over(row):
            rows[row["name"]] = row
    if doubt is not None and text.strip() and not rows:
        raise EngineError(doubt)
    return Answer(rows, doubt)


def row_name(name: str, index: int) -> str:
    """Return the name under which one job of an array is found: all of them share the array's name."""
    return "%s_%d" % (name, index)


def find_array(answer: Answer, name: str) -> Optional[str]:
    """Return the id of the array with this name, by any job of it; None if the answer has none."""
    for row in answer.rows.values():
        base, _, index = row["id"].partition("_")
        if row["name"] == (row_name(name, int(index)) if index else name):
            return base
    return None


def parse_job(text: str, handed: Handed) -> Optional[Row]:
    """Parse `scontrol show job` of an id. Return None if the id is another job's: a restored controller reuses ids.

    Raises:
        EngineError: The output shows no job.
    """
    found = dict(word.split("=", 1) for word in text.split() if "=" in word)
    shown = found.get("JobId")
    index = handed.job_id.partition("_")[2]
    if index:
        # Jobs of an array that wait are one record, whose `ArrayTaskId` is a list such as `3-11%3`.
        tasks = found.get("ArrayTaskId", "")
        is_shown = tasks == index or (tasks != "" and not tasks.isdigit())
        shown = "%s_%s" % (found.get("ArrayJobId"), index) if is_shown else None
    elif found.get("ArrayJobId") == handed.job_id:
        return None  # the id is an array's now; each of its jobs is a record
    if shown != handed.job_id or not found.get("JobState"):
        raise EngineError("scontrol show job %s said %.200r" % (handed.job_id, text.strip()))
    if found.get("JobName") != handed.queued_as:
        return None
    cells = (handed.job_id, found["JobState"], found.get("Reason", ""), found.get("NodeList", ""), handed.name)
    row = dict(zip(_FIELDS, (("" if cell == "(null)" else cell) for cell in cells)))
    return dict(row, state=_state_word(row["state"]))


def parse_accounting(text: str, name: str, index: Optional[int] = None) -> Optional[Row]:
    """Return the last record of a job in sacct's output. A requeued job has several; the first one says PREEMPTED.

    Args:
        text: sacct's output.
        name: The job's name, or its array's.
        index: Of a job in an array; None for any job of this name.
    """
    found = None
    for line in text.splitlines():
        cells = line.split("|", len(_SACCT_FIELDS) - 1)
        is_meant = index is None or cells[0].strip().endswith("_%d" % index)
        if len(cells) == len(_SACCT_FIELDS) and cells[-1].strip() == name and is_meant:
            found = dict(zip(_SACCT_FIELDS, (cell.strip() for cell in cells)))
            found["state"] = _state_word(found["state"])
    return found


def is_row(value: Any) -> bool:
    """Return whether a value read from a file is a row."""
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("state", "reason", "node"))


def is_over(row: Row) -> bool:
    """Return whether a row shows a job that has ended."""
    return row["state"] in _REASONS


def _state_word(text: str) -> str:
    return re.split(r"[ ,+]", text, maxsplit=1)[0]  # `CANCELLED by 1001`


def status_of(row: Row, looked_at: Optional[float]) -> Dict[str, Any]:
    """Convert a row to a status. A state that armada does not know becomes `unknown`."""
    state, reason = row["state"], row["reason"]
    base: Dict[str, Any] = {"seen_at": looked_at, "detail": state, "node": row["node"]}
    if state in _HELD or (state in _PENDING and reason in _HOLD_REASONS):
        return scheduler_status(engine.HELD, message=_hold_message(reason), **base)
    if state in _PENDING:
        if isinstance(row.get("failed"), str):
            words = "its node %s failed; %s" % (row["failed"], explain_reason(reason) or "it waits for another")
            return scheduler_status(engine.PENDING, reason="node_failure", message=words, **base)
        return scheduler_status(engine.PENDING, message=explain_reason(reason), **base)
    if state in _RUNNING:
        return scheduler_status(engine.RUNNING, **base)
    if state == "COMPLETING":
        return scheduler_status(engine.ENDING, **base)
    if state in _REASONS:
        return scheduler_status(engine.ENDED, reason=_REASONS[state], message=explain_reason(reason), **base)
    return scheduler_status(engine.UNKNOWN, error="Slurm says “%.60s”, which this armada does not know" % state, **base)


def _hold_message(reason: str) -> str:
    who = {"JobHeldAdmin": "held by an administrator", "JobHoldMaxRequeue": "held after too many requeues"}
    return "%s; `scontrol release` releases it" % who.get(reason, "held")


_WAITING: List[Tuple[str, str]] = [
    ("Priority", "other jobs come first"),
    ("Resources", "waiting for nodes to become free"),
    ("BeginTime", "its start time is not reached: a requeued job waits two minutes"),
    ("DependencyNeverSatisfied", "a job that it depends on failed, so it never starts: stop it"),
    ("Dependency", "waiting for another job"),
    ("QOS", "a limit of its quality of service is reached"),
    ("Assoc", "a limit of its account is reached"),
    ("PartitionTimeLimit", "it asks for more time than the partition gives"),
    ("PartitionNodeLimit", "it asks for more nodes than the partition has"),
    ("ReqNodeNotAvail", "the nodes it needs are down or reserved"),
    ("NodeDown", "a node it needs is down"),
    ("Licenses", "waiting for a license"),
]


def explain_reason(reason: str) -> Optional[str]:
    """Say a pending job's reason in plain words; None if it has none."""
    for start, words in _WAITING:
        if reason.startswith(start):
            return words
    return reason if reason not in ("", "None") else None
