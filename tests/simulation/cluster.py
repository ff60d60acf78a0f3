"""A simulated cluster: a login node with the agent, worker nodes with the real batch supervisor, one disk, a scheduler that may lie."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Self

from armada_agent.engines.slurm import POLL_S
from armada_agent.paths import RunPaths
from armada_agent.records.ending import ENDED
from armada_agent.records.stop_request import concerns, read_stop_request
from armada_agent.supervisor import batch
from armada_agent.supervisor.batch import _FENCE_S
from armada_agent.verdicts import liveness

from tests.simulation.batch_system import BatchJob, BatchSystem
from tests.simulation.breaking import Killed
from tests.simulation.host import Scheduler, SimHost, as_a_process, current
from tests.simulation.htcondor import SimHtcondor
from tests.simulation.slurm import SimSlurm
from tests.simulation.supervising import Supervision, new_pid

if TYPE_CHECKING:
    from armada_agent.host import processes

    from tests.simulation.supervising import Job


@dataclass(eq=False)
class SimCluster(SimHost):
    """What its login node restarts, its workers do not notice; no process of theirs is in its table."""

    scheduler: Scheduler = "slurm"
    batch_system: BatchSystem = field(init=False)
    starting: BatchJob | None = None
    early_signal: int = 0
    """What the next supervisor is sent before it starts its job."""
    on_worker: bool = False
    """A supervisor computes: all work on the same node, where each could harm the others most."""
    sets_up: bool = False
    """From now on what a job needs takes its time: its supervisor says so, and has yet to start it."""
    steps: list[BatchSupervision] = field(default_factory=list)
    """The supervisors that compute now: one may wait while another does."""
    is_one_machine: bool = False
    """Its login node is its worker: the agent sees the processes of jobs."""

    def __post_init__(self) -> None:
        self.batch_system = SimSlurm(self) if self.scheduler == "slurm" else SimHtcondor(self)

    def waits(self, run_id: str) -> bool:
        return any(job.waits and not self._is_over(job) for job in self.batch_system.of_run(run_id))

    def is_stopped(self, run_id: str) -> bool:
        paths = RunPaths(str(self.root), run_id)
        asked = read_stop_request(paths)
        return asked is not None and all(concerns(asked, job.number) for job in self.batch_system.of_run(run_id))

    def misreports(self, run_id: str) -> bool:
        put_back = [job for job in self.batch_system.of_run(run_id) if job.put_back_at is not None]
        told_s = POLL_S
        if self.batch_system.hides_jobs:  # it is asked by the job's id, and not again while the answer counts
            told_s += liveness.ask_again_after_s(self.world.clock - self.world.begun_at)
        return any(self.world.clock - max(job.put_back_at or 0.0, job.cleared_at) < told_s for job in put_back)

    def _is_over(self, job: BatchJob) -> bool:
        """Whether a job leaves again as soon as it starts: the end of its submission is written, or another follows it."""
        for folder in self.folders(job.run_id):
            claimed = [int(at.parent.name) for at in folder.glob("submissions/*/claim.json")]
            if max(claimed, default=0) > job.number:
                return True
            newest = max((int(at.name) for at in folder.glob("attempts/*")), default=0)
            for record in (folder / "state.json", folder / f"attempts/{newest}/exit.json"):
                with contextlib.suppress(OSError):
                    told = json.loads(record.read_bytes())
                    if told["state"] in ENDED and told["submission"] == job.number:
                        return True
        return False

    def power_cut(self, chance: Random | None = None) -> None:
        self.start_anew()  # its disk is another machine's

    def processes(self) -> list[processes.Process]:
        return super().processes() if self.on_worker or self.is_one_machine else []

    def clear(self, paths: RunPaths, submission: int) -> None:
        from armada_agent.supervisor import cleanup

        with as_a_process(paths):
            cleanup.clear(paths.root, paths.run_id, submission)

    # Its workers.

    def run_batch(self, job: BatchJob) -> None:
        """A worker runs the job file: the supervisor takes the submission up, or leaves."""
        self.starting = job
        before = len(self.jobs)
        try:
            with self.computes():
                code = batch.supervise(str(self.root), job.run_id, job.number, job.id)
        except Killed:
            for begun in self.jobs[before:]:
                begun.die(137)
            self.node_dies(job)
            self.batch_system.left(job, 1)
            raise
        finally:
            self.starting = None
        if job.state == "RUNNING" and not any(one.job is job for one in self.batch()):
            self.batch_system.left(job, code)

    def batch(self) -> list[BatchSupervision]:
        """The supervisors whose jobs the batch system knows to run."""
        return [one for one in self.supervisions if isinstance(one, BatchSupervision) and not one.given_up]

    def given_up(self) -> list[BatchSupervision]:
        """Those on nodes that the batch system believes dead."""
        return [one for one in self.supervisions if isinstance(one, BatchSupervision) and one.given_up]

    def shows_a_later_attempt(self, one: BatchSupervision) -> bool:
        """Whether the disk tells of an attempt after this one; not if the run's folder was removed, or put back to before it."""
        there = (int(at.name) for at in self.run_folder(one.run_id).glob("attempts/*")) if self.mounted else ()
        return max(there, default=0) > one.attempt

    def has_given_up(self, job: Job) -> bool:
        return any(one.child is job for one in self.given_up())

    def let_former_notice(self) -> None:
        """While a supervisor waits, those on nodes that are believed dead look whether the run is still theirs."""
        waiting = self.world.supervisor_pid
        for one in [each for each in self.given_up() if each not in self.steps]:
            self.world.supervisor_pid = one.pid
            try:
                one.step()
            except Killed:
                one.die()
            finally:
                self.world.supervisor_pid = waiting

    def signal_batch(self, job: BatchJob, number: int) -> None:
        for one in self.batch():
            if one.job is job:
                one.signal(number)

    def lost(self) -> list[BatchJob]:
        """Jobs whose node is dead while the batch system has them running."""
        alive = [one.job for one in self.batch()]
        return [job for job in self.batch_system.jobs if job.state == "RUNNING" and job not in alive]

    def node_dies(self, job: BatchJob) -> None:
        """The worker loses its power; the controller has yet to notice."""
        for one in self.batch():
            if one.job is job:
                one.lose()


