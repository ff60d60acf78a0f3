"""Slurm through sbatch, squeue, scancel, scontrol and, where an accounting database is, sacct.

Every question has an explicit format: the JSON that newer versions offer changes from release to release, and costs the
controller a hundred times more. One squeue answers for all runs of a host, and everybody who looks shares its answer.
"""

import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent import engines, files
from armada_agent.engines import EngineError, Handed, sight

POLL_S = 15.0
_LONGEST_BACKOFF_S = 300.0
_LOOK_S = 12.0  # whoever looks waits twenty seconds for this host, and has other runs to hear of
_MISSING_LOOKS = 3
_MISSING_S = 30.0
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
    """Hand a run's job script over; the lock outlives us while sbatch, which waits for a busy controller, works.

    Returns:
        The job's id.
    """
    argv = ["sbatch", "--parsable", "--job-name=" + handed.name, "--comment=" + handed.name]
    said = engines.run_tool(
        argv + [handed.job_file("job.sbatch"), str(handed.number)],
        timeout_s=120.0,
        inherit=[lock],
        cwd=handed.paths.folder,
    )
    match = re.match(r"(\d+)", said.strip().splitlines()[-1] if said.strip() else "")
    if match is None:
        raise EngineError("sbatch said %.200r instead of a job id" % said)
    return match.group(1)


def look_up(handed: Handed) -> Optional[str]:
    """Find a submission whose answer was lost; None: it was never made.

    Raises:
        EngineError: That cannot be known (any more).
    """
    for row in _ask_queue().values():
        if row["name"] == handed.name:
            return row["id"]
    asked = files.read_json(handed.file("asked.json")) or {}
    begun = float(asked.get("time") or 0.0)
    if time.time() - begun < _forgotten_after():
        return None
    recorded = _ask_accounting(handed.name, begun)
    if recorded is None:
        raise EngineError(
            "Slurm forgets jobs that have ended, and no accounting database remembers whether there was one"
        )
    return recorded["id"] if recorded else None


def look(handed: Handed, poll_s: float) -> Dict[str, Any]:
    """Say what Slurm says of a submission."""
    queue = _Queue(handed.paths.root, poll_s)
    if queue.looked_at is None:
        return sight(engines.UNKNOWN, None, error=queue.error)
    row = queue.rows.get(handed.name)
    watched = _Watched(handed.file("watch.json"))
    if row is None:
        return _sight_of_missing(handed, queue, watched, max(_MISSING_S, 3 * poll_s))
    state, reason = row["state"], row["reason"]
    base: Dict[str, Any] = {"seen_at": queue.looked_at, "detail": state, "node": row["node"], "error": queue.error}
    if state in _HELD or (state in _PENDING and reason in _HOLD_REASONS):
        watched.forget()
        return sight(engines.HELD, message=_hold_message(reason), **base)
    if state in _PENDING:
        watched.forget()
        return sight(engines.PENDING, message=_words(reason), **base)
    if state in _RUNNING:
        watched.forget()
        return sight(engines.RUNNING, **base)
    if state == "COMPLETING" or not watched.has_lasted(state, queue.looked_at, 2 * poll_s, 2):
        return sight(engines.ENDING, **base)
    return sight(engines.ENDED, reason=_REASONS.get(state, "ended_silently"), message=_words(reason), **base)


def cancel(handed: Handed, sighted: Dict[str, Any], grace_s: float) -> None:
    """End a job: a waiting one at once, a running one by telling its supervisor, who gives the training its grace."""
    # With the batch flag the signal reaches the supervisor alone, and no KillWait of the site's cuts its grace short.
    gently = sighted["state"] == engines.RUNNING and grace_s > 0
    argv = ["scancel"] + (["--batch", "--signal=TERM"] if gently else []) + [handed.job_id]
    try:
        engines.run_tool(argv)
    except EngineError as error:
        if "Invalid job id" not in error.message and "already" not in error.message:
            raise


def requeue(job_id: str) -> int:
    """Put a job that runs back into the queue; called on its node.

    Returns:
        The exit code with which its supervisor leaves then.

    Raises:
        EngineError: It was refused, or nobody answered.
    """
    engines.run_tool(["scontrol", "requeue", job_id])
    return 1


def check(text: str) -> None:
    """Ask whether a job script could ever run.

    Raises:
        EngineError: In Slurm's own words, why not.
    """
    engines.run_tool(["sbatch", "--test-only"], stdin=text.encode("utf-8"))


