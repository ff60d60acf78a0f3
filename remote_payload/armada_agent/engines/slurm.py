"""Slurm: sbatch, squeue, scancel, scontrol and, if there is an accounting database, sacct.

Every query names its output format: the JSON of newer versions changes from release to release and costs the controller
a hundred times more. One squeue answers for all runs of a host, and all clients share its answer.
"""

import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.engines import engine, job_activity, slurm_controller, slurm_nodes
from armada_agent.engines.engine import EngineError, Handed, scheduler_status
from armada_agent.foundation import files
from armada_agent.host import job_variables, setup_lines
from armada_agent.verdicts import liveness

POLL_S = 15.0
_MAY_CHANGE = "Required node not available|Requested node configuration is not available|Requested nodes are busy"
_LONGEST_BACKOFF_S = 300.0
_LOOK_S = 12.0  # a client waits twenty seconds for this host, and also asks about other runs
_SECOND_S = 4.0
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
Row = Dict[str, str]


def submit(handed: Handed, lock: int) -> str:
    """Submit a run's job script. The lock outlives this process while sbatch waits for a busy controller.

    Returns:
        The job's id.
    """
    slurm_controller.require_up()
    argv = ["sbatch", "--parsable", "--job-name=" + handed.name, "--comment=" + handed.name]
    said, _ = engine.run_tool_aloud(
        argv + [handed.job_file("job.sbatch"), str(handed.number)],
        timeout_s=120.0,
        inherit=[lock],
        cwd=handed.paths.folder,
        given=job_variables.of_submission(handed.paths, setup_lines.exported()),  # the job inherits it
    )
    match = re.match(r"(\d+)", said.strip().splitlines()[-1] if said.strip() else "")
    if match is None:
        raise EngineError("sbatch said %.200r instead of a job id" % said)
    return match.group(1)


def look_up(handed: Handed) -> Optional[str]:
    """Find a submission whose answer was lost. Return None if it was never made.

    Raises:
        EngineError: It is impossible to know, for now or for good.
    """
    answer = _ask_queue()
    row = answer.rows.get(handed.name)
    if row is not None:
        return row["id"]
    if answer.doubt is not None:
        raise EngineError(answer.doubt)
    try:
        asked_at = (files.read_json(handed.file("asked.json")) or {}).get("time")
    except files.UnreadableError:
        asked_at = None
    begun = float(asked_at) if isinstance(asked_at, (int, float)) else 0.0  # damaged: treat as long ago
    if time.time() - begun < _forgotten_after():
        return None
    recorded = _ask_accounting(handed.name, begun)
    if recorded is None:
        raise EngineError(
            "Slurm forgets jobs that have ended, and there is no accounting database to show whether there was one"
        )
    return recorded["id"] if recorded else None


def look(handed: Handed, poll_s: float, clock: Optional[job_activity.Clock] = None) -> Dict[str, Any]:
    """Decide the state of a submission from Slurm's answer and the job's signs of life.

    Args:
        handed: The submission.
        poll_s: The shortest interval between two squeue calls.
        clock: This machine's clock, in seconds since its boot.
    """
    queue = _Queue(handed.paths.root, poll_s)
    if queue.looked_at is None:
        return scheduler_status(engine.UNKNOWN, None, error=queue.error)
    row = queue.rows.get(handed.name)
    # A hand-over in the future happened before the clock was set back; it would look newer than the answer for hours.
    if row is None and queue.looked_at < handed.handed_at <= time.time():
        return scheduler_status(engine.PENDING, queue.looked_at, message="submitted after the last query of the queue")
    said = (
        scheduler_status(liveness.MISSING, queue.looked_at, detail="no such job")
        if row is None
        else _status_of(row, queue)
    )
    said["error"] = queue.error or said["error"]
    wrote = job_activity.last_word(handed.paths, handed.number)
    doubted = (liveness.MISSING, engine.ENDED) + ((engine.PENDING, engine.HELD) if wrote == liveness.BEGUN else ())
    if said["state"] not in doubted:
        job_activity.forget(handed)
        return said
    memory = job_activity.Memory(handed, clock)
    if row is None:
        end = memory.recall_end(handed.paths)
        if end is not None:
            return dict(end, error=queue.error)
    memory.follow(said["state"], queue.looked_at, handed.paths)
    believed = liveness.judge(memory.watch, memory.now_s, wrote, poll_s)
    if believed == engine.ENDED and row is not None:
        memory.note_end(said)
    if believed == liveness.ASK:
        return _find_missing(handed, queue, memory)
    if believed == engine.UNKNOWN and row is None:
        words = "not in the queue's last answer" + ("; %s" % queue.doubt if queue.doubt else "")
        return dict(said, state=engine.UNKNOWN, message=words)
    return job_activity.correct(said, believed, "Slurm", memory, wrote)


