"""Submit a run to a supervisor at most once, and request its stop."""

import contextlib
import getpass
import os
import time
from typing import Any, Dict, Optional

from armada_agent.engines import allowance, array_records
from armada_agent.engines import engine as engines
from armada_agent.engines.engine import EngineError
from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters, process_identity
from armada_agent.foundation.session import Call
from armada_agent.host import detached, job_variables, roots, set_aside, setup_lines
from armada_agent.paths import RunPaths, SweepPaths, newest
from armada_agent.records import forgetting
from armada_agent.records.ending import ENDED
from armada_agent.records.place import is_gone, require_there
from armada_agent.records.stop_request import BY_SWEEP, concerns, ending_of, read_stop_request
from armada_agent.runs import leftover_processes, refused, repeated, unattended, work_data
from armada_agent.runs.observation import Evidence
from armada_agent.runs.scheduler import SAFE, asked_scheduler, place_of, read_scheduler
from armada_agent.verdicts import following

_TAKE_UP_S = 15.0


def submit(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Start a supervisor for a run, or submit the run to the host's batch system, unless that has been done.

    The claim is durable before anything starts, and the supervisor creates job.json exclusively before it starts the
    job. However often this is called, and wherever it is killed, one job starts. The batch system is asked for the
    submission's name before anything is submitted again. Of two jobs of one submission, only the first may run. Secrets
    are deleted at the end of a submission, and when it is refused: the next one brings them again or, if that one was
    lost without an end, sets `keep_secrets`.

    Raises:
        AgentError: `not_found`; `conflict`: another submission is active, the run was cancelled before it started, or
            secrets to keep are gone; `environment`: files of the run are gone or have changed; `io`: its plan is lost;
            `scheduler`: the batch system refuses; `outcome_unknown`: it is impossible to know whether the batch system
            has the job, or the supervisor has not started yet, or an earlier request has claimed the submission and this
            one fails.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    number = parameters.integer(params, "submission", least=1)
    secrets = parameters.texts(params, "secrets")
    job_variables.check_names(secrets)
    require_linux()
    with repeated.doubted([paths], number):
        set_aside.refuse_while_wiped(call.root)
    with contextlib.ExitStack() as held:
        with repeated.doubted([paths], number, sure=("bad_request", "conflict")):
            require_there(paths)
            lock = held.enter_context(files.locked(paths.submit_lock))
            job = _job(paths, number)
            if job is not None:
                return {"outcome": "already", "job": job}
            _refuse_second(paths, number)
            stop_request = read_stop_request(paths)
            if stop_request is not None and concerns(stop_request, number):
                raise AgentError("conflict", "run %s was cancelled before it started" % paths.run_id)
        was_claimed = repeated.may_be_claimed(paths, number)
        with repeated.doubted([paths] if was_claimed else [], number):
            with refused.without_secrets(paths, number):
                settings = _prepare(call, paths, number, secrets, params.get("keep_secrets") is True)
            if settings is None:
                detached.start("supervise", call.session.agent_path, paths, number)
        if settings is not None:
            return {"outcome": "started", "job": _hand_over(engines.Handed(paths, number), settings, lock)}
        return {"outcome": "started", "job": _await_job(paths, number)}


def _prepare(
    call: Call, paths: RunPaths, number: int, secrets: Dict[str, str], keeps_secrets: bool
) -> Optional[Dict[str, Any]]:
    """Check that a submission can start, and claim it.

    Returns:
        The settings of the batch system that starts it; None: a supervisor does.
    """
    if keeps_secrets:
        unattended.require_secrets(paths)
        unattended.require_budget(paths)
    if number > 1:
        work_data.require_unchanged(call, paths)
    settings = read_scheduler(paths)
    setup_lines.apply()  # what it starts inherits the environment, and a failing line is reported before the claim
    forgetting.bring(paths, secrets)
    _claim(paths, number)
    with repeated.doubted([paths], number):
        forgetting.bring(paths, secrets)  # who forgot those of the former one may not have seen the claim
    return settings


def claim_first(paths: RunPaths, place: Optional[engines.Place] = None) -> str:
    """Claim a run's first submission durably and start nothing: the dispatcher of its sweep, or an array of jobs, does.

    Args:
        paths: The run's files.
        place: Its place in an array of jobs, if it has one.

    Returns:
        `claimed`; `already`, if an earlier request did so; `cancelled`, if a stop of the run was requested before.

    Raises:
        AgentError: `not_found`.
    """
    paths.require()
    with files.locked(paths.submit_lock):
        if newest(paths.submissions()) is not None and os.path.exists(paths.submission(1, "claim.json")):
            return "already"
        stop_request = read_stop_request(paths)
        if stop_request is not None and concerns(stop_request, 1):
            return "cancelled"
        if place is not None:
            _make_folder(paths, 1)
            files.write_json(paths.submission(1, "array.json"), place.as_json())
        _claim(paths, 1)
        return "claimed"


def standing_of_first(paths: RunPaths) -> Optional[str]:
    """Return `already` if a run's first submission was claimed, `cancelled` if a stop was requested before, else None."""
    if os.path.exists(paths.submission(1, "claim.json")):
        return "already"
    stop_request = read_stop_request(paths)
    return "cancelled" if stop_request is not None and concerns(stop_request, 1) else None


def bring_secrets(paths: RunPaths, secrets: Dict[str, str]) -> None:
    """Write the secrets of a run that exists, unless it was claimed or cancelled: they went when it was refused before."""
    if secrets and not os.path.exists(paths.secrets):
        with files.locked(paths.submit_lock):
            if standing_of_first(paths) is None:
                forgetting.bring(paths, secrets)


def release_first(paths: RunPaths, place: engines.Place) -> None:
    """Take the claim of a first submission back: the batch system refused its array."""
    with contextlib.suppress(files.UnreadableError):
        if files.read_json(paths.submission(1, "array.json")) != place.as_json():
            return  # somebody else claimed it
    for name in ("claim.json", "array.json"):
        files.remove(paths.submission(1, name))
    with contextlib.suppress(OSError):  # it contains something that the user may want to read
        os.rmdir(paths.submission(1))
    refused.forget_secrets(paths, 1)


def record_job(handed: engines.Handed, kind: str, job_id: str, place: Optional[engines.Place]) -> Dict[str, Any]:
    """Write down which job of a batch system a submission is, unless that was done.

    Raises:
        AgentError: `outcome_unknown`: the batch system has the job, and that cannot be recorded.
    """
    job = {"submission": handed.number, "scheduler": kind, "job_id": job_id, "name": handed.name, "time": time.time()}
    try:
        files.link_json(handed.file("job.json"), job if place is None else dict(job, array=place.as_json()))
    except OSError as error:
        raise AgentError(
            "outcome_unknown", "%s has the job %s, and this could not be recorded: %s" % (kind, job_id, error), SAFE
        )
    return _job(handed.paths, handed.number) or job


def end_refused(paths: RunPaths, message: str) -> None:
    """Write that a claimed first submission failed before it started: the batch system refused it while nobody waited."""
    if not Evidence(paths).has_ended:
        _end_unstarted(paths, 1, "failed", "never_started", message)


def conclude_unstarted(paths: RunPaths, submission: int, reason: str, message: str) -> bool:
    """Write that a claimed submission failed before it started, unless a supervisor has it.

    Returns:
        Whether nothing can start it any more.
    """
    taken = {
        "submission": submission,
        "scheduler": "direct",
        "supervisor": process_identity.identify(),
        "guardian": None,
        "time": time.time(),
    }
    if not files.link_json(paths.submission(submission, "job.json"), taken):
        return False
    _end_unstarted(paths, submission, "failed", reason, message)
    return True


def stop(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Request a run's stop. Its supervisor carries it out or, if that has died, a process that is started here.

    If the run's folder is missing, `root` proves that no file system is unmounted; the run's processes are then ended
    as well. With `only_ended`, only what an ended run left is ended.

    Returns:
        The `outcome`, and the `submission` to which the request applies; it does not apply to later ones.

    Raises:
        AgentError: `not_found`; `conflict`: `only_ended`, and it has not.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    grace_s = parameters.seconds(params, "grace_s")
    require_linux()
    is_mounted = params.get("root") is not None and params["root"] == roots.identify(call.root)
    if is_mounted and is_gone(paths) and leftover_processes.find(paths):
        leftover_processes.start_ending(call.session.agent_path, paths, grace_s)
        return {"outcome": "stopping"}
    require_there(paths)
    evidence = Evidence(paths)
    number = evidence.submission_number
    if params.get("only_ended") is True and (evidence.supervisor in ("alive", "unknown") or not evidence.has_ended):
        raise AgentError("conflict", "run %s has not ended, or was resumed" % paths.run_id)
    if evidence.has_ended and (evidence.supervisor == "alive" or not evidence.processes()):
        if (evidence.state or {}).get("state") not in ENDED and evidence.supervisor != "alive":
            detached.start("clear", call.session.agent_path, paths, number or 0)  # who wrote its exit was killed then
        return {"outcome": "already_ended", "submission": number}
    request = {"time": time.time(), "grace_s": grace_s, "submission": number}
    if parameters.is_text(params.get("budget")):
        request["budget"] = params["budget"]
    if params.get("reason") in BY_SWEEP and parameters.is_text(params.get("message")):
        request.update(reason=params["reason"], message=params["message"])
    if not (("reason" in request or "budget" in request) and _is_stopped_by_person(paths, number)):
        files.write_json(paths.stop, request)
    # A supervisor that starts from now on reads the stop request. Only one that started before must be found.
    evidence = Evidence(paths)
    if number is not None and evidence.submission_number != number:
        return {
            "outcome": "already_ended",
            "submission": number,
        }  # it was submitted again before the stop request was written
    number = evidence.submission_number
    return dict(_fulfil(call, paths, evidence, grace_s), submission=number)


def _is_stopped_by_person(paths: RunPaths, number: Optional[int]) -> bool:
    """Return whether a person has stopped this submission: what a rule asks for later does not change why it ends."""
    former = read_stop_request(paths)
    if not former or not concerns(former, number or 0):
        return False
    return ending_of(former, True).reason == "killed_by_user"


def _fulfil(call: Call, paths: RunPaths, evidence: Evidence, grace_s: float) -> Dict[str, Any]:
    number = evidence.submission_number
    if number is not None and evidence.job is None:
        _find_lost_job(engines.Handed(paths, number))
        evidence = Evidence(paths)
    if number is None and evidence.processes():
        # Somebody deleted its records while it ran, and its job has made the folder anew.
        detached.start("clear", call.session.agent_path, paths, 0)
        return {"outcome": "stopping"}
    if number is None or evidence.job is None:
        # No supervisor, or one that has not read the stop request yet and will write the same end.
        return _cancel_unstarted(paths, number or 0)
    if evidence.may_lack_end and not evidence.is_gone:
        detached.start("clear", call.session.agent_path, paths, number)
        return {"outcome": "stopping"}
    if evidence.settings is not None and evidence.supervisor != "dead":
        answer = _cancel_job(paths, number, evidence, grace_s)
        if evidence.is_gone or (_waits(evidence) and evidence.processes() and "problem" not in answer):
            # No other process writes the end of a job that is gone, or ends what a dead supervisor left here.
            detached.start("clear", call.session.agent_path, paths, number)
        return answer
    if evidence.supervisor == "dead":
        detached.start("clear", call.session.agent_path, paths, number)
    return {"outcome": "stopping"}


def _cancel_job(paths: RunPaths, number: int, evidence: Evidence, grace_s: float) -> Dict[str, Any]:
    """Tell the batch system. If the job never began, write its end here, because no other process will.

    If the batch system does not answer, the stop request remains: a supervisor reads it itself, even in a job that
    starts later.
    """
    engine = engines.find((evidence.settings or {}).get("kind"))
    status = evidence.scheduler_status or engines.scheduler_status(engines.UNKNOWN, None)
    try:
        engine.cancel(evidence.handed, status, grace_s)
    except EngineError as error:
        if error.refused or error.missing:
            raise engines.as_agent_error(error)
        return {"outcome": "stopping", "problem": error.message[:500]}
    if _waits(evidence):
        if not evidence.attempt:
            return _cancel_unstarted(paths, number)
        if not evidence.processes():
            _conclude_waiting(paths, number, evidence.state or {})
    return {"outcome": "stopping"}


def _waits(evidence: Evidence) -> bool:
    return (evidence.scheduler_status or {}).get("state") in (engines.PENDING, engines.HELD)


def _conclude_waiting(paths: RunPaths, number: int, state: Dict[str, Any]) -> None:
    """Write the end of a submission that was stopped between two attempts, or before its first one."""
    ending = ending_of(read_stop_request(paths) or {}, True)
    words = "; ".join(filter(None, ("cancelled while it waited for its next attempt", ending.message)))
    told: Dict[str, Any] = {"state": ending.state, "reason": ending.reason, "message": words}
    if state.get("submission") != number:
        told.update(submission=number, gpus=[], exit_code=None, signal=None, started_at=None)
    seq = state.get("seq")
    files.write_json(paths.state, dict(state, ended_at=time.time(), seq=seq + 1 if isinstance(seq, int) else 1, **told))
    forgetting.forget(paths, number)


def _hand_over(handed: engines.Handed, settings: Dict[str, Any], lock: int) -> Dict[str, Any]:
    """Submit a claimed submission to the batch system, unless an earlier request did."""
    kind = settings.get("kind")
    engine = engines.find(kind)
    job_id = _look_up(handed, str(kind))
    place = place_of(handed)
    if job_id is None and place is not None:
        message = "%s is part of the array %s, which is being handed over" % (handed.paths.run_id, place.name)
        raise AgentError("outcome_unknown", message, "armada sweep show %s completes it" % place.sweep)
    if job_id is None:
        allowance.note_before(handed.paths, handed.number, settings)
        # From here until job.json exists, only the batch system knows whether there is a job.
        files.write_json(handed.file("asked.json"), {"time": time.time(), "scheduler": kind})
        try:
            job_id = engine.submit(handed, lock)
        except EngineError as error:
            if (error.refused or error.missing) and not os.path.exists(handed.file("taken.json")):
                refused.take_back(handed.paths, handed.number, error.message)  # it refused, so there is no job
                raise engines.as_agent_error(error)
            raise AgentError("outcome_unknown", error.message, SAFE)
        except (OSError, files.UnreadableError) as error:
            raise AgentError(
                "outcome_unknown", "it is unknown whether %s has %s: %s" % (kind, handed.name, error), SAFE
            )
    return record_job(handed, str(kind), str(job_id), place)


def _look_up(handed: engines.Handed, kind: str) -> Optional[str]:
    """Find the job of an earlier request in the run's folder or in the queue."""
    try:
        taken = files.read_json(handed.file("taken.json"))
    except files.UnreadableError as error:
        message = "it is unknown which job of %s runs it: %s"
        raise AgentError("outcome_unknown", message % (handed.paths.run_id, error), SAFE)
    if taken is not None:
        return str(taken.get("job_id"))
    place = place_of(handed)
    if place is None and not os.path.exists(handed.file("asked.json")):
        return None
    try:
        if place is not None:
            array_id = array_records.find_id(SweepPaths(handed.paths.root, place.sweep), place.number, kind)
            return array_id and engines.find(kind).job_in_array(array_id, place.index)
        found: Optional[str] = engines.find(kind).look_up(handed)
    except (EngineError, files.UnreadableError) as error:
        message = "it is unknown whether %s already has %s: %s"
        raise AgentError("outcome_unknown", message % (kind, handed.paths.run_id, error), SAFE)
    return found


def _find_lost_job(handed: engines.Handed) -> None:
    """Find the job of a submission whose answer was lost, so that it can be stopped."""
    kind = asked_scheduler(handed)
    if kind is None:
        return
    job_id = _look_up(handed, kind)
    if job_id is not None:
        record_job(handed, kind, job_id, place_of(handed))


def explain(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return why a run waits, by its batch system.

    Raises:
        AgentError: `not_found`; `unsupported`: the run has no batch system; `scheduler`: it does not answer.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    require_there(paths)
    evidence = Evidence(paths)
    if evidence.settings is None:
        raise AgentError("unsupported", "run %s was not submitted to a batch system" % paths.run_id)
    try:
        text = engines.find(evidence.settings.get("kind")).explain(evidence.handed)
    except EngineError as error:
        raise engines.as_agent_error(error)
    return {"text": str(text)[:60000]}


def check(_call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Ask the batch system whether a job file could ever run, without submitting it.

    Returns:
        `refusal`: why it could never run, or None; otherwise `wait`: why it could not start now, and `starts_in_s`, if
            known.

    Raises:
        AgentError: `scheduler`: it does not answer.
    """
    engine = engines.find(params.get("scheduler"))
    try:
        answer = engine.check(parameters.text(params, "file"))
    except EngineError as error:
        if not error.refused:
            raise engines.as_agent_error(error)
        return {"refusal": error.message[:2000], "wait": None, "starts_in_s": None}
    wait = answer["wait"]
    return {"refusal": None, "wait": wait and wait[:2000], "starts_in_s": answer["starts_in_s"]}


def require_linux() -> None:
    if not os.path.isdir("/proc/self"):
        raise AgentError("unsupported", "runs need Linux, because armada finds their processes in /proc")


def _job(paths: RunPaths, number: int) -> Optional[Dict[str, Any]]:
    try:
        return files.read_json(paths.submission(number, "job.json"))
    except files.UnreadableError as error:
        # It exists: whoever takes this for a refusal would start a second one.
        raise AgentError("outcome_unknown", "submission %d of %s: %s" % (number, paths.run_id, error), SAFE)


def _refuse_second(paths: RunPaths, number: int) -> None:
    before = paths.newest_submission()
    if before is None or before == number:
        return
    evidence = Evidence(paths)
    is_dead = evidence.supervisor == "dead" or evidence.is_gone
    was_taken = evidence.job is not None
    if number > before and evidence.may_have_ended_well:
        message = "run %s has submission %d already: how its job ended is recorded, and its end is not written yet"
        raise AgentError("conflict", message % (paths.run_id, before), "look again in a minute, or stop the run")
    if not following.may_follow(
        number, before, evidence.has_ended, was_taken, is_dead, len(evidence.processes()) if was_taken else 0
    ):
        message = "run %s has submission %d already" % (paths.run_id, before)
        raise AgentError("conflict", message, "submit number %d again to learn what became of it" % before)


def _claim(paths: RunPaths, number: int) -> None:
    claim = paths.submission(number, "claim.json")
    _make_folder(paths, number)
    if os.path.exists(claim):
        return
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())  # a container's user may have no name
    files.link_json(claim, {"time": time.time(), "by": "%s@%s" % (user, process_identity.current_host()["hostname"])})


def _make_folder(paths: RunPaths, number: int) -> None:
    """Make a submission's folder in the run's, but not that one: a wipe may have set it aside, and would find it made anew."""
    files.make_within(paths.folder, "submissions", str(number))


def _await_job(paths: RunPaths, number: int) -> Dict[str, Any]:
    deadline = time.monotonic() + _TAKE_UP_S
    unseen = ""
    while time.monotonic() < deadline:
        try:
            job, unseen = files.read_json(paths.submission(number, "job.json")), ""
        except files.UnreadableError as error:  # its disk may answer in a moment
            job, unseen = None, str(error)
        if job is not None:
            return job
        time.sleep(0.02)
    words = unseen or files.read_tail(paths.supervisor_log, 2000).strip() or "it printed nothing"
    message = "the supervisor of %s did not start it within %.0f s: %s" % (paths.run_id, _TAKE_UP_S, words)
    raise AgentError("outcome_unknown", message, "run the same command again to find out; nothing is started twice")


def _cancel_unstarted(paths: RunPaths, submission: int) -> Dict[str, Any]:
    ending = ending_of(read_stop_request(paths) or {}, False)
    _end_unstarted(paths, submission, ending.state, str(ending.reason), str(ending.message))
    return {"outcome": "cancelled_before_start"}


def _end_unstarted(paths: RunPaths, submission: int, word: str, reason: str, message: str) -> None:
    former = Evidence(paths).state or {}
    seq = former.get("seq") if former.get("submission") == submission else None  # some were preempted before an attempt
    state = {
        "state": word,
        "reason": reason,
        "message": message,
        "submission": submission,
        "attempt": 0,
        "gpus": [],
        "exit_code": None,
        "signal": None,
        "queued_at": None,
        "started_at": None,
        "ended_at": time.time(),
        "seq": seq + 1 if isinstance(seq, int) else 1,
    }
    files.write_json(paths.state, state)
    forgetting.forget(paths, submission)
