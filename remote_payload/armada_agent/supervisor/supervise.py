"""The process that starts a run's job and watches it until its end. It outlives every SSH session."""

import os
import signal
import subprocess
import time
from typing import Any, Dict, List, Optional, Union

from armada_agent.errors import AgentError, is_disk_full
from armada_agent.foundation import files, process_identity
from armada_agent.foundation.log import say
from armada_agent.host import gpu_tickets, gpus, job_setup, processes
from armada_agent.host.telemetry import Telemetry
from armada_agent.metrics import library
from armada_agent.metrics.watch import MetricsWatch
from armada_agent.outbox import resumable
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.finishing import Outbox
from armada_agent.paths import RunPaths, newest
from armada_agent.records.ending import Ending
from armada_agent.records.journal import Journal
from armada_agent.records.stop_request import StopReader, concerns, ending_of, grace
from armada_agent.supervisor import enclosure, guardian, job, post_mortem, used_data
from armada_agent.supervisor.budget import Budget
from armada_agent.supervisor.job import StartError
from armada_agent.supervisor.log_size import LogSize
from armada_agent.supervisor.log_watch import LogWatch, Reached
from armada_agent.supervisor.progress import Progress
from armada_agent.supervisor.time_limit import TimeLimit
from armada_agent.verdicts import requeue
from armada_agent.verdicts.cause import signal_name

_TICK_S = 0.2
_QUEUE_TICK_S = 0.4
LEFTOVER_GRACE_S = 3.0
_LEFT_S = 1.0
_MOST_NAMED = 5
_PREDECESSOR_S = 10.0
Child = Union["subprocess.Popen[bytes]", guardian.Adopted]
_ENDED_BY_ITSELF = (0, 85)  # jobs that saved after a signal exit with 85; any other code may mean half a checkpoint


class StoppedError(Exception):
    """A stop of the run was requested."""


