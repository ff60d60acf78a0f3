"""Slurm: sbatch, squeue, scancel, scontrol and, if there is an accounting database, sacct.

Every query names its output format: the JSON of newer versions changes from release to release and costs the controller
a hundred times more. One squeue answers for all runs of a host, and all clients share its answer.
"""

import os
import re
import time
from typing import Any, Dict, Mapping, Optional

from armada_agent.engines import engine, job_activity, slurm_answers, slurm_controller, slurm_nodes, slurm_queue
from armada_agent.engines.engine import EngineError, Handed, HandedArray, scheduler_status
from armada_agent.foundation import files, process_identity
from armada_agent.host import job_variables, setup_lines
from armada_agent.paths import RunPaths
from armada_agent.verdicts import liveness

POLL_S = 15.0
# scancel exits silently with the low byte of its error 2021, ESLURM_ALREADY_DONE, about a job of an array.
_IS_OVER = ("Invalid job id", "already", "exit code %d" % (2021 & 255))
_JOB_ID = re.compile(r"^\d+(?:;\S+)?\s*$", re.MULTILINE)  # as `sbatch --parsable` prints it
_MAY_CHANGE = "Required node not available|Requested node configuration is not available|Requested nodes are busy"


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
        given=_variables(handed.paths, setup_lines.exported()),  # the job inherits it
        done=_JOB_ID,
    )
    return _read_id(said)


def _variables(paths: RunPaths, exported: Mapping[str, str]) -> Dict[str, str]:
    """Return what a job inherits. Where it cannot be recorded, as on a full disk, sbatch is not asked."""
    try:
        return job_variables.of_submission(paths, exported)
    except OSError as error:
        raise EngineError("the variables of %s could not be recorded: %s" % (paths.run_id, error), refused=True)


def submit_many(array: HandedArray, lock: int) -> str:
    """Submit an array: one job for each of its runs, at most `limit` at once.

    Returns:
        The array's id.
    """
    slurm_controller.require_up()
    folder = array.file()
    throttle = "" if array.limit is None or array.limit >= len(array.run_ids) else "%%%d" % array.limit
    argv = ["sbatch", "--parsable", "--job-name=" + array.name, "--comment=" + array.name, "--chdir=" + folder]
    argv += ["--array=0-%d%s" % (len(array.run_ids) - 1, throttle), "--output=%s%%a/scheduler.log" % folder]
    argv += ["--dependency=afterany:" + array.after] if array.after else []
    exported = setup_lines.exported()
    given = [_variables(RunPaths(array.paths.root, each), exported) for each in array.run_ids]
    said, _ = engine.run_tool_aloud(
        argv + [array.file("job.sbatch")], timeout_s=120.0, inherit=[lock], cwd=folder, given=given[0], done=_JOB_ID
    )
    return _read_id(said)


def largest_array() -> int:
    """Return how many jobs an array may have."""
    return slurm_queue.largest_array()


def job_in_array(array_id: str, index: int) -> str:
    """Return the id of one job of an array."""
    return "%s_%d" % (array_id, index)


def _read_id(said: str) -> str:
    match = re.match(r"(\d+)", said.strip().splitlines()[-1] if said.strip() else "")
    if match is None:
        raise EngineError("sbatch said %.200r instead of a job id" % said)
    return match.group(1)


def look_up(handed: Handed) -> Optional[str]:
    """Find a submission whose answer was lost. Return None if it was never made.

    Raises:
        EngineError: It is impossible to know, for now or for good.
    """
    answer = slurm_queue.ask()
    row = answer.rows.get(handed.name)
    return row["id"] if row is not None else _look_further(answer, handed.name, handed.file("asked.json"))


def look_up_many(array: HandedArray) -> Optional[str]:
    """Find an array whose answer was lost. Return None if it was never submitted.

    Raises:
        EngineError: It is impossible to know, for now or for good.
    """
    answer = slurm_queue.ask()
    found = slurm_answers.find_array(answer, array.name)
    if found is None:
        found = _look_further(answer, array.name, array.file("asked.json"))
    return found and found.partition("_")[0]