def cancel(handed: Handed, status: Dict[str, Any], grace_s: float) -> None:
    """Cancel a waiting job; stop a running one through its supervisor, which gives the training its grace period."""
    # With --batch, only the supervisor gets the signal, and the site's KillWait does not cut its grace period short. If
    # it is unknown whether the job runs, its supervisor reads the stop request itself; so does a waiting job when it
    # starts.
    is_in_doubt = (
        status["state"] == engine.UNKNOWN and job_activity.last_word(handed.paths, handed.number) == liveness.BEGUN
    )
    gently = grace_s > 0 and (status["state"] == engine.RUNNING or is_in_doubt)
    argv = ["scancel"] + (["--batch", "--signal=TERM"] if gently else []) + [handed.job_id]
    try:
        slurm_controller.ask(argv)
    except EngineError as error:
        if "Invalid job id" not in error.message and "already" not in error.message:
            raise


def requeue(job_id: str) -> int:
    """Put a running job back into the queue; called on its node.

    Returns:
        The exit code with which its supervisor must then exit.

    Raises:
        EngineError: Slurm refused, or did not answer.
    """
    engine.run_tool(["scontrol", "requeue", job_id])
    return 1


def check(text: str) -> Dict[str, Any]:
    """Check whether a job script could ever run.

    `--test-only` is stricter than sbatch, which queues a job even if all its nodes are drained. Nodes that are only
    unavailable now are no reason to refuse.

    Returns:
        `wait`: why the job could not start now, or None; `starts_in_s`: Slurm's estimate in seconds, or None.

    Raises:
        EngineError: Slurm's own message why the job could never run.
    """
    try:
        out, said = slurm_controller.ask(["sbatch", "--test-only"], stdin=text.encode("utf-8"))
    except EngineError as error:
        # Slurm prints the first message for unavailable nodes, the second also for requests that no node can satisfy.
        if not error.refused or not re.search(_MAY_CHANGE, error.message):
            raise
        try:
            away = slurm_nodes.find_away(text, engine.run_tool(slurm_nodes.ARGV))
        except EngineError:
            raise error
        if not away and "Requested node configuration" in error.message:
            raise
        named = "; of the nodes that could run it, these are unavailable: %s" % ", ".join(away) if away else ""
        return {"wait": error.message + named, "starts_in_s": None}
    return {"wait": None, "starts_in_s": slurm_nodes.parse_start(said + out)}


def explain(handed: Handed) -> str:
    """Return why a job waits."""
    job_id = handed.job_id
    slurm_controller.refuse_if_silent(handed.paths.root)
    expected, _ = slurm_controller.ask(["squeue", "--noheader", "--start", "--jobs=" + job_id, "--format=%S|%r"])
    start, _, reason = expected.strip().partition("|")
    described = engine.run_tool(["scontrol", "--oneliner", "show", "job", job_id]).strip()
    head = "reason: %s%s\n" % (reason or "none", " (%s)" % _words(reason) if _words(reason) else "")
    if start not in ("", "N/A"):
        head += "expected to start: %s\n" % start
    return head + "\n".join(word for word in described.split(" ") if "=" in word)


def describe_queue() -> Dict[str, Any]:
    """Count all resources, the free ones, and the waiting jobs."""
    partitions = slurm_nodes.count_free(slurm_controller.ask(slurm_nodes.COUNTED)[0])
    lines = engine.run_tool(["squeue", "--noheader", "--states=PD,R", "--format=%U|%T"]).splitlines()
    own = str(os.getuid())
    mine = engine.count_words([line.partition("|")[2] for line in lines if line.partition("|")[0] == own])
    others = engine.count_words([line.partition("|")[2] for line in lines if line.partition("|")[0] != own])
    return {"partitions": sorted(partitions.values(), key=lambda p: str(p["name"])), "mine": mine, "others": others}


