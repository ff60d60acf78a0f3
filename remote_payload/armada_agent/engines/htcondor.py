"""HTCondor: condor_submit, condor_rm, condor_q, and the event log, which costs the pool nothing to read."""

import json
import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.engines import engine, job_activity
from armada_agent.engines.engine import EngineError, Handed, scheduler_status
from armada_agent.foundation import files
from armada_agent.verdicts import liveness

POLL_S = 2.0
REQUEUE_EXIT_CODE = 85  # the default of HTCondor's own self-checkpointing jobs
_HEAD = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\) (.*)$")
_CODE = re.compile(r"^\s*Code (\d+) Subcode")
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
_TAKEN = ("Owner", "Drained", "Claimed", "Matched", "Preempting")
_MEMORY_HOLD, _TIME_HOLD = 34, 47
_ENDS = {"3": "removed", "4": "ended_silently"}
_DOUBTFUL = "its event log says that it runs, but the dates of its files do not show that it writes"
_LAST_BYTES = 256  # longer than one event, so its timestamps make it unique in any log
_SECOND_S = 4.0  # a client waits twenty seconds for this host
_SCHEDD_S = 10.0  # each program waits 20 s for a schedd that does not answer
_STATUS = {
    "1": (engine.PENDING, "idle"),
    "2": (engine.RUNNING, "running"),
    "3": (engine.ENDED, "removed"),
    "4": (engine.ENDED, "completed"),
    "5": (engine.HELD, "held"),
    "6": (engine.ENDING, "transferring output"),
    "7": (engine.RUNNING, "suspended"),
}


def submit(handed: Handed, lock: int) -> str:
    """Submit a run's submit file. The lock outlives this process while condor_submit works.

    Returns:
        The job's id, `cluster.proc`.
    """
    argv = ["condor_submit", "-terse", "armada_submission=%d" % handed.number, handed.job_file("job.sub")]
    said = engine.run_tool(argv, timeout_s=120.0, inherit=[lock], cwd=handed.paths.folder)
    match = re.search(r"^(\d+)\.(\d+) - ", said, re.MULTILINE)
    if match is None:
        raise EngineError("condor_submit said %.200r instead of a job id" % said)
    return "%s.%s" % match.groups()


def look_up(handed: Handed) -> Optional[str]:
    """Find a submission whose answer was lost. Return None if it was never made.

    Raises:
        EngineError: The schedd does not answer.
    """
    logged = _Log(handed).read()
    if logged.get("job_id"):
        return str(logged["job_id"])
    constraint = 'ArmadaSubmission == "%s"' % handed.name
    words = _ask_schedd(["-constraint", constraint, "-autoformat", "ClusterId", "ProcId"]).split()
    return "%s.%s" % (words[0], words[1]) if len(words) >= 2 else None


def look(handed: Handed, poll_s: float, clock: Optional[job_activity.Clock] = None) -> Dict[str, Any]:
    """Decide the state of a submission from its event log and the job's signs of life.

    Reading the log costs the pool nothing, so it has no polling interval. The queue is asked only if the log is
    missing, empty or unreadable, or if it reports a running job whose files no longer change.
    """
    log = _Log(handed)
    seen = log.read()
    if log.error is None and seen.get("state") is None:
        log.error = "its event log has no entry for it: %s" % handed.file("job.log")
    wrote = job_activity.last_word(handed.paths, handed.number)
    memory = job_activity.Memory(handed, clock)
    dated = liveness.FRESH
    if log.error is None and seen["state"] == engine.RUNNING:
        dated = _judge_dates(memory, handed.paths.telemetry, log.path)
        if dated == liveness.SILENT:
            log.error = "its event log says that it runs, but its files have not changed for minutes"
    state = seen["state"] if log.error is None else liveness.MISSING
    said = scheduler_status(
        state,
        time.time() if log.error is None else seen.get("at"),
        detail=seen.get("detail"),
        reason=seen.get("reason"),
        message=seen.get("message"),
        node=seen.get("node"),
        error=log.error,
    )
    if dated == liveness.DOUBTFUL:
        state = liveness.MISSING
    doubted = (engine.PENDING, engine.HELD, engine.ENDED) if wrote == liveness.BEGUN else ()
    if state not in doubted + (liveness.MISSING,):
        job_activity.forget(handed)
        return said
    # The log's last line stays one and the same answer. A missing log counts as a new observation each time.
    memory.follow(state, memory.now_s if state == liveness.MISSING else None, handed.paths)
    believed = liveness.judge(memory.watch, memory.now_s, wrote, poll_s, needs_looks=False)
    if believed == liveness.ASK:
        return _find_missing(handed, dict(said, error=log.error or _DOUBTFUL), memory, seen)
    if believed == seen.get("state"):
        return dict(said, state=believed)
    if dated == liveness.DOUBTFUL:
        return said  # until the queue is asked
    if believed == engine.UNKNOWN and state == liveness.MISSING:
        return dict(said, state=engine.UNKNOWN)
    return job_activity.correct(said, believed, "HTCondor", memory, wrote)


