"""HTCondor: condor_submit, condor_rm, condor_q, and the event log, which costs the pool nothing to read."""

import json
import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.engines import array_records, engine, htcondor_log, htcondor_schedd, job_activity
from armada_agent.engines.engine import EngineError, Handed, HandedArray, scheduler_status
from armada_agent.paths import RunPaths, SweepPaths
from armada_agent.verdicts import liveness

POLL_S = 2.0
REQUEUE_EXIT_CODE = 85  # the default of HTCondor's own self-checkpointing jobs
_TAKEN = ("Owner", "Drained", "Claimed", "Matched", "Preempting")
_ENDS = {"3": "removed", "4": "ended_silently"}
_DOUBTFUL = "its event log says that it runs, but the dates of its files do not show that it writes"
_REMOVED_AS_IT_RAN = (
    "its event log says that it was removed while it ran, and its supervisor wrote that it returns to the queue"
)
_NOTHING_TO_REMOVE = ("not found", "Couldn't find", "already marked for removal")
_JOB_ID = re.compile(r"^(\d+)\.(\d+) - ", re.MULTILINE)  # as `condor_submit -terse` prints it
_LARGEST_ARRAY = 10000
_SECOND_S = 4.0  # a client waits twenty seconds for this host
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
    return "%s.%s" % _submit(argv, lock, handed.paths.folder)


def submit_many(array: HandedArray, lock: int) -> str:
    """Submit an array: one job for each of its runs, at most `limit` in the queue at once.

    Returns:
        The array's id, a cluster.
    """
    argv = ["condor_submit", "-terse", "armada_array=" + array.name]
    if array.limit is not None and array.limit < len(array.run_ids):
        argv += ["max_materialize=%d" % array.limit]
    return _submit(argv + [array.file("job.sub")], lock, array.file())[0]


def largest_array() -> int:
    """Return how many jobs an array may have."""
    return _LARGEST_ARRAY


def job_in_array(array_id: str, index: int) -> str:
    """Return the id of one job of an array."""
    return "%s.%d" % (array_id, index)


def look_up_many(array: HandedArray) -> Optional[str]:
    """Find an array whose answer was lost. Return None if it was never submitted.

    Raises:
        EngineError: The schedd does not answer.
    """
    for run_id in array.run_ids:
        logged = htcondor_log.Log(Handed(RunPaths(array.paths.root, run_id), 1)).read()
        if logged.get("job_id"):
            return str(logged["job_id"]).partition(".")[0].lstrip("0")
    return htcondor_schedd.find_array(array.name)


def _submit(argv: List[str], lock: int, folder: str) -> Tuple[str, str]:
    said, _ = engine.run_tool_aloud(argv, timeout_s=120.0, inherit=[lock], cwd=folder, done=_JOB_ID)
    match = _JOB_ID.search(said)
    if match is None:
        raise EngineError("condor_submit said %.200r instead of a job id" % said)
    return match.group(1), match.group(2)


def look_up(handed: Handed) -> Optional[str]:
    """Find a submission whose answer was lost. Return None if it was never made.

    Raises:
        EngineError: The schedd does not answer.
    """
    logged = htcondor_log.Log(handed).read()
    if logged.get("job_id"):
        return str(logged["job_id"])
    constraint = 'ArmadaSubmission == "%s"' % handed.name
    words = htcondor_schedd.ask(["-constraint", constraint, "-autoformat", "ClusterId", "ProcId"]).split()
    return "%s.%s" % (words[0], words[1]) if len(words) >= 2 else None


