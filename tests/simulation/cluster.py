"""A simulated cluster: a login node with the agent, worker nodes with the real batch supervisor, one disk, and a Slurm that may lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from armada_agent import batch
from armada_agent.paths import RunPaths

from tests.simulation.host import SimHost, current
from tests.simulation.slurm import BatchJob, SimSlurm
from tests.simulation.supervising import Supervision, new_pid

if TYPE_CHECKING:
    from armada_agent import processes


@dataclass(eq=False)
class SimCluster(SimHost):
    """What its login node restarts, its workers do not notice; no process of theirs is in its table."""

    slurm: SimSlurm = field(init=False)
    starting: BatchJob | None = None

    def __post_init__(self) -> None:
        self.slurm = SimSlurm(self)

    @property
    def scheduler(self) -> Literal["direct", "slurm"]:
        return "slurm"

    def waits(self, run_id: str) -> bool:
        return any(job.state == "PENDING" for job in self.slurm.of_run(run_id))

    def power_cut(self) -> None:
        self.boot += 1

    def processes(self) -> list[processes.Process]:
        return []

    def clear(self, paths: RunPaths, submission: int) -> None:
        from armada_agent import aftermath

        aftermath.clear(paths.root, paths.run_id, submission)

    # Its workers.

    def run_batch(self, job: BatchJob) -> None:
        """A worker runs the job file: the supervisor takes the submission up, or leaves."""
        self.starting = job
        with self.computes():
            code = batch.supervise(str(self.root), job.run_id, job.number, job.id)
        self.starting = None
        if not any(one.job is job for one in self.batch()):
            self.slurm.left(job, code)

    def batch(self) -> list[BatchSupervision]:
        return [one for one in self.supervisions if isinstance(one, BatchSupervision)]

    def signal_batch(self, job: BatchJob, number: int) -> None:
        for one in self.batch():
            if one.job is job:
                one.signal(number)

    def node_dies(self, job: BatchJob) -> None:
        """The worker loses its power; the controller has yet to notice."""
        for one in self.batch():
            if one.job is job:
                one.lose()


def controller() -> SimSlurm:
    """The Slurm of the cluster whose agent or supervisor computes now."""
    cluster = current()
    assert isinstance(cluster, SimCluster)
    return cluster.slurm


class BatchSupervision(Supervision):
    """A living supervisor on a worker."""

    job: BatchJob

    @classmethod
    def take_up(cls, real: Any) -> Self:
        """Stands in for `BatchSupervisor.run`, up to the job's start."""
        host = current()
        assert isinstance(host, SimCluster)
        assert host.starting is not None
        made = cls(host, real._paths, real._submission, real._spec, new_pid(), real)  # noqa: SLF001
        made.job = host.starting
        host.supervisions.append(made)
        made._start()
        return made

    def signal(self, number: int) -> None:
        self._real._note_signal(number, None)  # noqa: SLF001

    @property
    def has_signal(self) -> bool:
        real = self._real
        return bool(real._terminated_by) or real._wish() is not None  # noqa: SLF001

    @property
    def can_resume(self) -> bool:
        return bool(self._spec.get("watch"))

    def leave(self) -> None:
        """It has concluded: the job goes with it, back into the queue or not."""
        super().leave()
        for job in self.host.jobs_of(self.run_id):
            job.die(143)  # Slurm ends what is left of a step
        state = self._real.state
        code = 0 if state in ("succeeded", "cancelled") else self._real.exit_code or 1
        self._slurm.left(self.job, code)

    def lose(self) -> None:
        """Supervisor and job are no more, and nobody has said so."""
        super().leave()
        for job in self.host.jobs_of(self.run_id):
            job.die(137)

    def die(self) -> None:
        """kill -9 on a worker: Slurm ends what is left of the step, and the job with it."""
        self.lose()
        self._slurm.left(self.job, 1)

    @property
    def _slurm(self) -> SimSlurm:
        assert isinstance(self.host, SimCluster)
        return self.host.slurm


def job_file(run_id: str) -> dict[str, str]:
    """What home renders for Slurm, as far as anything here reads it."""
    return {"launch/job.sbatch": f"#!/bin/bash\n# armada_submission {run_id}\n"}