class Answer:
    """An answer of squeue.

    Attributes:
        rows: Rows by job name. Of two jobs with one name, the one that has not ended counts.
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
        if len(cells) != len(_FIELDS) or not cells[0].strip().isdigit():
            doubt = "squeue's answer has a line that is not a job: %.60r" % line
            continue
        row = dict(zip(_FIELDS, (cell.strip() for cell in cells)))
        row["state"] = _state_word(row["state"])
        before = rows.get(row["name"])
        if before is None or _is_over(before) or not _is_over(row):
            rows[row["name"]] = row
    if doubt is not None and text.strip() and not rows:
        raise EngineError(doubt)
    return Answer(rows, doubt)


def parse_job(text: str, handed: Handed) -> Optional[Row]:
    """Parse `scontrol show job` of an id. Return None if the id is another job's: a restored controller reuses ids.

    Raises:
        EngineError: The output shows no job.
    """
    found = dict(word.split("=", 1) for word in text.split() if "=" in word)
    if found.get("JobId") != handed.job_id or not found.get("JobState"):
        raise EngineError("scontrol show job %s said %.200r" % (handed.job_id, text.strip()))
    if found.get("JobName") != handed.name:
        return None
    cells = (handed.job_id, found["JobState"], found.get("Reason", ""), found.get("NodeList", ""), handed.name)
    row = dict(zip(_FIELDS, (("" if cell == "(null)" else cell) for cell in cells)))
    return dict(row, state=_state_word(row["state"]))


def parse_accounting(text: str, name: str) -> Optional[Row]:
    """Return the last record of a job in sacct's output. A requeued job has several; the first one says PREEMPTED."""
    found = None
    for line in text.splitlines():
        cells = line.split("|", len(_SACCT_FIELDS) - 1)
        if len(cells) == len(_SACCT_FIELDS) and cells[-1].strip() == name:
            found = dict(zip(_SACCT_FIELDS, (cell.strip() for cell in cells)))
            found["state"] = _state_word(found["state"])
    return found


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("state", "reason", "node"))


def _is_over(row: Row) -> bool:
    return row["state"] in _REASONS


def _state_word(text: str) -> str:
    return re.split(r"[ ,+]", text, maxsplit=1)[0]  # `CANCELLED by 1001`


def _ask_queue(timeout_s: float = 45.0) -> Answer:
    argv = ["squeue", "--noheader", "--states=all", "--user=%d" % os.getuid(), "--format=%A|%T|%r|%N|%j"]
    return parse_queue(*slurm_controller.ask(argv, timeout_s))


def _ask_job(handed: Handed) -> Optional[Row]:
    """Query a job by its id, which no site's filter hides. Return None if there is no such job.

    Raises:
        EngineError: scontrol does not answer, or answers something else.
    """
    try:
        said = engine.run_tool(["scontrol", "--oneliner", "show", "job", handed.job_id], timeout_s=_SECOND_S)
    except EngineError as error:
        if "invalid job id" in error.message.lower():
            return None
        raise
    return parse_job(said, handed)


def _ask_accounting(name: str, since: float, timeout_s: float = 45.0) -> Optional[Dict[str, str]]:
    """Query the accounting database. Return a row, an empty dict if it has no such job, or None if there is no database."""
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(0.0, since - 60)))
    argv = ["sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--name=" + name]
    try:
        said = engine.run_tool(
            argv + ["--starttime=" + start, "--format=JobIDRaw,State,ExitCode,Start,NodeList,JobName"],
            timeout_s=timeout_s,
        )
    except EngineError:
        return None
    return parse_accounting(said, name) or {}


def _forgotten_after() -> float:
    """Return for how many seconds slurmctld remembers ended jobs; the minimum if its configuration is unreadable."""
    try:
        match = re.search(r"^MinJobAge\s*=\s*(\d+)", engine.run_tool(["scontrol", "show", "config"]), re.MULTILINE)
    except EngineError:
        return 0.0
    return float(match.group(1)) if match else 0.0