class Supervisor:
    """Runs one submission of a run until its end.

    Args:
        paths: The run's files.
        submission: The submission's number. This supervisor has already claimed it.
        spec: The run's plan.

    Attributes:
        adopter: The guardian's pid, if there is a guardian. The job's daemonized processes are its children, whatever
            their environment contains.
    """

    def __init__(self, paths: RunPaths, submission: int, spec: Dict[str, Any]) -> None:
        self._paths = paths
        self._submission = submission
        self._spec = spec
        self._journal = Journal(paths, submission)
        self._holding = gpu_tickets.Holding([], [])
        self._attempt = 0
        self._leader: Optional[Dict[str, Any]] = None
        self._terminated_by = 0
        self._had_s = 0.0
        self._noted_at: Optional[float] = None
        self._watching: Dict[str, Any] = spec.get("watch") or {}
        self._checkpoint_watch: Optional[CheckpointWatch] = None
        self._log_watch: Optional[LogWatch] = None
        self._metrics_watch: Optional[MetricsWatch] = None
        self._limit = TimeLimit(spec)
        self._budget = Budget(paths, spec, submission)
        self._stops = StopReader(paths)
        self._progress = Progress(paths)
        self._log_size = LogSize(paths.output)
        self._enclosure: Optional[enclosure.Prepared] = None
        self.adopter: Optional[int] = None

    def run(self) -> None:
        self._answer_signals()
        self._journal.update()
        try:
            self._refuse_if_stopped()
            self._end_former_attempts()
            self._enclose()
            self._take_gpus()
            child = self._start()
        except StoppedError:
            ending = self._stopped_ending()
        except StartError as error:
            ending = Ending("failed", error.reason, error.message)
        except OSError as error:
            reason = "disk_full" if is_disk_full(error) else "env_error"
            ending = Ending("failed", reason, "the job could not be started: %s" % error)
        else:
            ending = self._see_through(child)
        self._holding.release()
        self._conclude(ending)

    def take_over(self, left: guardian.Left) -> None:
        """Watch a job until its end after its supervisor was killed."""
        self._answer_signals()
        self._attempt, self._leader, self._noted_at = left.attempt, left.record["process"], left.noted_at
        self._holding = gpu_tickets.Holding(
            [{"index": index, "uuid": ""} for index in left.record.get("gpus") or []], []
        )
        self._journal.take_up(left.attempt)
        self._journal.record("finding", message="the supervisor was killed; its guardian took over the job")
        self._journal.update(message=None, state="running", started_at=left.record.get("started_at") or time.time())
        self._prepare_watch()
        self._had_s = process_identity.age_s(left.job.pid)
        ending = self._see_through(left.job)
        self._conclude(ending)

    def _end_former_attempts(self) -> None:
        """Do nothing: a submission to the host itself is refused while processes of an earlier one live."""

    def _answer_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    @property
    def state(self) -> str:
        """The state that was last written to state.json."""
        return str(self._journal.state["state"])

    def _conclude(self, ending: Ending) -> None:
        ending.steps = self._progress.measure()
        if ending.reason == requeue.TIME_LIMIT and ending.message is None:
            advice = requeue.advise(self._spec, ending.steps.get("step"))
            ending.message = "%s; %s" % (requeue.reached(self._spec), advice)
        if self._attempt:
            for words in used_data.find_changed(self._paths, self._spec):
                self._journal.record("finding", message=words)
        self._journal.conclude(ending)

    def _note(self, status: int) -> int:
        if self._noted_at is None:
            self._journal.note_status(status)
        return status

    def _judge(self, status: int) -> Ending:
        return job.judge(self._paths, self._attempt, status)

    def _compose(self, secrets: Dict[str, str]) -> Dict[str, str]:
        environment = job.compose_environment(self._paths, self._spec, self._attempt, self._holding.gpus, secrets)
        if self._tells_nothing:
            library.use(self._paths, environment)
        return environment

    def _see_through(self, child: Child) -> Ending:
        outbox = Outbox(self._paths, self._spec["outbox"], self._journal, self._checkpoint_watch)
        indexes = {gpu["index"] for gpu in self._holding.gpus}
        telemetry = Telemetry(self._paths.telemetry, indexes, self._journal.place.is_ours)
        self._note_recorded_end()
        outbox.start()
        if self._noted_at is None:
            telemetry.start()  # else it would say that the job was alive
        if self._metrics_watch is not None:
            self._metrics_watch.start()
        self._limit.start(self._spent_s())
        self._budget.start()
        ending = self._watch(child)
        if self._noted_at is None:
            outbox.note_end()
        self._budget.note(self._journal.place.is_ours, at_once=True)
        if self._stop_request() is None:
            self._name_left(ending)
        self._sweep(LEFTOVER_GRACE_S)
        self._clear_enclosure()
        telemetry.stop()
        self._holding.release()
        self._finish_metrics()
        outbox.finish(is_trusted=ending.exit_code in _ENDED_BY_ITSELF)
        for name in post_mortem.unfinished_saves(self._paths):
            self._journal.record("finding", message="%s is not taken: the job ended while it saved it" % name)
        return ending

    def _note_recorded_end(self) -> None:
        """Have checkpoints judged by when the job ended, if its former supervisor recorded that: it may be long ago."""
        if self._noted_at is not None and self._checkpoint_watch is not None:
            self._checkpoint_watch.note_end(self._noted_at)

    def _spent_s(self) -> float:
        """Return how many seconds of its time limit a run had used before its job started."""
        return self._had_s

    def _note_signal(self, number: int, _frame: Any) -> None:
        self._terminated_by = number

    def _stop_request(self) -> Optional[Dict[str, Any]]:
        stop_request = self._persons_stop_request()
        if stop_request is None and self._limit.is_reached:
            return {"grace_s": self._limit.grace_s}
        if stop_request is None and self._budget.is_reached:
            return {"grace_s": self._spec["stop_grace_s"]}
        return {"grace_s": self._spec["stop_grace_s"]} if stop_request is None and self._terminated_by else stop_request

    def _persons_stop_request(self) -> Optional[Dict[str, Any]]:
        """Return the user's request to stop the run, whatever signals arrived."""
        stop_request = self._stops.look()
        return stop_request if stop_request is not None and concerns(stop_request, self._submission) else None

    def _refuse_if_stopped(self) -> None:
        """Raise StoppedError if a stop was requested. Return only once stop.json was looked for: what cannot be read may be one."""
        while self._stop_request() is None:
            if self._stops.is_known:
                return
            self._journal.flush()
            time.sleep(_QUEUE_TICK_S)
        raise StoppedError

    def _stopped_ending(self) -> Ending:
        if self._budget.is_reached and self._persons_stop_request() is None:
            return self._budget.ending(self._paths.run_id)
        if self._terminated_by:
            message = "the supervisor was told to end by %s" % signal_name(self._terminated_by)
            return Ending("failed", "terminated", message)
        if self._limit.is_reached and self._persons_stop_request() is None:
            return Ending("failed", requeue.TIME_LIMIT)
        return ending_of(self._persons_stop_request() or {}, bool(self._attempt))

    def _enclose(self) -> None:
        """Have the job's image, if the job runs in a container, before GPUs are taken."""
        if enclosure.planned(self._spec) is None:
            return
        self._journal.update(message="preparing the container")

        def tick() -> None:
            self._refuse_if_stopped()
            self._journal.flush()

        self._enclosure = enclosure.prepare(self._paths, self._spec, tick)

    def _clear_enclosure(self) -> None:
        failure = enclosure.clear(self._paths)
        if failure is not None:
            self._journal.record("finding", message=failure)

    def _take_gpus(self) -> None:
        count = self._spec["gpus"]
        if not count:
            return
        job.require_gpus(count)
        ticket = gpu_tickets.Ticket(self._paths.root, self._paths.run_id)
        try:
            while True:
                self._refuse_if_stopped()
                position = ticket.position()
                if position == 1 and self._try_gpus(count):
                    return
                message = "waiting for %s, position %d" % (gpus.counted(count), position)
                if message != self._journal.state["message"]:
                    self._journal.update(message=message)
                self._journal.flush()
                time.sleep(_QUEUE_TICK_S)
        finally:
            ticket.close()

    def _try_gpus(self, count: int) -> bool:
        try:
            present = gpus.list_gpus()
            occupied = {uuid for uuid, _ in gpus.list_users()}
        except gpus.GpuError as error:
            say(str(error))
            return False
        for process in processes.scan():  # a killed supervisor's locks are free although its job still computes
            occupied.update(process.gpus)
        holding = gpu_tickets.take(self._paths.root, self._paths.run_id, count, present, occupied)
        if holding is None:
            return False
        self._holding = holding
        return True

    def _start(self) -> "subprocess.Popen[bytes]":
        self._attempt = _open_attempt(self._paths)
        self._journal.state["attempt"] = self._attempt
        secrets = job.read_secrets(self._paths, self._spec["job"].get("secrets") or [])
        job.require_environment(self._spec)
        environment = self._set_up(self._compose(secrets), secrets)
        self._prepare_watch()
        self._settle_earlier(environment)
        argv = self._spec["job"]["argv"] + self._resume_arguments()
        if self._tells_nothing:
            library.provide(self._paths)
        argv, environment = enclosure.wrap(
            self._paths, self._spec, self._enclosure, self._attempt, argv, environment, self._holding.gpus
        )
        self._refuse_if_stopped()
        began = post_mortem.before_start(self._paths)
        child = job.start(self._paths, argv, environment)
        started_at = time.time()
        self._leader = process_identity.identify(child.pid)
        indexes = [gpu["index"] for gpu in self._holding.gpus]
        record = {
            "attempt": self._attempt,
            "submission": self._submission,
            "supervisor": process_identity.identify(),
            "process": self._leader,
            "started_at": started_at,
            "gpus": indexes,
        }
        record.update(began)
        self._journal.write_json(self._paths.attempt(self._attempt, "run.json"), record)
        self._journal.update(state="running", message=None, gpus=indexes, started_at=started_at)
        return child

    def _set_up(self, environment: Dict[str, str], secrets: Dict[str, str]) -> Dict[str, str]:
        """Run the experiment's shell lines. A stop request ends them."""
        if not job_setup.lines_of(self._spec):
            return environment
        self._journal.update(message="running the setup of the experiment")

        def tick() -> None:
            self._refuse_if_stopped()
            self._journal.flush()

        try:
            return job_setup.apply(self._spec, environment, self._paths.work, secrets, tick)
        except AgentError as error:
            raise StartError("env_error", error.message)

    def _resume_arguments(self) -> List[str]:
        """Return the job's arguments for resuming, if there is a checkpoint to resume from."""
        return resumable.arguments(self._paths, self._watching.get("resume") or [], self._outbox(), self._journal)

    def _outbox(self) -> Outbox:
        return Outbox(self._paths, self._spec["outbox"], self._journal, self._checkpoint_watch)

    def _settle_earlier(self, environment: Dict[str, str]) -> None:
        """Take checkpoints that earlier attempts left, before the job chooses where to resume or deletes them."""
        resumable.put_back(self._paths, self._spec, environment, self._journal, self._outbox().finish_now)
        if self._checkpoint_watch is not None:
            self._checkpoint_watch.begin(self._refuse_if_stopped)
            self._progress = Progress(self._paths)  # checkpoints taken just now are not this attempt's progress

    @property
    def _tells_nothing(self) -> bool:
        """Whether the job does not write metrics for armada itself. The bundled payload does."""
        return bool(self._watching) and not self._spec.get("training")

    def _prepare_watch(self) -> None:
        """Create the watchers for a job that reports neither checkpoints nor heartbeats."""
        if self._watching.get("checkpoints"):
            self._checkpoint_watch = CheckpointWatch(self._paths, self._watching["checkpoints"], self._journal)
        if self._watching:
            if self._tells_nothing:
                self._metrics_watch = MetricsWatch(
                    self._paths,
                    self._attempt,
                    [str(pattern) for pattern in self._watching.get("metrics") or ()],
                    lambda message: self._journal.record("finding", message=message),
                    say,
                    self._journal.place.is_ours,
                )
            self._log_watch = LogWatch(self._paths, self._attempt, self._find_reached)

    def _finish_metrics(self) -> None:
        """Read the job's last metrics, and record its progress."""
        if self._metrics_watch is not None:
            self._metrics_watch.finish()
            if self._metrics_watch.step is not None and self._log_watch is not None and self._journal.place.is_ours():
                self._log_watch.look(at_once=True)

    def _find_reached(self) -> Reached:
        """Return the job's progress: by its training's metrics, otherwise by its last checkpoint."""
        saved = self._checkpoint_watch.last_step if self._checkpoint_watch is not None else None
        told = self._metrics_watch
        if told is None or told.step is None:
            return Reached(saved, told.total if told else None, told.count if told else 0)
        return Reached(told.step, told.total, told.count)

    def _watch(self, child: Child) -> Ending:
        while True:
            status = child.poll()
            if status is not None:
                return self._judge(self._note(status))
            stop_request = self._stop_request()
            if stop_request is not None:
                return self._stop(child, stop_request)
            self._tick()

    def _stop(self, child: Child, stop_request: Dict[str, Any]) -> Ending:
        grace_s = grace(stop_request, self._spec)
        self._journal.update(message="stopping: SIGTERM sent, SIGKILL after %.0f s" % grace_s)
        child.terminate()
        for process in self._members():
            if process.stat.is_suspended:
                processes.send(process, signal.SIGCONT)  # otherwise SIGTERM would reach it only after the grace period
        deadline = time.monotonic() + grace_s
        while child.poll() is None and time.monotonic() < deadline:
            # A second stop request may have a shorter grace period.
            grace_s = min(grace_s, grace(self._stop_request() or stop_request, self._spec))
            deadline = min(deadline, time.monotonic() + grace_s)
            self._tick()
        if child.poll() is None:
            self._sweep(LEFTOVER_GRACE_S)
        status = child.wait()
        if not job.is_done(self._spec, status):
            return self._stopped_ending().with_status(status)
        return self._judge(self._note(status))

    def _tick(self) -> None:
        if self._log_watch is not None and self._journal.place.is_ours():
            self._log_watch.look()
        length = self._log_size.look()
        if length is not None:
            self._journal.record("finding", message=length)
        self._budget.note(self._journal.place.is_ours)
        self._journal.flush()
        time.sleep(_TICK_S)

    def _members(self) -> List[processes.Process]:
        # A batch system that considered this attempt dead may have started the next one on the same machine.
        adopter = self.adopter if self.adopter == os.getppid() else None
        return processes.members(self._paths, self._leader, up_to=self._attempt, adopter=adopter)

    def _name_left(self, ending: Ending) -> None:
        """Record which processes an ended job left running, after a short wait in which most of them end on their own."""
        deadline = time.monotonic() + _LEFT_S
        left = self._members()
        while left and time.monotonic() < deadline:
            time.sleep(_TICK_S)
            left = self._members()
        if left:
            named = ", ".join("%s (%d)" % (process.name(), process.pid) for process in left[:_MOST_NAMED])
            named += " and %d more" % (len(left) - _MOST_NAMED) if len(left) > _MOST_NAMED else ""
            what = "the job's first process ended and left %d running, which were then ended: %s" % (len(left), named)
            self._journal.record("finding", message=what)
            ending.message = ending.message or what

    def _sweep(self, grace_s: float) -> None:
        processes.sweep(self._members, grace_s, self._report_stuck)

    def _report_stuck(self, pids: List[int]) -> None:
        shown = ", ".join(map(str, pids[:20]))
        self._journal.record("finding", message="SIGKILL does not end these processes: %s" % shown)