def _judge_dates(memory: job_activity.Memory, *paths: str) -> str:
    """Return whether the dates of these files show that a job writes; remember dates that do not."""
    dates = [_read_date(path) for path in paths]
    ages_s = [time.time() - date / 1e9 for date in dates]
    dated = liveness.judge_dates(ages_s, memory.doubts(dates))
    if dated != liveness.FRESH:
        memory.doubt(dates)
    return dated


def _read_date(path: str) -> int:
    """Return when a file was last written to, in unix ns by the clock of the machine that dated it; 0 if it is missing."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _find_missing(
    handed: Handed, said: Dict[str, Any], memory: job_activity.Memory, logged: Dict[str, Any]
) -> Dict[str, Any]:
    """Find out what happened to a job without an event log and without a sign of life."""
    second = memory.ask_second(handed.paths.root, lambda: _ask_second(handed))
    if second is None or second.get("error"):
        words = [said["error"], "the queue cannot be asked: %s" % second["error"] if second else ""]
        return dict(said, state=engine.UNKNOWN, error="; ".join(word for word in words if word))
    at = time.time()
    status: Any = second.get("queued")
    if isinstance(status, str):
        queued, word = _STATUS.get(status, (engine.UNKNOWN, "an unknown JobStatus, %.20s" % status))
        own = logged if logged.get("state") == queued else {}  # the log's other fields are out of date
        told = "; ".join(each for each in (own.get("message"), "%s by condor_q" % word, said["error"]) if each)
        error = told if queued == engine.UNKNOWN else None
        return scheduler_status(
            queued, at, detail=word, reason=_ENDS.get(status), message=told, node=own.get("node"), error=error
        )
    recorded: Any = second.get("recorded")
    status = recorded if isinstance(recorded, str) else ""
    recorded_state, ended_as = _STATUS.get(status) or (None, "")
    believed = liveness.confirm(memory.lasted_s, True, recorded_state)
    if believed == engine.ENDED:
        return scheduler_status(
            believed, at, detail=ended_as, reason=_ENDS.get(status), message="%s by condor_history" % ended_as
        )
    if believed == engine.GONE:
        return scheduler_status(engine.GONE, at)
    return dict(said, state=engine.UNKNOWN, error="%s; condor_q has no such job" % said["error"])


def _ask_second(handed: Handed) -> Dict[str, Any]:
    """Ask the queue for a submission and, if it is not there, the history: the `JobStatus` of either."""
    chosen = ["-constraint", 'ArmadaSubmission == "%s"' % handed.name, "-autoformat", "JobStatus"]
    try:
        queued = engine.run_tool(["condor_q"] + chosen, timeout_s=_SECOND_S).split()
    except EngineError as error:
        return {"error": error.message[:500]}
    if queued:
        return {"queued": queued[0]}
    try:
        recorded = engine.run_tool(["condor_history", "-limit", "1"] + chosen, timeout_s=_SECOND_S).split()
    except EngineError:
        recorded = []  # a long history takes its time, and many sites keep none: then the answer is empty
    return {"recorded": recorded[0] if recorded else None}


def cancel(handed: Handed, _status: Dict[str, Any], _grace_s: float) -> None:
    """Remove a job from the queue. Its supervisor gets a signal and the submit file's vacate time to stop the training.

    Raises:
        EngineError: The schedd does not answer.
    """
    try:
        engine.run_tool(["condor_rm", handed.job_id], timeout_s=_SCHEDD_S)
    except EngineError as error:
        if "not found" not in error.message and "Couldn't find" not in error.message:
            raise


def requeue(_job_id: str) -> int:
    """Return the exit code that puts a supervisor's job back into the queue: the submit file's `on_exit_remove` knows it."""
    return REQUEUE_EXIT_CODE


def check(text: str) -> Dict[str, Any]:
    """Check whether a submit file is valid, and whether any worker could ever run it.

    Returns:
        As `slurm.check`; HTCondor estimates no waiting time.

    Raises:
        EngineError: Why the job could never run.
    """
    try:
        _ask_schedd(["-totals"])  # the checks below ask no schedd, which may be down
    except EngineError as error:
        if error.missing:
            raise
        raise EngineError(error.message + "; no job can be submitted now")
    # The run's folder is created later, so only the names of its files could be checked.
    kept = [
        line for line in text.splitlines() if line.partition(" ")[0] not in ("initialdir", "log", "output", "error")
    ]
    advertised = engine.run_tool(["condor_submit", "-dry-run", "-", "-"], stdin="\n".join(kept + [""]).encode("utf-8"))
    wanted = parse_attributes(advertised)
    slots = _read_slots()
    nothing: Dict[str, Any] = {"wait": None, "starts_in_s": None}
    if not slots:
        return nothing  # the collector of an empty pool may have just started, or the pool grows on demand
    for attribute, slot_attribute, what in (
        ("RequestGPUs", "TotalSlotGPUs", "GPUs"),
        ("RequestCpus", "TotalSlotCpus", "cores"),
    ):
        asked = wanted.get(attribute, "")
        most = max([_number(slot.get(slot_attribute)) for slot in slots] + [0])
        if asked.isdigit() and int(asked) > most:
            raise EngineError(
                "%s %s are requested; the largest worker of the pool has %d" % (asked, what, most), refused=True
            )
    required = {clause.strip("() ") for clause in wanted.get("Requirements", "").split("&&")}
    for attribute, what in (("HasDocker", "Docker"), ("HasContainer", "containers")):
        if "TARGET." + attribute in required and not any(slot.get(attribute) is True for slot in slots):
            raise EngineError(
                "the job asks for %s (`universe` and `image`), and no worker of the pool has %s: `condor_status -compact "
                "-constraint %s` lists none" % (what, what, attribute),
                refused=True,
            )
    _check_gpu_memory(wanted, slots)
    return nothing


def _check_gpu_memory(wanted: Dict[str, str], slots: List[Dict[str, Any]]) -> None:
    """Refuse a request for more memory per GPU than any GPU has, if all workers with GPUs report their GPUs' memory."""
    asked = wanted.get("GPUsMinMemory", "")
    with_gpus = [slot for slot in slots if _number(slot.get("TotalSlotGPUs"))]
    most = [_number(slot.get("GPUs_GlobalMemoryMb")) for slot in with_gpus]
    if asked.isdigit() and most and all(most) and int(asked) > max(most):
        raise EngineError(
            "GPUs with %s MB are requested; the largest of the pool have %d MB" % (asked, max(most)), refused=True
        )