def _look_further(answer: slurm_answers.Answer, name: str, asked: str) -> Optional[str]:
    """Find a job that is not in the queue, of which Slurm was asked at the time in the file `asked`."""
    if answer.doubt is not None:
        raise EngineError(answer.doubt)
    try:
        asked_at = (files.read_json(asked) or {}).get("time")
    except files.UnreadableError:
        asked_at = None
    begun = float(asked_at) if isinstance(asked_at, (int, float)) else 0.0  # damaged: treat as long ago
    if time.time() - begun < slurm_queue.forgotten_after():
        return None
    recorded = slurm_queue.ask_accounting(name, begun)
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

    Returns:
        A status; with `listed` if the job ended, and the controller may still have it: then it can be requeued.
    """
    queue = slurm_queue.Queue(handed.paths.root, poll_s, clock or process_identity.moment)
    if queue.looked_at is None:
        return scheduler_status(engine.UNKNOWN, None, error=queue.error)
    row = _find_row(handed, queue)
    # A hand-over in the future happened before the clock was set back; it would look newer than the answer for hours.
    wrote = job_activity.last_word(handed.paths, handed.number)
    if row is None and queue.looked_at < handed.handed_at <= time.time():
        state = engine.UNKNOWN if wrote == liveness.BEGUN else engine.PENDING
        return scheduler_status(state, queue.looked_at, message="submitted after the last query of the queue")
    said = (
        scheduler_status(liveness.MISSING, queue.looked_at, detail="no such job")
        if row is None
        else _listed(row, queue.looked_at)
    )
    said["error"] = queue.error or said["error"]
    doubted = (liveness.MISSING, engine.ENDED) + ((engine.PENDING, engine.HELD) if wrote == liveness.BEGUN else ())
    if said["state"] not in doubted:
        job_activity.forget(handed)
        return said
    memory = job_activity.Memory(handed, clock)
    if row is None:
        end = memory.recall_end(handed.paths)
        if end is not None:
            return _since_its_end(handed, queue, memory, dict(end, error=queue.error))
    memory.follow(said["state"], queue.looked_at, handed.paths, _given_s(queue, memory))
    believed = liveness.judge(memory.watch, memory.now_s, wrote, poll_s)
    if row is not None and said["state"] != engine.ENDED:
        memory.forget_end()
    elif believed == engine.ENDED and row is not None:
        memory.note_end(said)
    if believed == liveness.ASK:
        return _find_missing(handed, queue, memory)
    if believed == engine.UNKNOWN and row is None:
        words = "not in the queue's last answer" + ("; %s" % queue.doubt if queue.doubt else "")
        return dict(said, state=engine.UNKNOWN, message=words)
    return job_activity.correct(said, believed, "Slurm", memory, wrote)


def _given_s(queue: slurm_queue.Queue, memory: job_activity.Memory) -> float:
    """Return when the queue was answered, by this machine's clock; 0 if that is unknown.

    Another machine's answer is as new as one of its own for as long as Slurm answers.
    """
    own_s = memory.time_of(queue.moment)
    unknown_s = 0.0 if queue.error is not None else memory.now_s
    return unknown_s if own_s is None else own_s


def _find_row(handed: Handed, queue: slurm_queue.Queue) -> Optional[slurm_answers.Row]:
    place = handed.place
    if place is None:
        return queue.rows.get(handed.name)
    # All jobs of an array that were cancelled while they waited are one row, which names none of them.
    whole = queue.rows.get(place.name)
    row = queue.rows.get(slurm_answers.row_name(place.name, place.index))
    return whole if row is None and whole is not None and slurm_answers.is_over(whole) else row


def cancel(handed: Handed, status: Dict[str, Any], grace_s: float) -> None:
    """Cancel a waiting job; stop a running one through its supervisor, which gives the training its grace period.

    A controller that lost its state gives ids anew, so the job must have this submission's name; otherwise this one is
    gone, and nothing is cancelled.

    Raises:
        EngineError: The controller refuses, or does not answer.
    """
    # `scancel --name` checks the name, too, but reads all jobs of the cluster for that, and cancels all waiting jobs of an
    # array where one was meant (measured with Slurm 20.11 and 22.05).
    if slurm_queue.ask_job(handed, is_patient=True) is None:
        return
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
        if not any(word in error.message for word in _IS_OVER):
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
    why = slurm_answers.explain_reason(reason)
    head = "reason: %s%s\n" % (reason or "none", " (%s)" % why if why else "")
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


def _listed(row: slurm_answers.Row, looked_at: Optional[float]) -> Dict[str, Any]:
    """Convert a row of the controller's to a status."""
    status = slurm_answers.status_of(row, looked_at)
    return dict(status, listed=True) if status["state"] == engine.ENDED else status


def _since_its_end(
    handed: Handed, queue: slurm_queue.Queue, memory: job_activity.Memory, end: Dict[str, Any]
) -> Dict[str, Any]:
    """Ask by its id whether a job whose end was believed, and which the queue no longer lists, is back."""
    if not memory.watch:  # it was another machine that believed the end
        memory.follow(liveness.MISSING, queue.looked_at, handed.paths, _given_s(queue, memory))
    second = memory.ask_second(handed.paths.root, lambda: _ask_second(handed), memory.silent_s) or {}
    row: Any = second.get("row")
    shown = slurm_answers.status_of(row, queue.looked_at) if slurm_answers.is_row(row) else None
    if shown is None or shown["state"] == engine.ENDED:
        # The answer to the first question names no record: then the controller has no such job.
        return end if "recorded" in second else dict(end, listed=True)
    memory.forget_end()
    return shown


def _find_missing(handed: Handed, queue: slurm_queue.Queue, memory: job_activity.Memory) -> Dict[str, Any]:
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
    if slurm_answers.is_row(row):
        return _listed(row, queue.looked_at)
    recorded: Any = second.get("recorded")
    kind = slurm_answers.status_of(recorded, queue.looked_at) if slurm_answers.is_row(recorded) else None
    believed = liveness.confirm(memory.lasted_s, queue.doubt is None, kind["state"] if kind else None)
    if believed == engine.ENDED and kind is not None:
        return kind
    if believed == engine.GONE:
        return scheduler_status(engine.GONE, queue.looked_at)
    why = "accounting says %s" % kind["detail"] if kind else queue.doubt
    return scheduler_status(engine.UNKNOWN, queue.looked_at, error="Slurm's controller has no such job, but %s" % why)


def _ask_second(handed: Handed) -> Dict[str, Any]:
    try:
        row = slurm_queue.ask_job(handed)
    except EngineError as error:
        return {"error": error.message[:500]}
    if row is not None:
        return {"row": row}
    place = handed.place
    recorded = slurm_queue.ask_accounting(
        handed.queued_as, handed.handed_at, slurm_queue.SECOND_S, None if place is None else place.index
    )
    return {"recorded": dict(recorded, reason="") if recorded else None}
