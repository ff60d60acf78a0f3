"""Run the supervisor as a batch job: on a worker, possibly several times, with signals that have several meanings.

One submission may be executed several times: after preemption, a requeue, or the failure of a node. Each execution is
an attempt. A batch system that ends an attempt restarts it later, so that end is not the end of the run.
"""

import contextlib
import os
import signal
import time
from typing import Any, Dict, List, Optional

from armada_agent.engines import engine, slurm_nodes
from armada_agent.engines.engine import EngineError
from armada_agent.foundation import files, process_identity
from armada_agent.foundation.log import say
from armada_agent.host import gpus, job_variables, processes
from armada_agent.host.gpu_tickets import Holding
from armada_agent.paths import RunPaths, newest
from armada_agent.records.ending import ENDED, Ending
from armada_agent.records.journal import Journal
from armada_agent.records.place import await_seen, is_gone
from armada_agent.records.stop_request import ending_of
from armada_agent.supervisor import cleanup, progress
from armada_agent.supervisor.job import StartError
from armada_agent.supervisor.supervise import Supervisor
from armada_agent.verdicts import requeue
from armada_agent.verdicts.cause import signal_name
from armada_agent.verdicts.requeue import LOST, REQUEUED

_FENCE_S = 10.0
_NOTICED_S = 2 * _FENCE_S
"""After that a former attempt, if it still ran, has noticed that the run is another's now, and has killed its job."""
_LOG_TAIL = 64 * 1024
_PREEMPTED = "preempted"
_NODE_FAILURE = "node_failure"
_TAKEN = (_PREEMPTED, _NODE_FAILURE)
_MOST_WITHOUT = 2  # attempts that reach the time limit without a newer checkpoint, if an older home gave no number
_TIME_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
_SIGNALS_APART_S = 10.0  # on a node that is very busy with the end of the job
_ENDED_BY_SIGTERM = (-signal.SIGTERM, 128 + signal.SIGTERM)


