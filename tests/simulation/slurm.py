"""A simulated Slurm: what its programs answer, which need not be what is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armada_agent.engines.engine import EngineError
from armada_agent.verdicts.liveness import ALIVE_S, SILENT_S

from tests.simulation.batch_system import BatchJob, BatchSystem

_REMEMBERS_S = 300.0  # MinJobAge, as most sites have it
_CLEARS_FOR_S = 45.0  # KillWait and an epilog: until then Slurm 24 shows a job that it puts back as FAILED


@dataclass(eq=False)
class SimSlurm(BatchSystem):
    """The controller of one cluster, its accounting, and what stands in for its programs.

    It may not answer; answer rc 0 without a row; with a half; with an error text; with somebody else's rows; as it did earlier;
    that all has ended.
    """

    LIES: ClassVar = ("error", "empty", "cut", "said", "others", "old", "over")
    PROGRAMS: ClassVar = frozenset({"squeue", "scancel", "scontrol", "sbatch", "sacct"})

    old: str = ""

    # What is true.

    def left(self, job: BatchJob, code: int) -> None:
        if job.goes_back and not (job.cancelled or job.forgotten):
            job.state, job.reason, job.goes_back = "PENDING", "BeginTime", False
            job.cleared_at = self.cluster.world.clock + _CLEARS_FOR_S
            return
        taken = "PREEMPTED" if job.taken_for_good else "FAILED"
        self.end(job, "CANCELLED" if job.cancelled else taken if code else "COMPLETED")

    def hold(self, job: BatchJob) -> None:
        job.reason = "JobHeldAdmin"

    def remove(self, job: BatchJob) -> None:
        self.end(job, "CANCELLED")

    def requeue_ended(self, job: BatchJob) -> None:
        if not job.forgotten and job.ended_at is not None and not self._is_purged(job):
            job.state, job.reason, job.ended_at = "PENDING", "BeginTime", None
            job.cancelled = job.goes_back = job.taken_for_good = False
            job.put_back_at = self.cluster.world.clock

    def lose_node(self, job: BatchJob, *, for_good: bool) -> None:
        if for_good:
            self.end(job, "NODE_FAIL")
        else:
            job.goes_back = True
            self.left(job, 1)

    # What it says.

    def remember(self) -> None:
        """What it says while it clears a node is left out: an end that is said for longer than a minute is one."""
        self.old = self._listed(is_clearing=False)

    def believed_after_s(self) -> float | None:
        return ALIVE_S if self.lie == "over" else SILENT_S

    def _listed(self, *, is_clearing: bool = True) -> str:
        shown = [job for job in self.jobs if not job.forgotten and not self._is_purged(job)]
        return "".join(_row(job, self._shown(job) if is_clearing else job.state) for job in shown)

    def _is_purged(self, job: BatchJob) -> bool:
        return job.ended_at is not None and self.cluster.world.clock - job.ended_at >= _REMEMBERS_S

    def _shown(self, job: BatchJob) -> str:
        clears = job.state == "PENDING" and self.cluster.world.clock < job.cleared_at
        return "FAILED" if clears else job.state

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
                _row(job, "COMPLETED" if job.state == "RUNNING" else job.state)
                for job in self.jobs
                if not job.forgotten and job.lives
            )
        return whole

    def _sbatch(self, words: list[str]) -> str:
        name = next(word.partition("=")[2] for word in words if word.startswith("--job-name="))
        self.refuse()
        job = self.submit(str(100 + len(self.jobs)), name)
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
        if job is None or job.forgotten or self._is_purged(job):
            raise EngineError("slurm_load_jobs error: Invalid job id specified", refused=True)
        if words[0] == "requeue":
            job.goes_back = True
            self.cluster.signal_batch(job, 15)  # whatever runs under that id ends, whoever asks
            return ""
        return f"JobId={job.id} JobName={job.name} JobState={self._shown(job)} Reason={job.reason} NodeList=(null)\n"

    def _sacct(self, words: list[str]) -> str:
        if not self.has_accounting:
            raise EngineError("Slurm accounting storage is disabled")
        name = next(word.partition("=")[2] for word in words if word.startswith("--name="))
        # What the controller forgot, accounting has as it was when it last heard of it.
        return "".join(f"{job.id}|{job.state}|0:0|Unknown|n1|{job.name}\n" for job in self.jobs if job.name == name)


def _row(job: BatchJob, state: str) -> str:
    node = "n1" if state == "RUNNING" else ""
    return f"{job.id}|{state}|{job.reason}|{node}|{job.name}\n"