def supervise(root: str, run_id: str, submission: int) -> int:
    """Run a submission until its end in a process of its own, unless another supervisor does."""
    if os.fork():
        os._exit(0)  # the caller need not wait any longer; this process now has no parent that waits for it
    os.umask(0o077)
    paths = RunPaths(root, run_id)
    spec = files.read_json(paths.spec)
    if spec is None or not os.path.exists(paths.submission(submission, "claim.json")):
        say("submission %d of %s was never claimed" % (submission, run_id))
        return 1
    record = paths.submission(submission, "job.json")
    if not _wait_for_predecessor(paths, record):
        return 1
    enclosure.wake(spec)
    is_guarded = guardian.can_guard()
    supervisor = os.fork() if is_guarded else 0
    if supervisor:
        return guardian.watch(supervisor, paths, submission, Supervisor(paths, submission, spec).take_over)
    taken = {
        "submission": submission,
        "scheduler": "direct",
        "supervisor": process_identity.identify(),
        "guardian": process_identity.identify(os.getppid()) if is_guarded else None,
        "time": time.time(),
    }
    if not files.link_json(record, taken):
        return 0
    supervising = Supervisor(paths, submission, spec)
    supervising.adopter = os.getppid() if is_guarded else None
    supervising.run()
    return 0


def _wait_for_predecessor(paths: RunPaths, record: str) -> bool:
    """Wait for the former supervisor's lock, and hold it until this process ends. Without locks, only job.json decides."""
    deadline = time.monotonic() + _PREDECESSOR_S
    while not os.path.exists(record):
        if files.lock(paths.supervisor_lock, timeout_s=0.2) is not None:
            return True
        if time.monotonic() > deadline:
            say("the supervisor of an earlier submission is alive")
            return False
    return False


def _open_attempt(paths: RunPaths) -> int:
    number = (newest(paths.attempts()) or 0) + 1
    while True:
        folder = paths.attempt(number)
        try:
            files.make_folders(os.path.dirname(folder.rstrip("/")))
            os.mkdir(folder, 0o700)
            files.fsync_folder(os.path.dirname(folder.rstrip("/")))
            return number
        except FileExistsError:
            number += 1