class WorkersTime:
    """Stands in for `time` in the batch supervisor: it waits in no time, and while it does its own signal may come."""

    def __init__(self) -> None:
        self._waited_s = 0.0

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return self._waited_s

    def sleep(self, seconds: float) -> None:
        before = self._waited_s
        self._waited_s += seconds
        cluster = current()
        assert isinstance(cluster, SimCluster)
        for one in cluster.batch():
            if one.late_signal and one.pid == cluster.world.supervisor_pid:
                one.signal(one.late_signal)
        if before // _FENCE_S != self._waited_s // _FENCE_S:
            cluster.let_former_notice()


def controller() -> BatchSystem:
    """The batch system of the cluster whose agent or supervisor computes now."""
    cluster = current()
    assert isinstance(cluster, SimCluster)
    return cluster.batch_system


class BatchSupervision(Supervision):
    """A living supervisor on a worker."""

    job: BatchJob
    given_up: bool = False
    was_killed: bool = False
    late_signal: int = 0
    """What reaches it only while it waits for it."""

    @classmethod
    def take_up(cls, real: Any) -> Self:
        """Stands in for `BatchSupervisor.run`, up to the job's start."""
        host = current()
        assert isinstance(host, SimCluster)
        assert host.starting is not None
        made = cls(host, real._paths, real._submission, real._spec, new_pid(), real)  # noqa: SLF001
        made.job = host.starting
        host.supervisions.append(made)
        if host.early_signal:
            made.job.goes_back |= host.early_signal == signal.SIGTERM  # its node is taken from it
            made.signal(host.early_signal)
            host.early_signal = 0
        if host.sets_up:
            real._journal.update()  # noqa: SLF001
            real._journal.update(message="running the setup of the experiment")  # noqa: SLF001
        else:
            made._start()
        return made

    def begin_after_setup(self) -> None:
        """Its job has what it needs."""
        with self.host.computes():
            self.host.world.supervisor_pid = self.pid
            self._start()

    def step(self) -> None:
        assert isinstance(self.host, SimCluster)
        self._real._looked_at = float("-inf")  # noqa: SLF001  # there is time for it between any two of our steps
        if self.child is None and self._real._stop_request() is not None:  # noqa: SLF001
            self._real._conclude(self._real._stopped_ending())  # noqa: SLF001
            self.leave()
            return
        was_on_worker, self.host.on_worker = self.host.on_worker, True
        self.host.steps.append(self)
        try:
            super().step()
        finally:
            self.host.steps.remove(self)
            self.host.on_worker = was_on_worker

    def signal(self, number: int) -> None:
        self._real._note_signal(number, None)  # noqa: SLF001

    @property
    def has_signal(self) -> bool:
        real = self._real
        return bool(real._terminated_by) or real._stop_request() is not None  # noqa: SLF001

    @property
    def can_resume(self) -> bool:
        return bool(self._spec.get("watch")) or self._spec["task"] == "sft"

    def leave(self) -> None:
        """It has concluded: the job goes with it, back into the queue or not."""
        super().leave()
        self._end_job(143)  # a batch system ends what is left of a job
        state = self._real.state
        code = 0 if state in ("succeeded", "cancelled") else self._real.exit_code or 1
        if not self.given_up:
            self._batch_system.left(self.job, code)

    def lose(self) -> None:
        """Supervisor and job are no more, and nobody has said so."""
        super().leave()
        self._end_job(137)

    def _end_job(self, status: int) -> None:
        if self.child is not None and self.child.alive:
            self.child.die(status)

    def die(self) -> None:
        """kill -9 on a worker: the batch system ends what is left of the job."""
        self.was_killed = True
        self.lose()
        if not self.given_up:
            self._batch_system.left(self.job, 1)

    def die_alone(self) -> None:
        """kill -9 where the batch system does not find the job's processes: it says that the job failed, and the job goes on."""
        self.was_killed = True
        super().leave()
        self._batch_system.left(self.job, 1)

    @property
    def _batch_system(self) -> BatchSystem:
        assert isinstance(self.host, SimCluster)
        return self.host.batch_system


def job_file(scheduler: str, run_id: str) -> dict[str, str]:
    """What home renders for a batch system, as far as anything here reads it."""
    name = {"slurm": "job.sbatch", "htcondor": "job.sub"}[scheduler]
    return {f"launch/{name}": f"# armada_submission {run_id}\n"}