def look(handed: Handed, poll_s: float, clock: Optional[job_activity.Clock] = None) -> Dict[str, Any]:
    """Decide the state of a submission from its event log and the job's signs of life.

    Reading the log costs the pool nothing, so it has no polling interval. The queue is asked only if the log is
    missing, empty or unreadable, or if the job's files no longer change and it reports a running job, or one
    that has yet to start although its supervisor wrote that it began. About jobs that have waited for an hour it is asked
    once for all, now and then: the log of one that has ended may have been restored from an older copy.
    """
    log = htcondor_log.Log(handed)
    seen = log.read()
    if seen.get("state") is None and htcondor_schedd.is_to_come(handed):
        job_activity.forget(handed)
        return scheduler_status(
            engine.PENDING,
            time.time(),
            detail="not in the queue yet",
            message="it waits for its turn in its array, of which only some jobs run at once",
        )
    if log.error is None and seen.get("state") is None:
        log.error = "its event log has no entry for it: %s" % handed.file("job.log")
    wrote = job_activity.last_word(handed.paths, handed.number)
    memory = job_activity.Memory(handed, clock)
    if log.error is None and wrote == liveness.BEGUN and seen.get("detail") == htcondor_log.SUBMITTED:
        # Late events look the same, but then its files change. A log that was restored never says more.
        log.error = "its event log says that it has yet to start, but its supervisor wrote “running”"
    doubt = _doubt_of_waiting(handed, log, seen, memory.now_s) if log.error is None else None
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
    if dated == liveness.DOUBTFUL or doubt is not None:
        state = liveness.MISSING
    doubts_end = wrote == liveness.GOES_BACK and seen.get("detail") == htcondor_log.REMOVED and seen.get("node")
    if not (
        state == liveness.MISSING
        or (wrote == liveness.BEGUN and state in (engine.PENDING, engine.HELD, engine.ENDED))
        or (doubts_end and state == engine.ENDED)
    ):
        job_activity.forget(handed)
        return said
    # The log's last line stays one and the same answer. A missing log counts as a new observation each time.
    memory.follow(state, memory.now_s if state == liveness.MISSING else None, handed.paths)
    believed = liveness.judge(memory.watch, memory.now_s, wrote, poll_s, needs_looks=False)
    if believed == liveness.ASK:
        why = doubt or log.error or (_REMOVED_AS_IT_RAN if doubts_end else _DOUBTFUL)
        found = _find_missing(handed, dict(said, error=why), memory, seen)
        if doubt is None or found["state"] != engine.UNKNOWN:
            return found
    if doubt is not None:  # until the queue has answered, as the log says
        believed = liveness.judge(dict(memory.watch, word=seen["state"]), memory.now_s, wrote, poll_s)
    if believed == seen.get("state"):
        return dict(said, state=believed)
    if dated == liveness.DOUBTFUL:
        return said  # until the queue is asked
    if believed == engine.UNKNOWN and state == liveness.MISSING:
        return dict(said, state=engine.UNKNOWN)
    return job_activity.correct(said, believed, "HTCondor", memory, wrote)


def _doubt_of_waiting(handed: Handed, log: htcondor_log.Log, seen: Dict[str, Any], now_s: float) -> Optional[str]:
    """Return why a log that says that the job waits is not believed: it may have been restored from an older copy."""
    if seen["state"] not in (engine.PENDING, engine.HELD):
        return None
    if seen.get("detail") == htcondor_log.SUBMITTED and job_activity.has_begun(handed.paths, handed.number):
        return "its event log says that it has yet to start, but its supervisor wrote that it goes back into the queue"
    if log.quiet_s >= liveness.DOUBT_S and htcondor_schedd.lacks(handed, now_s):
        return "its event log has said nothing new for an hour, and the queue does not list it"
    return None


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

    A job that its array puts into the queue later cannot be removed alone; with the last run of the array, all are. A
    schedd that lost its queue gives ids anew, so what is removed must have this submission's name, or its array's.

    Raises:
        EngineError: The schedd does not answer.
    """
    cluster, _, process = handed.job_id.partition(".")
    if not (cluster.isdigit() and process.isdigit()):
        raise EngineError("%r is no job's id" % handed.job_id, refused=True)
    in_cluster = "ClusterId == %d" % int(cluster)
    _remove('%s && ProcId == %d && ArmadaSubmission == "%s"' % (in_cluster, int(process), handed.name))
    place = handed.place
    if place is not None and array_records.is_all_stopped(SweepPaths(handed.paths.root, place.sweep), place.number):
        _remove('%s && ArmadaArray == "%s"' % (in_cluster, place.name))


def _remove(constraint: str) -> None:
    try:
        engine.run_tool(["condor_rm", "-constraint", constraint], timeout_s=htcondor_schedd.PATIENCE_S)
    except EngineError as error:
        if not any(words in error.message for words in _NOTHING_TO_REMOVE):
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
        htcondor_schedd.ask(["-totals"])  # the checks below ask no schedd, which may be down
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
    htcondor_schedd.ask(["-totals"])  # the analysis takes long in a large pool
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
    own = parse_totals(htcondor_schedd.ask(["-totals"]))
    totals = parse_totals(htcondor_schedd.ask(["-allusers", "-totals"]))
    return (own[0] if own else {}), (totals[-1] if totals else {})


def _number(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
