"""A simulated Slurm: what is true of its jobs, and what its programs answer, which need not be that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada_agent.engines import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.cluster import SimCluster

LIES = ("error", "empty", "cut", "said", "others", "old", "over")
"""It does not answer; rc 0 without a row; a half; rc 0 with an error text; somebody else's rows; an earlier answer; all has ended."""

_REMEMBERS_S = 300.0  # MinJobAge, as most sites have it
_SHORT = {"squeue", "scancel", "scontrol", "sbatch", "sacct"}


@dataclass(eq=False)
class BatchJob:
    """One job, as the controller truly has it."""

    id: str
    name: str
    run_id: str
    number: int
    state: str = "PENDING"
    reason: str = "Priority"
    ended_at: float | None = None
    goes_back: bool = False
    cancelled: bool = False
    forgotten: bool = False

    @property
    def lives(self) -> bool:
        return self.state in ("PENDING", "RUNNING")

    def row(self) -> str:
        node = "n1" if self.state == "RUNNING" else ""
        return f"{self.id}|{self.state}|{self.reason}|{node}|{self.name}\n"


@dataclass(eq=False)
class SimSlurm:
    """The controller of one cluster, its accounting, and what stands in for its programs."""

    cluster: SimCluster
    jobs: list[BatchJob] = field(default_factory=list)
    lie: str | None = None
    old: str = ""
    has_accounting: bool = True
    loses_answers: bool = False

    # What is true.

    def of_run(self, run_id: str) -> list[BatchJob]:
        return [job for job in self.jobs if job.run_id == run_id and job.lives]

    def shows(self, run_id: str) -> bool:
        """Whether what it answers just now has a living job of a run."""
        return any(job.run_id == run_id and job.lives and not job.forgotten for job in self.jobs)

    def find(self, job_id: str) -> BatchJob | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def start(self, job: BatchJob) -> None:
        job.state, job.reason = "RUNNING", "None"
        self.cluster.run_batch(job)

    def left(self, job: BatchJob, code: int) -> None:
        """Its supervisor has left the node."""
        if job.goes_back and not (job.cancelled or job.forgotten):
            job.state, job.reason, job.goes_back = "PENDING", "BeginTime", False
            return
        self.end(job, "CANCELLED" if job.cancelled else "FAILED" if code else "COMPLETED")

    def end(self, job: BatchJob, state: str) -> None:
        job.state, job.reason, job.ended_at = state, "None", self.cluster.world.clock

    def remember(self) -> None:
        """What is answered now is answered again later, where it lies so."""
        self.old = self._listed()

    # What it says.

    def run_tool(self, argv: Sequence[str], *_: object, **__: object) -> str:
        return self.run_tool_aloud(argv)[0]

    def run_tool_aloud(self, argv: Sequence[str], *_: object, **__: object) -> tuple[str, str]:
        """Stands in for `engines.run_tool_aloud`."""
        program = argv[0]
        if program not in _SHORT:
            raise EngineError(f"{program} is not installed on this host", missing=True)
        if self.lie == "error":
            raise EngineError(f"{program}: error: Unable to contact slurm controller (connect failure)")
        answer = getattr(self, f"_{program}")(list(argv[1:]))
        return answer if isinstance(answer, tuple) else (answer, "")

    def _listed(self) -> str:
        now = self.cluster.world.clock
        shown = [
            job
            for job in self.jobs
            if not job.forgotten and (job.ended_at is None or now - job.ended_at < _REMEMBERS_S)
        ]
        return "".join(job.row() for job in shown)

    def _squeue(self, _words: list[str]) -> str | tuple[str, str]:
        whole = self._listed()
        if self.lie == "empty":
            return ""
        if self.lie == "cut":
            return whole[: len(whole) // 2]
        if self.lie == "said":
            return "", "slurm_load_jobs error: Socket timed out on send/recv operation"
        if self.lie == "others":
            return "7|RUNNING|None|n9|somebody.elses\n"
        if self.lie == "old":
            return self.old
        if self.lie == "over":
            return "".join(
                job.row().replace("|RUNNING|", "|COMPLETED|") for job in self.jobs if not job.forgotten and job.lives
            )
        return whole

    def _sbatch(self, words: list[str]) -> str:
        name = next(word.partition("=")[2] for word in words if word.startswith("--job-name="))
        _, run_id, number = name.split(".")
        job = BatchJob(str(100 + len(self.jobs)), name, run_id, int(number))
        self.jobs.append(job)
        if self.loses_answers:
            self.loses_answers = False
            raise EngineError("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
        return f"{job.id}\n"

    def _scancel(self, words: list[str]) -> str:
        job = self.find(words[-1])
        if job is None or job.forgotten:
            raise EngineError(f"scancel: error: Kill job error on job id {words[-1]}: Invalid job id specified")
        if not job.lives:
            raise EngineError(
                f"scancel: error: Kill job error on job id {job.id}: Job/step already completing or completed"
            )
        if job.state == "PENDING":
            self.end(job, "CANCELLED")
            return ""
        job.cancelled = job.cancelled or "--batch" not in words
        self.cluster.signal_batch(job, 15)
        return ""

    def _scontrol(self, words: list[str]) -> str:
        if words[:2] == ["show", "config"]:
            return f"MinJobAge               = {_REMEMBERS_S:.0f} sec\n"
        job = self.find(words[-1])
        now = self.cluster.world.clock
        if job is None or job.forgotten or (job.ended_at is not None and now - job.ended_at >= _REMEMBERS_S):
            raise EngineError("slurm_load_jobs error: Invalid job id specified", refused=True)
        if words[0] == "requeue":
            job.goes_back = True
            return ""
        return f"JobId={job.id} JobName={job.name} JobState={job.state} Reason={job.reason} NodeList=(null)\n"

    def _sacct(self, words: list[str]) -> str:
        if not self.has_accounting:
            raise EngineError("Slurm accounting storage is disabled")
        name = next(word.partition("=")[2] for word in words if word.startswith("--name="))
        # What the controller forgot, accounting has as it was when it last heard of it.
        return "".join(f"{job.id}|{job.state}|0:0|Unknown|n1|{job.name}\n" for job in self.jobs if job.name == name)
