"""What every simulated batch system has: its jobs, as they truly are, and programs whose answers need not be that."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from armada_agent.engines.engine import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.cluster import SimCluster

WAITING = ("PENDING", "HELD")


@dataclass(eq=False)
class BatchJob:
    """One job, as the batch system truly has it."""

    id: str
    name: str
    run_id: str
    number: int
    state: str = "PENDING"
    reason: str = "Priority"
    ended_at: float | None = None
    goes_back: bool = False
    taken_for_good: bool = False
    """It was preempted where the site does not put such jobs back."""
    cancelled: bool = False
    forgotten: bool = False
    cleared_at: float = 0.0
    put_back_at: float | None = None
    """When its node was noticed to be dead."""

    @property
    def waits(self) -> bool:
        return self.state in WAITING

    @property
    def lives(self) -> bool:
        return self.waits or self.state == "RUNNING"


@dataclass(eq=False)
class BatchSystem(abc.ABC):
    """One batch system, and what stands in for its programs."""

    LIES: ClassVar[tuple[str, ...]]
    PROGRAMS: ClassVar[frozenset[str]]

    cluster: SimCluster
    jobs: list[BatchJob] = field(default_factory=list)
    lie: str | None = None
    loses_answers: bool = False
    refuses: Callable[[], None] | None = None
    """The next job is refused, and this happens while its submitter waits for that answer."""
    has_accounting: bool = True

    # What is true.

    def of_run(self, run_id: str) -> list[BatchJob]:
        return [job for job in self.jobs if job.run_id == run_id and job.lives]

    def find(self, job_id: str) -> BatchJob | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def refuse(self) -> None:
        """Refuse a job, if the next one is to be.

        Raises:
            EngineError: It is.
        """
        meanwhile, self.refuses = self.refuses, None
        if meanwhile is not None:
            meanwhile()
            raise EngineError("error: Batch job submission failed: Invalid qos specification", refused=True)

    def submit(self, job_id: str, name: str) -> BatchJob:
        """Take a job; whoever hands it over may not hear of that."""
        _, run_id, number = name.split(".")
        job = BatchJob(job_id, name, run_id, int(number))
        self.jobs.append(job)
        return job

    def start(self, job: BatchJob) -> None:
        job.state, job.reason, job.goes_back = "RUNNING", "None", False  # what was to end a former attempt is past
        self.cluster.run_batch(job)

    def preempt(self, job: BatchJob) -> None:
        """Somebody more important needs its node: it gets its signal, and comes back later."""
        job.goes_back = True
        self.cluster.signal_batch(job, 15)

    def end(self, job: BatchJob, state: str) -> None:
        job.state, job.reason, job.ended_at = state, "None", self.cluster.world.clock

    @abc.abstractmethod
    def left(self, job: BatchJob, code: int) -> None:
        """Its supervisor has left the node."""

    @abc.abstractmethod
    def hold(self, job: BatchJob) -> None:
        """Keep a job that waits from starting, until somebody releases it."""

    @abc.abstractmethod
    def remove(self, job: BatchJob) -> None:
        """Take a job that waits out of the queue, as an administrator."""

    def requeue_ended(self, job: BatchJob) -> None:  # noqa: B027  # HTCondor never has a job again that left its queue
        """Put a job that ended back into the queue, as an administrator."""

    @abc.abstractmethod
    def lose_node(self, job: BatchJob, *, for_good: bool) -> None:
        """It notices that a job's node is no more: the job goes back, or not, where the site wants that."""

    # What it says.

    def hides_end(self, run_id: str) -> bool:
        """Whether nothing that can be read without a question to it shows that a job of a run ended."""
        return False

    @abc.abstractmethod
    def remember(self) -> None:
        """What is answered now is answered again later, where it lies so."""

    def set_lie(self, lie: str | None) -> None:
        self.lie = lie

    def believed_after_s(self) -> float | None:
        """How long it has to say what it says now before that is believed against a silent job; None: never."""
        return None

    @property
    def hides_jobs(self) -> bool:
        """Whether its answers lack jobs that it has."""
        return self.lie in {"empty", "cut", "others", "old"}

    def run_tool(self, argv: Sequence[str], *_: object, **__: object) -> str:
        return self.run_tool_aloud(argv)[0]

    def run_tool_aloud(self, argv: Sequence[str], *_: object, **__: object) -> tuple[str, str]:
        """Stands in for `engines.run_tool_aloud`."""
        program = argv[0]
        if program not in self.PROGRAMS:
            raise EngineError(f"{program} is not installed on this host", missing=True)
        if self.lie == "error":
            raise EngineError(f"{program}: error: Unable to contact the controller (connect failure)")
        answer = getattr(self, f"_{program}")(list(argv[1:]))
        return answer if isinstance(answer, tuple) else (answer, "")