class _Queue:
    """The last answer of squeue. All clients of this host share it through a file.

    Attributes:
        rows: Rows by job name.
        looked_at: Unix time of the answer; None before the first one.
        error: Why there is no newer answer.
        doubt: Why a job without a row may still be in the queue.
    """

    def __init__(self, root: str, poll_s: float) -> None:
        folder = os.path.join(root, "schedulers")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._file = os.path.join(folder, "squeue.json")
        self._poll_s = poll_s
        self.rows: Dict[str, Row] = {}
        self.looked_at: Optional[float] = None
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
            and all(map(_is_row, rows.values()))
            and isinstance(looked_at, (int, float, type(None)))
            and isinstance(next_at, (int, float))
            and isinstance(failures, int)
            and all(isinstance(text, (str, type(None))) for text in (error, doubt))
        ):
            self.rows, self.looked_at, self.error, self.doubt = rows, looked_at, error, doubt
            self._next_at, self._failures = float(next_at), failures

    def _refresh(self) -> None:
        now = time.time()
        try:
            answer = _ask_queue(_LOOK_S)
        except EngineError as error:
            self._failures, self._failed_at = self._failures + 1, time.time()
            self.error = error.message
            pause_s = max(self._poll_s * 2 ** min(self._failures, 10), self._failed_at - now)  # no command waits twice
            self._next_at = self._failed_at + min(_LONGEST_BACKOFF_S, pause_s)
        else:
            slurm_nodes.note_failed(self.rows, answer.rows)
            self.rows, self.doubt, self.looked_at = answer.rows, answer.doubt, now
            self._failures, self.error, self._failed_at = 0, None, None
            self._next_at = now + self._poll_s
        kept = {"format": 1, "rows": self.rows, "looked_at": self.looked_at, "error": self.error, "doubt": self.doubt}
        kept.update(next_at=self._next_at, failures=self._failures, failed_at=self._failed_at)
        files.keep_json(self._file, kept)


def _status_of(row: Row, queue: "_Queue") -> Dict[str, Any]:
    """Convert a row to a status. A state that armada does not know becomes `unknown`."""
    state, reason = row["state"], row["reason"]
    base: Dict[str, Any] = {"seen_at": queue.looked_at, "detail": state, "node": row["node"]}
    if state in _HELD or (state in _PENDING and reason in _HOLD_REASONS):
        return scheduler_status(engine.HELD, message=_hold_message(reason), **base)
    if state in _PENDING:
        if isinstance(row.get("failed"), str):
            words = "its node %s failed; %s" % (row["failed"], _words(reason) or "it waits for another")
            return scheduler_status(engine.PENDING, reason="node_failure", message=words, **base)
        return scheduler_status(engine.PENDING, message=_words(reason), **base)
    if state in _RUNNING:
        return scheduler_status(engine.RUNNING, **base)
    if state == "COMPLETING":
        return scheduler_status(engine.ENDING, **base)
    if state in _REASONS:
        return scheduler_status(engine.ENDED, reason=_REASONS[state], message=_words(reason), **base)
    return scheduler_status(engine.UNKNOWN, error="Slurm says “%.60s”, which this armada does not know" % state, **base)


def _find_missing(handed: Handed, queue: "_Queue", memory: job_activity.Memory) -> Dict[str, Any]:
    """Find out what happened to a job that has no row in repeated answers and shows no sign of life."""
    second = memory.ask_second(handed.paths.root, lambda: _ask_second(handed))
    if second is None:
        return scheduler_status(
            engine.UNKNOWN, queue.looked_at, message="not in the queue's last answer; asked for by its id soon"
        )
    if second.get("error"):
        words = "not in the queue's last answer, and its id cannot be asked for: %s" % second["error"]
        return scheduler_status(engine.UNKNOWN, queue.looked_at, error=words)
    row: Any = second.get("row")
    if _is_row(row):
        return _status_of(row, queue)
    recorded: Any = second.get("recorded")
    kind = _status_of(recorded, queue) if _is_row(recorded) else None
    believed = liveness.confirm(memory.lasted_s, queue.doubt is None, kind["state"] if kind else None)
    if believed == engine.ENDED and kind is not None:
        return kind
    if believed == engine.GONE:
        return scheduler_status(engine.GONE, queue.looked_at)
    why = "accounting says %s" % kind["detail"] if kind else queue.doubt
    return scheduler_status(engine.UNKNOWN, queue.looked_at, error="Slurm's controller has no such job, but %s" % why)


def _ask_second(handed: Handed) -> Dict[str, Any]:
    try:
        row = _ask_job(handed)
    except EngineError as error:
        return {"error": error.message[:500]}
    if row is not None:
        return {"row": row}
    recorded = _ask_accounting(handed.name, handed.handed_at, _SECOND_S)
    return {"recorded": dict(recorded, reason="") if recorded else None}


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


def _words(reason: str) -> Optional[str]:
    for start, words in _WAITING:
        if reason.startswith(start):
            return words
    return reason if reason not in ("", "None") else None
