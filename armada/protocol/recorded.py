"""Facts and plans as the store holds them: an invalid value counts as unknown.

An older armada, or a job that changed its own folder, may have written them. In contrast, an invalid answer of a host
is refused; see
`armada.protocol.facts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from armada.protocol.facts import GpuKind, Hardware
from armada.protocol.message import Count, Fitting, Line, Many, Message, Positive, Seconds, Text, Unsaid, line
from armada.protocol.scheduler import ClusterQueue


class RecordedUser(Message):
    """A process on a GPU. `run_id` is None if it does not belong to armada."""

    pid: Unsaid[Count] = None
    run_id: Unsaid[Text] = None


class RecordedGpu(Message):
    """A recorded GPU."""

    index: Unsaid[Count] = None
    name: Unsaid[Annotated[str, line(60)]] = None
    compute_capability: Unsaid[Text] = None
    memory_total_bytes: Unsaid[float] = None
    memory_used_bytes: Unsaid[float] = None
    utilization: Unsaid[float] = None
    processes: Unsaid[Fitting[RecordedUser]] = None
    slices: Unsaid[Many[Line]] = None


class RecordedDisk(Message):
    """The recorded file system of the root."""

    total_bytes: Unsaid[float] = None
    free_bytes: Unsaid[float] = None


class RecordedWaiting(Message):
    """A run that waits for GPUs."""

    run_id: Unsaid[Text] = None
    since: Unsaid[float] = None


class RecordedQueue(ClusterQueue):
    """The recorded queue for GPUs, in order, and the recorded answer of a batch system."""

    waiting: Unsaid[Fitting[RecordedWaiting]] = None


class RecordedFacts(Message):
    """The recorded facts of a host. `environments` is None if they were not listed yet."""

    machine: Unsaid[Line] = None
    glibc: Unsaid[Line] = None
    gpus: Unsaid[Fitting[RecordedGpu]] = None
    gpu_trouble: Unsaid[Text] = None
    amd_gpus: Unsaid[Count] = None
    disk: Unsaid[RecordedDisk] = None
    queue: Unsaid[RecordedQueue] = None
    environments: Unsaid[dict[str, Text]] = None

    @property
    def hardware(self) -> Hardware | None:
        """Return the properties that select an environment; None if they are not known well enough."""
        if self.machine is None or self.gpus is None:
            return None
        kinds = [
            GpuKind(gpu.name, gpu.compute_capability, gpu.memory_total_bytes, gpu.slices or ())
            for gpu in self.gpus
            if gpu.name is not None
        ]
        return Hardware(self.machine, self.glibc, tuple(kinds)) if len(kinds) == len(self.gpus) else None


class RecordedJob(Message):
    """The recorded job of a run."""

    argv: Unsaid[Many[Text]] = None
    secrets: Unsaid[Fitting[Text]] = None


class RecordedScheduler(Message):
    """The recorded batch system of a run."""

    kind: Unsaid[Text] = None
    quota: Unsaid[Many[Text]] = None


class RecordedSource(Message):
    """A data file."""

    path: Unsaid[Text] = None


class RecordedData(Message):
    """The recorded data files of a run."""

    train: Unsaid[Fitting[RecordedSource]] = None
    eval: Unsaid[Fitting[RecordedSource]] = None

    @property
    def files(self) -> list[str]:
        """Return the files' paths, those for evaluation first, then those for training."""
        return [source.path for source in (*(self.eval or ()), *(self.train or ())) if source.path]


class RecordedModel(Message):
    """The model's folder on a run's host; None for a model that is created from a configuration."""

    path: Unsaid[Text] = None


class RecordedLora(Message):
    """The recorded settings of an adapter."""

    quantize: Unsaid[Text] = None


class RecordedBest(Message):
    """What a run's best checkpoint is the best by."""

    name: Unsaid[Annotated[str, line(100)]] = None
    goal: Unsaid[Literal["min", "max"]] = None


class RecordedTrain(Message):
    """What a run's processes divide among themselves, by the experiment's word, and what its best is the best by."""

    sharding: Unsaid[Text] = None
    best_metric: Unsaid[RecordedBest] = None


class RecordedBatch(Message):
    """How many processes trained."""

    processes: Unsaid[Positive] = None


class RecordedTraining(Message):
    """The recorded settings of a training by the bundled payload. `lora` is None if it trains every weight."""

    train: Unsaid[RecordedTrain] = None
    batch: Unsaid[RecordedBatch] = None
    model: Unsaid[RecordedModel] = None
    data: Unsaid[RecordedData] = None
    lora: Unsaid[RecordedLora] = None
    precision: Unsaid[Text] = None


class RecordedContainer(Message):
    """The recorded image of a run. `digest` is None if no registry has it."""

    image: Unsaid[Text] = None
    id: Unsaid[Text] = None
    digest: Unsaid[Text] = None

    @property
    def reference(self) -> str | None:
        """The name that means the same image at any time."""
        return self.digest or self.id or self.image


class RecordedExperiment(Message):
    """The recorded experiment."""

    model: Unsaid[Text] = None
    data: Unsaid[RecordedData] = None


class RecordedSweep(Message):
    """The sweep that a run is a cell of."""

    label: Unsaid[Text] = None
    values: Unsaid[dict[str, object]] = None


class RecordedAdoption(Message):
    """What does not count of a plan that `armada recover` found on a host: see `armada.verdicts.adoption`."""

    unconfirmed_secrets: Unsaid[Fitting[Text]] = None


class RecordedSpec(Message):
    """The recorded plan of a run. `watch` is None if the job announces its checkpoints itself, `container` if there was none."""

    name: Unsaid[Text] = None
    task: Unsaid[Text] = None
    profile: Unsaid[Text] = None
    job: Unsaid[RecordedJob] = None
    scheduler: Unsaid[RecordedScheduler] = None
    stop_grace_s: Unsaid[Seconds] = None
    training: Unsaid[RecordedTraining] = None
    container: Unsaid[RecordedContainer] = None
    watch: Unsaid[dict[str, object]] = None
    sync: Unsaid[dict[str, object]] = None
    experiment: Unsaid[RecordedExperiment] = None
    sweep: Unsaid[RecordedSweep] = None
    adopted: Unsaid[RecordedAdoption] = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The variables of home's environment that the job needs."""
        return tuple((self.job.secrets if self.job is not None else None) or ())

    @property
    def unconfirmed_secrets(self) -> tuple[str, ...]:
        """Those of them that only the host names: their values are sent once a person says so."""
        return tuple((self.adopted.unconfirmed_secrets if self.adopted is not None else None) or ())


def recorded_facts(stored: object) -> RecordedFacts:
    """Parse facts from the store. A value that is not an object gives empty facts."""
    return RecordedFacts.model_validate(stored) if isinstance(stored, Mapping) else RecordedFacts()


def recorded_spec(stored: object) -> RecordedSpec:
    """Parse a plan from the store. A value that is not an object gives an empty plan."""
    return RecordedSpec.model_validate(stored) if isinstance(stored, Mapping) else RecordedSpec()