class BatchSupervisor(Supervisor):
    """Runs one execution of a submission until its end.

    Args:
        paths: The run's files.
        submission: Its number.
        spec: The run's plan.
        job_id: The batch system's id of the job.
    """

    def __init__(self, paths: RunPaths, submission: int, spec: Dict[str, Any], job_id: str) -> None:
        super().__init__(paths, submission, spec)
        self._job_id = job_id
        self._settings: Dict[str, Any] = spec["scheduler"]
        self._looked_at = time.monotonic()
        self._outdated = False
        self._stop_before: Optional[Dict[str, Any]] = None
        self._is_near_limit = False
        self.exit_code = 0
        self._devices = ""
        self._log_begin = _size(paths.scheduler_log)  # its present content is from earlier attempts
        self._journal.place.until(self._is_outdated)
        self._closed_at: Optional[float] = None
        if _close_former_attempts(paths, self._journal, self._progress):
            self._closed_at = time.monotonic()
        for number in _TIME_SIGNALS:
            signal.signal(number, self._note_signal)

    def _end_former_attempts(self) -> None:
        """End what a killed supervisor left on this node: Slurm without cgroups does not find it before it starts the job again."""
        former = newest(self._paths.attempts())
        if former is None:
            return

        def find() -> List[processes.Process]:
            return processes.members(self._paths, up_to=former)

        left = find()
        if left:
            what = "%s of attempt %d or before still ran on this node and %s ended before this one starts"
            counted = "a process" if len(left) == 1 else "%d processes" % len(left)
            self._journal.record("finding", message=what % (counted, former, "is" if len(left) == 1 else "are"))
            processes.sweep(find, self._spec["stop_grace_s"], self._report_stuck)

    def _note_signal(self, number: int, frame: Any) -> None:
        super()._note_signal(number, frame)
        self._is_near_limit = self._is_near_limit or number in _TIME_SIGNALS

    def _spent_s(self) -> float:
        """Return this process's age: the scheduler counts from the job file's first line, and the job file runs us with `exec`."""
        return process_identity.age_s()

    def _take_gpus(self) -> None:
        wanted = self._spec["gpus"]
        if not wanted:
            return
        allotted = engine.allotted_gpus(dict(os.environ))
        if len(allotted) != wanted:
            message = "the run needs %s, but the scheduler gave it %d (%s)"
            raise StartError(
                "env_error", message % (gpus.counted(wanted), len(allotted), ", ".join(allotted) or "none")
            )
        self._devices = ",".join(allotted)
        self._holding = Holding(_identify_gpus(allotted), [])

    def _compose(self, secrets: Dict[str, str]) -> Dict[str, str]:
        environment = super()._compose(secrets)
        if self._devices:
            # The scheduler's own names: inside a cgroup the first GPU is 0, whatever its index on the machine.
            environment["CUDA_VISIBLE_DEVICES"] = self._devices
        environment["ARMADA_GPUS"] = ",".join(gpu["uuid"] for gpu in self._holding.gpus if gpu["uuid"])
        return environment

    def _stop_request(self) -> Optional[Dict[str, Any]]:
        stop_request = super()._stop_request()
        if stop_request is None and time.monotonic() - self._looked_at > _FENCE_S:
            self._looked_at = time.monotonic()
            if self._is_outdated():
                return {"grace_s": 0}
            self._look_whether_it_was_put_back()
            self._journal.restore()
        return stop_request

    def _persons_stop_request(self) -> Optional[Dict[str, Any]]:
        stop_request = super()._persons_stop_request()
        if stop_request is not None or self._stop_before is None:
            return stop_request
        # Whoever asks for it now sees an earlier submission, and means what lives of the run: the batch system knows no other.
        found = self._stops.look()
        return found if found is not None and found != self._stop_before else None

    def _look_whether_it_was_put_back(self) -> None:
        """Note the request to stop that lies in a folder which was put back to before this submission: that is an old word."""
        try:
            is_as_before = self._paths.is_claimed(self._submission) or is_gone(self._paths)
        except OSError:
            return  # the folder cannot be seen now
        if is_as_before:
            self._stop_before = None
        elif self._stop_before is None:
            found = self._stops.look()
            self._stop_before = (found or {}) if self._stops.is_known else None

    def _is_outdated(self) -> bool:
        """Return whether the scheduler considered this node dead and started the run elsewhere. The records belong to that attempt.

        As long as the folder cannot be seen, nobody knows, and it is not.
        """
        if not self._outdated:
            with contextlib.suppress(OSError):
                self._outdated = (
                    (newest(self._paths.attempts()) or 0) > self._attempt > 0
                    or _is_given_up(self._paths, self._attempt)
                    or _is_taken_after(self._paths, self._submission)
                )
        return self._outdated

    def _stopped_ending(self) -> Ending:
        if self._is_outdated():
            return Ending(REQUEUED, "superseded", "a later attempt is running")
        if self._is_cancelled():
            return ending_of(self._persons_stop_request() or {}, bool(self._attempt))
        if self._budget.is_reached:
            return self._budget.ending(self._paths.run_id)
        if self._is_near_limit or self._limit.is_reached:  # SIGTERM may follow at the limit itself
            return Ending(REQUEUED, requeue.TIME_LIMIT)
        # Slurm has a number of its own for each job of an array, and uses it in its messages.
        names = (self._job_id, os.environ.get("SLURM_JOB_ID", self._job_id))
        node = slurm_nodes.find_failed_under(names, self._scheduler_words())
        if node is not None:
            return Ending(REQUEUED, _NODE_FAILURE, "its node %s failed, according to Slurm" % node)
        return Ending(REQUEUED, _PREEMPTED, "the scheduler took its node away (%s)" % signal_name(self._terminated_by))

    def _scheduler_words(self) -> str:
        """Return what the scheduler has written into the job's own log since this attempt began."""
        try:
            with files.open_regular(self._paths.scheduler_log) as stream:
                stream.seek(max(self._log_begin, _size(self._paths.scheduler_log) - _LOG_TAIL))
                return stream.read(_LOG_TAIL).decode("utf-8", "replace")
        except OSError:
            return ""  # HTCondor writes no log, and an older home gave it another name

    def _judge(self, status: int) -> Ending:
        if self._is_outdated():
            return self._stopped_ending().with_status(status)
        ending = super()._judge(status)
        if ending.state != "failed" or self._is_cancelled():
            return ending
        if status in _ENDED_BY_SIGTERM:
            self._await_own_signal()
        if self._terminated_by or ending.reason == _PREEMPTED:
            # The scheduler's signal reached the training before it reached this process.
            return self._stopped_ending().with_status(status)
        return self._retried(ending)

    def _await_own_signal(self) -> None:
        """Wait for this process's signal: Slurm signals a job's processes in turn, so the training may end before we get ours."""
        deadline = time.monotonic() + _SIGNALS_APART_S
        while not self._terminated_by and time.monotonic() < deadline:
            time.sleep(0.05)

    def _retried(self, ending: Ending) -> Ending:
        allowed = self._settings.get("max_retries", 0)
        failed = _count_failures(self._paths, self._submission)
        if failed >= allowed or requeue.would_fail_again(self._spec, ending.reason, ending.exit_code):
            return ending
        message = "attempt %d failed (%s); retry %d of %d" % (self._attempt, ending.reason, failed + 1, allowed)
        ending.state, ending.message = REQUEUED, message
        return ending

    def _conclude(self, ending: Ending) -> None:
        if ending.state != REQUEUED:
            self._finish(ending)
            return
        self.exit_code = 1
        if self._outdated:
            return
        ending.steps = self._progress.measure()
        self._decide(ending)
        problem = None
        if ending.state == REQUEUED:
            self._journal.close_attempt(ending)  # the scheduler may kill us as soon as it has the job back
            problem = self._put_back(ending)
        if problem is not None:
            ending.state = "failed"
            ending.message = "%s; it could not be put back into the queue: %s" % (ending.message, problem)
        if ending.state != REQUEUED:
            self._finish(ending)
            return
        self._journal.requeue(ending)

    def _finish(self, ending: Ending) -> None:
        """Write the run's end, once a former attempt on a node that is believed dead has had the time to notice and to end."""
        if self._closed_at is not None:
            until = self._closed_at + _NOTICED_S
            if time.monotonic() < until:
                self._journal.update(message="ending: an attempt on a node that was believed dead has 20 s to notice")
            while time.monotonic() < until:
                time.sleep(1.0)
            if self._is_outdated():
                return  # meanwhile its own node was believed dead
        super()._conclude(ending)

    def _decide(self, ending: Ending) -> None:
        """Decide whether an interrupted attempt goes back into the queue, which it does only if the next one can get further."""
        at_limit = ending.reason == requeue.TIME_LIMIT
        if not at_limit and ending.reason not in _TAKEN:
            return  # a retry, which `max_retries` limits
        if not self._attempt:
            if at_limit:
                ending.state = "failed"
                early = "%s before its job was started: raise `resources.time_limit`"
                ending.message = early % requeue.reached(self._spec)
            return
        attempts = progress.ended_attempts(self._paths, self._submission)
        last = progress.attempt_of(self._attempt, ending.reason, ending.steps)
        most = self._settings.get("max_attempts_without_progress", _MOST_WITHOUT)
        decision = requeue.decide([each for each in attempts if each.number != last.number] + [last], self._spec, most)
        ending.message = decision.message if at_limit else "%s; %s" % (ending.message, decision.message)
        if not decision.again:
            ending.state = "failed"
        elif at_limit and not self._settings.get("requeue_at_time_limit", True):
            ending.state = "failed"
            advice = requeue.advise(self._spec, last.step)
            ending.message = "%s; `requeue_at_time_limit` is off; %s" % (decision.message, advice)

    def _put_back(self, ending: Ending) -> Optional[str]:
        """Put the job back into the queue if the scheduler does not do that itself. Return an error message, or None."""
        if ending.reason == _PREEMPTED:
            return None
        try:
            self.exit_code = engine.find(self._settings["kind"]).requeue(self._job_id)
        except EngineError as error:
            if self._terminated_by == signal.SIGTERM:
                return None  # the scheduler requeues the job itself and reports the result
            return error.message
        return None

    def _is_cancelled(self) -> bool:
        return self._persons_stop_request() is not None