def explain(handed: Handed) -> str:
    """Ask why a job waits."""
    job_id = handed.job_id
    expected = engines.run_tool(["squeue", "--noheader", "--start", "--jobs=" + job_id, "--format=%S|%r"]).strip()
    start, _, reason = expected.partition("|")
    described = engines.run_tool(["scontrol", "--oneliner", "show", "job", job_id]).strip()
    head = "reason: %s%s\n" % (reason or "none", " (%s)" % _words(reason) if _words(reason) else "")
    if start not in ("", "N/A"):
        head += "expected to start: %s\n" % start
    return head + "\n".join(word for word in described.split(" ") if "=" in word)


def describe_queue() -> Dict[str, Any]:
    """Count what is there, what is free, and who waits."""
    partitions: Dict[str, Dict[str, Any]] = {}
    # Every field with room: sinfo's default of 20 characters cuts lists of GPUs.
    names = ("Partition", "Available", "Time", "CPUsState", "Gres", "GresUsed", "StateCompact")
    wide = ",".join("%s:200|" % name for name in names)
    for line in engines.run_tool(["sinfo", "--noheader", "--Node", "--Format=" + wide]).splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < len(names):
            continue
        name, available, limit, cpus, gres, used, state = cells[: len(names)]
        fresh = {"name": name.rstrip("*"), "state": available, "time_limit": limit}
        entry = partitions.setdefault(name, engines.empty_counts(fresh))
        counts = [int(word) if word.isdigit() else 0 for word in cpus.split("/")] + [0, 0, 0, 0]
        usable = re.match(r"(idle|mix|alloc|comp)[a-z]*$", state) is not None
        entry["nodes"] += 1
        entry["cpus"] += counts[3]
        entry["cpus_free"] += counts[1] if usable else 0
        total, taken = count_gres(gres), count_gres(used)
        entry["gpus"] += total
        entry["gpus_free"] += max(0, total - taken) if usable else 0
    lines = engines.run_tool(["squeue", "--noheader", "--states=PD,R", "--format=%U|%T"]).splitlines()
    own = str(os.getuid())
    mine = engines.count_words([line.partition("|")[2] for line in lines if line.partition("|")[0] == own])
    others = engines.count_words([line.partition("|")[2] for line in lines if line.partition("|")[0] != own])
    return {"partitions": sorted(partitions.values(), key=lambda p: str(p["name"])), "mine": mine, "others": others}


def count_gres(text: str) -> int:
    """Count the GPUs in a list such as `gpu:a100:4(S:0-1)` or `gpu:a100:2(IDX:0,3)`."""
    return sum(int(number) for number in re.findall(r"(?:^|,)gpu(?::[^:,(]+)?:(\d+)", text))


def parse_queue(text: str) -> Dict[str, Row]:
    """Parse squeue's lines into rows by job name; of two jobs of one name, the one that has not ended counts."""
    rows: Dict[str, Row] = {}
    for line in text.splitlines():
        cells = line.split("|", len(_FIELDS) - 1)
        if len(cells) != len(_FIELDS):
            continue
        row = dict(zip(_FIELDS, (cell.strip() for cell in cells)))
        row["state"] = row["state"].partition(" ")[0].rstrip("+")  # `CANCELLED by 1001`
        before = rows.get(row["name"])
        if before is None or _is_over(before) or not _is_over(row):
            rows[row["name"]] = row
    return rows


def parse_accounting(text: str, name: str) -> Optional[Row]:
    """Take the last record of a job from sacct's lines: a requeued one has several, of which the first says PREEMPTED."""
    found = None
    for line in text.splitlines():
        cells = line.split("|", len(_SACCT_FIELDS) - 1)
        if len(cells) == len(_SACCT_FIELDS) and cells[-1].strip() == name:
            found = dict(zip(_SACCT_FIELDS, (cell.strip() for cell in cells)))
            found["state"] = found["state"].partition(" ")[0]
    return found


def _is_over(row: Row) -> bool:
    return row["state"] in _REASONS


def _ask_queue(timeout_s: float = 45.0) -> Dict[str, Row]:
    argv = ["squeue", "--noheader", "--states=all", "--user=%d" % os.getuid(), "--format=%A|%T|%r|%N|%j"]
    return parse_queue(engines.run_tool(argv, timeout_s=timeout_s))


def _ask_accounting(name: str, since: float) -> Optional[Dict[str, str]]:
    """Look into the accounting database: a row, an empty one when it knows no such job, None when there is none to ask."""
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(0.0, since - 60)))
    argv = ["sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--name=" + name]
    try:
        said = engines.run_tool(
            argv + ["--starttime=" + start, "--format=JobIDRaw,State,ExitCode,Start,NodeList,JobName"]
        )
    except EngineError:
        return None
    return parse_accounting(said, name) or {}