def explain(handed: Handed) -> str:
    """Return why a job waits."""
    _ask_schedd(["-totals"])  # the analysis takes long in a large pool
    return engine.run_tool(["condor_q", "-better-analyze", handed.job_id]).strip()


def describe_queue() -> Dict[str, Any]:
    """Count all resources, the free ones, and the waiting jobs."""
    mine, everyone = _read_totals()
    machines: Dict[str, Dict[str, Any]] = {}
    for slot in _read_slots():
        name = str(slot.get("Machine"))
        fresh = {"name": name, "state": "up", "time_limit": None}
        entry = machines.setdefault(name, dict(engine.empty_counts(fresh), nodes=1))
        if slot.get("SlotType") == "Dynamic":
            continue  # the slot that it was cut from counts its share
        # The rest of a partitionable slot is free although others were cut from it, unless its owner or a drain took
        # it.
        taken = ("Owner", "Drained") if slot.get("SlotType") == "Partitionable" else _TAKEN
        free = slot.get("State") not in taken
        entry["cpus"] += _number(slot.get("TotalSlotCpus"))
        entry["gpus"] += _number(slot.get("TotalSlotGPUs"))
        entry["cpus_free"] += _number(slot.get("Cpus")) if free else 0
        entry["gpus_free"] += _number(slot.get("GPUs")) if free else 0
    others = {word: everyone.get(word, 0) - mine.get(word, 0) for word in everyone}
    return {"partitions": sorted(machines.values(), key=lambda m: str(m["name"])), "mine": mine, "others": others}


