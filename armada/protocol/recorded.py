"""Facts and plans as the store holds them: what does not fit is not known.

They may be of an older armada, or of a job that wrote into its own folder; an answer, which is refused where it does not fit, is
`armada.protocol.facts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from armada.protocol.facts import GpuKind, Hardware
from armada.protocol.message import Count, Fitting, Line, Many, Message, Seconds, Text, Unsaid, line
from armada.protocol.scheduler import ClusterQueue


class RecordedUser(Message):
    """A process on a GPU; `run_id` None: a stranger's."""

    pid: Unsaid[Count] = None
    run_id: Unsaid[Text] = None


class RecordedGpu(Message):
    """What is known of a GPU."""

    index: Unsaid[Count] = None
    name: Unsaid[Annotated[str, line(60)]] = None
    compute_capability: Unsaid[Text] = None
    memory_total_bytes: Unsaid[float] = None
    memory_used_bytes: Unsaid[float] = None
    utilization: Unsaid[float] = None
    processes: Unsaid[Fitting[RecordedUser]] = None


class RecordedDisk(Message):
    """What is known of the disk that the root lies on."""

    total_bytes: Unsaid[float] = None
    free_bytes: Unsaid[float] = None


class RecordedWaiting(Message):
    """A run that waits for GPUs."""

    run_id: Unsaid[Text] = None
    since: Unsaid[float] = None


class RecordedQueue(ClusterQueue):
    """Who waits for GPUs, in order, and what a batch system said when it was asked."""

    waiting: Unsaid[Fitting[RecordedWaiting]] = None


class RecordedFacts(Message):
    """What is known of a host; `environments` None: it was not looked for them yet."""

    machine: Unsaid[Line] = None
    glibc: Unsaid[Line] = None
    gpus: Unsaid[Fitting[RecordedGpu]] = None
    disk: Unsaid[RecordedDisk] = None
    queue: Unsaid[RecordedQueue] = None
    environments: Unsaid[dict[str, Text]] = None

    @property
    def hardware(self) -> Hardware | None:
        """None where it is not known well enough to say which environment fits."""
        if self.machine is None or self.gpus is None:
            return None
        kinds = [GpuKind(gpu.name, gpu.compute_capability) for gpu in self.gpus if gpu.name is not None]
        return Hardware(self.machine, self.glibc, tuple(kinds)) if len(kinds) == len(self.gpus) else None


class RecordedJob(Message):
    """What is known of what a run starts."""

    argv: Unsaid[Many[Text]] = None
    secrets: Unsaid[Fitting[Text]] = None


class RecordedScheduler(Message):
    """What is known of a run's batch system."""

    kind: Unsaid[Text] = None
    quota: Unsaid[Many[Text]] = None


class RecordedSource(Message):
    """A file of data."""

    path: Unsaid[Text] = None


class RecordedData(Message):
    """What is known of a run's files of data."""

    train: Unsaid[Fitting[RecordedSource]] = None
    eval: Unsaid[Fitting[RecordedSource]] = None

    @property
    def files(self) -> list[str]:
        """The evaluation's first, then the training's."""
        return [source.path for source in (*(self.eval or ()), *(self.train or ())) if source.path]


class RecordedModel(Message):
    """Where a run's host had its model; None for one made on the spot."""

    path: Unsaid[Text] = None


class RecordedLora(Message):
    """What is known of an adapter."""

    quantize: Unsaid[Text] = None


class RecordedTraining(Message):
    """What is known of a training by the bundled payload; `lora` None: it trained every weight."""

    model: Unsaid[RecordedModel] = None
    data: Unsaid[RecordedData] = None
    lora: Unsaid[RecordedLora] = None
    precision: Unsaid[Text] = None


class RecordedExperiment(Message):
    """What is known of what a person asked for."""

    model: Unsaid[Text] = None
    data: Unsaid[RecordedData] = None


class RecordedSpec(Message):
    """What is known of a run's plan; `watch` None: the job announces its checkpoints by itself."""

    name: Unsaid[Text] = None
    task: Unsaid[Text] = None
    profile: Unsaid[Text] = None
    job: Unsaid[RecordedJob] = None
    scheduler: Unsaid[RecordedScheduler] = None
    stop_grace_s: Unsaid[Seconds] = None
    training: Unsaid[RecordedTraining] = None
    watch: Unsaid[dict[str, object]] = None
    sync: Unsaid[dict[str, object]] = None
    experiment: Unsaid[RecordedExperiment] = None


def recorded_facts(stored: object) -> RecordedFacts:
    """Read facts of the store; of anything but an object nothing is known."""
    return RecordedFacts.model_validate(stored) if isinstance(stored, Mapping) else RecordedFacts()


def recorded_spec(stored: object) -> RecordedSpec:
    """Read a plan of the store; of anything but an object nothing is known."""
    return RecordedSpec.model_validate(stored) if isinstance(stored, Mapping) else RecordedSpec()