def _forgotten_after() -> float:
    """How long slurmctld remembers jobs that have ended; the minimum where it does not say."""
    try:
        match = re.search(r"^MinJobAge\s*=\s*(\d+)", engines.run_tool(["scontrol", "show", "config"]), re.MULTILINE)
    except EngineError:
        return 0.0
    return float(match.group(1)) if match else 0.0


class _Queue:
    """The last answer of squeue, shared through a file by everybody who looks at this host.

    Attributes:
        rows: By job name.
        looked_at: When they were read; None: never yet.
        error: Why there is nothing newer.
    """

    def __init__(self, root: str, poll_s: float) -> None:
        folder = os.path.join(root, "schedulers")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._file = os.path.join(folder, "squeue.json")
        self._poll_s = poll_s
        self.rows: Dict[str, Row] = {}
        self.looked_at: Optional[float] = None
        self.error: Optional[str] = None
        self._next_at = 0.0
        self._failures = 0
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
        # A next time far ahead was written by a clock that has been set since.
        return not 0 <= self._next_at - time.time() <= max(_LONGEST_BACKOFF_S, self._poll_s)

    def _load(self) -> None:
        try:
            kept = files.read_json(self._file) or {}
        except files.UnreadableError:
            return  # torn by a crash; the next look replaces it
        rows = kept.get("rows")
        if kept.get("format") == 1 and isinstance(rows, dict):
            self.rows, self.looked_at, self.error = rows, kept["looked_at"], kept["error"]
            self._next_at, self._failures = kept["next_at"], kept["failures"]

    def _refresh(self) -> None:
        now = time.time()
        try:
            self.rows = _ask_queue(_LOOK_S)
        except EngineError as error:
            self._failures += 1
            self.error = error.message
            self._next_at = now + min(_LONGEST_BACKOFF_S, self._poll_s * 2 ** min(self._failures, 10))
        else:
            self._failures, self.error, self.looked_at = 0, None, now
            self._next_at = now + self._poll_s
        kept = {"format": 1, "rows": self.rows, "looked_at": self.looked_at, "error": self.error}
        files.keep_json(self._file, dict(kept, next_at=self._next_at, failures=self._failures))


class _Watched:
    """How long Slurm has been saying something that is believed only when it persists."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._kept = files.read_json(path) or {}
        except files.UnreadableError:
            self._kept = {}

    def has_lasted(self, word: str, looked_at: float, seconds: float, looks: int) -> bool:
        """Note that a look at `looked_at` said `word`; True once that many looks over that long have."""
        if self._kept.get("word") != word:
            self._kept = {"word": word, "since": looked_at, "looks": 1, "last": looked_at}
            files.keep_json(self._path, self._kept)
        elif self._kept["last"] != looked_at:
            self._kept.update(looks=self._kept["looks"] + 1, last=looked_at)
            files.keep_json(self._path, self._kept)
        return bool(self._kept["looks"] >= looks and looked_at - self._kept["since"] >= seconds)

    def forget(self) -> None:
        if self._kept:
            self._kept = {}
            files.remove(self._path)


def _sight_of_missing(handed: Handed, queue: _Queue, watched: _Watched, seconds: float) -> Dict[str, Any]:
    """An empty answer may be a controller that has just started, or a filter gone wrong; the same thrice is the truth."""
    looked_at = queue.looked_at or 0.0
    if looked_at < handed.handed_at:
        return sight(engines.PENDING, looked_at, message="handed over after the last look at the queue")
    if not watched.has_lasted("missing", looked_at, seconds, _MISSING_LOOKS):
        return sight(engines.UNKNOWN, looked_at, message="not in the queue's last answer", error=queue.error)
    recorded = _ask_accounting(handed.name, handed.handed_at)
    if recorded:
        state = recorded["state"]
        reason = _REASONS.get(state, "ended_silently")
        return sight(engines.ENDED, looked_at, detail=state, reason=reason, node=recorded["node"])
    return sight(engines.GONE, looked_at)


def _hold_message(reason: str) -> str:
    who = {"JobHeldAdmin": "held by an administrator", "JobHoldMaxRequeue": "held after too many requeues"}
    return "%s; `scontrol release` lets it go on" % who.get(reason, "held")


_WAITING: List[Tuple[str, str]] = [
    ("Priority", "other jobs come first"),
    ("Resources", "waiting for nodes to become free"),
    ("BeginTime", "its start time is not reached: a requeued job waits two minutes"),
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