def parse_attributes(text: str) -> Dict[str, str]:
    """Parse the `Name=value` lines that -dry-run prints."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, middle, value in pairs if middle}


def parse_totals(text: str) -> List[Dict[str, int]]:
    """Parse condor_q's `Total for …: 3 jobs; 0 completed, 0 removed, 1 idle, 2 running, …` lines."""
    found = []
    for line in text.splitlines():
        if line.startswith("Total for "):
            counts = {word: int(number) for number, word in re.findall(r"(\d+) (idle|running|held)", line)}
            found.append(
                {"PENDING": counts.get("idle", 0), "RUNNING": counts.get("running", 0), "HELD": counts.get("held", 0)}
            )
    return found


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
    words = body[0].strip() if body else ""
    told: Optional[Tuple[str, str, Optional[str], Optional[str]]] = None
    if number == 0:
        seen["job_id"] = job_id
        told = (engine.PENDING, "submitted", None, None)
    elif number == 1:
        name = next((line.partition(":")[2].strip() for line in body if line.strip().startswith("SlotName:")), None)
        seen["node"] = name or headline.rpartition(" ")[2]
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
        told = (engine.ENDED, "removed", "removed", words)
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


class _Log:
    """One submission's event log; each read continues where the last one ended."""

    def __init__(self, handed: Handed) -> None:
        self.path = handed.file("job.log")
        self._kept_path = handed.file("watch.json")
        self._job_id = handed.job_id
        self.error: Optional[str] = None

    def read(self) -> Dict[str, Any]:
        try:
            kept = files.read_json(self._kept_path) or {}
        except files.UnreadableError:
            kept = {}
        offset, seen, inode = kept.get("offset"), kept.get("seen"), kept.get("inode")
        last = kept["last"] if isinstance(kept.get("last"), str) else ""  # an older armada recorded none
        if not isinstance(offset, int) or offset < 0 or not isinstance(seen, dict) or not _is_status(seen):
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
                    files.keep_json(self._kept_path, {"offset": 0, "seen": {}})
                stream.seek(offset)
                block = stream.read()
        except FileNotFoundError:
            if seen or self._job_id:
                self.error = "its event log is not there: %s" % self.path
            return dict(seen)
        except OSError as error:
            self.error = str(error)
            return dict(seen)
        end = block.rfind(b"\n...\n") + 5
        if end < 5:
            return dict(seen)
        seen = dict(follow(seen, block[:end].decode("utf-8", "replace"), self._job_id), at=time.time())
        last = block[:end][-_LAST_BYTES:].decode("latin-1")
        files.keep_json(self._kept_path, {"offset": offset + end, "seen": seen, "inode": status.st_ino, "last": last})
        return seen


def _is_status(seen: Dict[str, Any]) -> bool:
    texts = [seen.get(name) for name in ("job_id", "detail", "reason", "message", "node")]
    is_word = seen.get("state") in (None,) + liveness.WORDS
    is_time = isinstance(seen.get("at"), (int, float, type(None)))
    return is_word and is_time and all(isinstance(text, (str, type(None))) for text in texts)


def _read_slots() -> List[Dict[str, Any]]:
    attributes = (
        "Machine,SlotType,State,Cpus,GPUs,TotalSlotCpus,TotalSlotGPUs,HasDocker,HasContainer,GPUs_GlobalMemoryMb"
    )
    said = engine.run_tool(["condor_status", "-json", "-attributes", attributes]).strip()
    if not said:
        return []  # a pool without workers prints nothing, not an empty list
    try:
        slots = json.loads(said)
    except ValueError as error:
        raise EngineError("condor_status did not print JSON: %s" % error)
    return [slot for slot in slots if isinstance(slot, dict)]


def _read_totals() -> Tuple[Dict[str, int], Dict[str, int]]:
    """Count the user's jobs and all jobs. In a pool with one user, condor_q prints the same line twice."""
    own = parse_totals(_ask_schedd(["-totals"]))
    totals = parse_totals(_ask_schedd(["-allusers", "-totals"]))
    return (own[0] if own else {}), (totals[-1] if totals else {})


def _ask_schedd(options: List[str]) -> str:
    """Ask the queue for totals only, which a schedd that is up answers quickly.

    Raises:
        EngineError: The schedd does not answer.
    """
    try:
        return engine.run_tool(["condor_q"] + options, timeout_s=_SCHEDD_S)
    except EngineError as error:
        if error.missing:
            raise
        words = error.message.partition("Extra Info:")[0].strip()  # what follows explains HTCondor's settings
        raise EngineError("HTCondor's queue (the schedd) does not answer: " + words)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