def supervise(root: str, run_id: str, submission: int, job_id: str) -> int:
    """Run a submission on a worker until its end, unless another job of the same submission does.

    Returns:
        0, unless the run failed or goes back into the queue. The scheduler's records show the exit code, and HTCondor
        acts on it.
    """
    os.umask(0o077)
    paths = RunPaths(root, run_id)
    spec = files.read_json(paths.spec)
    if spec is None or not os.path.exists(paths.submission(submission, "claim.json")):
        say("submission %d of %s was never claimed" % (submission, run_id))
        return 1
    taken = paths.submission(submission, "taken.json")
    if not files.link_json(taken, {"job_id": job_id, "time": time.time(), "raw_id": os.environ.get("SLURM_JOB_ID")}):
        before = files.read_json(taken) or {}
        if before.get("job_id") != job_id:
            say(
                "submission %d of %s belongs to job %s; job %s ends"
                % (submission, run_id, before.get("job_id"), job_id)
            )
            return 0
    newest_one = await_seen(paths, paths.newest_submission) or submission
    if newest_one > submission:
        # Its end was written, so that another submission could follow, while this job was back in the queue. First: all
        # else that is written from here on is that submission's.
        say("submission %d of %s follows this one, number %d; job %s ends" % (newest_one, run_id, submission, job_id))
        return 0
    ended = _recorded_end(paths, submission)
    if ended is not None:
        say("%s has ended already (%s)" % (run_id, ended))
        return 0
    for name, value in job_variables.login_variables(paths.folder).items():
        os.environ.setdefault(name, value)  # HTCondor starts jobs without these
    supervisor = BatchSupervisor(paths, submission, spec, job_id)
    supervisor.run()
    return 0 if supervisor.state in ("succeeded", "cancelled") else supervisor.exit_code or 1


def _recorded_end(paths: RunPaths, submission: int) -> Optional[str]:
    """Return the state in which a submission ended, or None while it has not.

    A supervisor writes its attempt's exit before the state. If it was killed between the two while the scheduler believed
    its node dead, the job waits in the queue although it ended; its end is completed here, and nothing runs again. The
    same is done if it was killed after its job had ended well, and before it wrote the exit.
    """
    state = await_seen(paths, lambda: files.read_json(paths.state)) or {}
    if state.get("state") in ENDED and state.get("submission") == submission:
        return str(state["state"])
    attempt = newest(await_seen(paths, paths.attempts))
    try:
        exit_path = paths.attempt(attempt or 0, "exit.json")
        told = await_seen(paths, lambda: files.read_json(exit_path)) if attempt else None
    except files.UnreadableError:
        return None
    if attempt is not None and told is None and cleanup.has_ended_well(paths, submission, attempt):
        say("the job of attempt %d had ended well: its end is completed" % attempt)
        cleanup.complete(paths, submission)
        return "succeeded"
    if attempt is None or told is None or told.get("state") not in ENDED or told.get("submission") != submission:
        return None  # an older armada did not name the submission: the exit may be an earlier one's
    Journal(paths, submission).complete(attempt, told)
    return str(told["state"])


def _is_given_up(paths: RunPaths, attempt: int) -> bool:
    """Return whether the next attempt's supervisor wrote the exit of this one; it may have ended without beginning an attempt."""
    try:
        return attempt > 0 and (files.read_json(paths.attempt(attempt, "exit.json")) or {}).get("reason") == LOST
    except (files.UnreadableError, OSError):
        return False


def _is_taken_after(paths: RunPaths, submission: int) -> bool:
    """Return whether a job of a later submission has begun."""
    later = [number for number in paths.submissions() if number > submission]
    return any(os.path.exists(paths.submission(number, "taken.json")) for number in later)


def _close_former_attempts(paths: RunPaths, journal: Journal, reached: progress.Progress) -> bool:
    """Write the exit of an attempt that could not do it itself: its node failed, or was taken away without a warning.

    Returns:
        Whether there was one. It may go on, on a node that is believed dead.
    """
    closed = False
    for number in paths.attempts():
        if files.read_json(paths.attempt(number, "exit.json")) is None:
            message = "it ended without a record; its node failed, or was taken without a warning"
            told: Dict[str, Any] = {"state": REQUEUED, "reason": LOST, "message": message}
            told.update({"exit_code": None, "signal": None})
            begun = (files.read_json(paths.attempt(number, "run.json")) or {}).get("submission")
            told.update({"submission": begun} if isinstance(begun, int) else {})
            journal.write_json(paths.attempt(number, "exit.json"), dict(told, attempt=number, ended_at=time.time()))
            newest_one = requeue.name_newest(reached.measure().get("step"))
            journal.record("finding", message="attempt %d: %s; of checkpoints, %s" % (number, message, newest_one))
            closed = True
    return closed


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _count_failures(paths: RunPaths, submission: int) -> int:
    """Count the attempts that failed on their own since the user submitted the run."""
    ended = progress.ended_attempts(paths, submission)
    return sum(1 for one in ended if one.reason not in (None, "time_limit", LOST, "superseded") + _TAKEN)


def _identify_gpus(words: List[str]) -> List[Dict[str, Any]]:
    """Find the GPUs that a scheduler named, for telemetry. For one that nvidia-smi does not show, only the index is known."""
    try:
        present = gpus.list_gpus()
    except gpus.GpuError as error:
        say(str(error))
        present = []
    found = []
    for place, word in enumerate(words):
        match = [gpu for gpu in present if word in (str(gpu["index"]), "CUDA%s" % gpu["index"])]
        match = match or [gpu for gpu in present if word.startswith("GPU-") and gpu["uuid"].startswith(word)]
        found.append(match[0] if match else {"index": int(word) if word.isdigit() else place, "uuid": ""})
    return found
