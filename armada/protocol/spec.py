"""spec.json, a run's plan: a launch writes it, and `run.create` carries it. `armada.protocol.recorded` parses recorded plans."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_serializer

from armada.protocol.homes import AskingHome
from armada.protocol.message import (
    MAY_MISS,
    EnvironmentKey,
    Many,
    Message,
    Positive,
    Request,
    RunId,
    Seconds,
    Size,
    Text,
    UnixTime,
    any_word,
)
from armada.protocol.runs import Created, Secrets

Task = Annotated[
    str,
    any_word(
        "sft", "pretrain", "dpo", "reward", "kto", "grpo", "distill", "script", "command", "merge", "prepare", "bench"
    ),
]


class JobLink(Message):
    """A content of the host and its name in the job's working folder. `outside`: it is a path of the host itself instead."""

    content: Text
    name: Text
    outside: Annotated[bool, MAY_MISS] = False


class JobSpec(Message):
    """The job. `data`: the links to its data and files. `setup`: shell lines that a login shell runs before it."""

    argv: Annotated[Many[Text], Field(min_length=1)]
    env: dict[str, Text]
    code: Text | None
    secrets: Many[Text]
    data: Annotated[Many[JobLink], MAY_MISS] = ()
    setup: Annotated[Many[Text], MAY_MISS] = ()


class EnvironmentSpec(Message):
    """The Python environment. `flash_attn`: which version it has, or why it has none.

    `active`: its programs come first on the job's PATH, and VIRTUAL_ENV names it, or CONDA_PREFIX for an environment of
    conda.
    `existing`: the user made it, and it is known only by its `path`.
    """

    key: EnvironmentKey
    path: Text
    flash_attn: Annotated[Text, MAY_MISS] = ""
    active: Annotated[bool, MAY_MISS] = False
    existing: Annotated[bool, MAY_MISS] = False
    conda: Annotated[bool, MAY_MISS] = False
    python: Annotated[Text, MAY_MISS] = ""


class ContainerSpec(Message):
    """The container in which the job runs.

    `id` and `digest` name what `image` was at the launch; every attempt uses it. `digest` is missing if no registry has
    the image.
    """

    image: Text
    tool: Annotated[str, any_word("podman", "docker")]
    id: Annotated[Text | None, MAY_MISS] = None
    digest: Annotated[Text | None, MAY_MISS] = None


class SchedulerSpec(Message):
    """The settings of the host's batch system that the agent needs.

    `max_attempts_without_progress`: how many attempts in a row may reach the time limit without a newer checkpoint.
    `quota`: the site's own command that prints the rest of an allowance.
    """

    kind: Literal["slurm", "htcondor"]
    poll_s: Annotated[float, Field(gt=0)]
    max_retries: Annotated[int, Field(ge=0)]
    requeue_at_time_limit: bool
    max_attempts_without_progress: Annotated[Positive, MAY_MISS] = 2
    quota: Annotated[Many[Text], MAY_MISS] = ()


class OutboxSpec(Message):
    """How many checkpoints the host keeps for home, and below how much free disk space it deletes intermediate ones."""

    keep: Positive
    disk_floor_bytes: Size


class CheckpointPattern(Message):
    """The pattern of checkpoints of a user's own job, and for how long a checkpoint must not change."""

    pattern: Text
    quiet_s: Seconds


class WatchSpec(Message):
    """How a job that reports nothing is watched.

    `resume`: its arguments to continue from a checkpoint. `metrics`: the tables in its working folder that contain its
    curves.
    """

    checkpoints: CheckpointPattern | None
    resume: Many[Text]
    metrics: Annotated[Many[Text], MAY_MISS] = ()


class ProjectSpec(Message):
    """The revision of the project's code, and whether it had uncommitted changes."""

    revision: Text | None
    dirty: bool


class HubData(Message):
    """A dataset of the hub."""

    id: Text
    split: Annotated[Text, MAY_MISS] = ""
    config: Annotated[Text, MAY_MISS] = ""
    revision: Annotated[Text, MAY_MISS] = ""


class TrainedData(Message):
    """The source of a training's rows: one of `hub`, `hook` and `path`, a file on the host; and how they are written."""

    hub: Annotated[HubData | None, MAY_MISS] = None
    hook: Annotated[Text, MAY_MISS] = ""
    path: Annotated[Text, MAY_MISS] = ""
    weight: Annotated[float, MAY_MISS] = 1.0
    format: Annotated[Text, MAY_MISS] = ""
    columns: Annotated[dict[str, str], MAY_MISS] = Field(default_factory=dict)
    template: Annotated[dict[str, str], MAY_MISS] = Field(default_factory=dict)
    set: Annotated[Text, MAY_MISS] = ""
    """The evaluation set that it belongs to, by name."""


class DataSection(Message):
    """The data of a training."""

    train: Many[TrainedData]
    eval: Many[TrainedData]
    workers: int | None


class ModelSection(Message):
    """The model's path on the host, and home's name for it if that differs; or the configuration of a tiny model to create."""

    path: Annotated[Text, MAY_MISS] = ""
    name: Annotated[Text, MAY_MISS] = ""
    tiny: Annotated[dict[str, object], MAY_MISS] = Field(default_factory=dict)


class BatchSection(Message):
    """The number of samples per step, and how they are divided. `global` is a keyword of Python."""

    model_config = ConfigDict(populate_by_name=True)

    global_: Annotated[Positive, Field(alias="global")]
    micro: Positive
    accumulation: Positive
    processes: Positive

    @model_serializer
    def _as_written(self) -> dict[str, int]:
        return {
            "global": self.global_,
            "micro": self.micro,
            "accumulation": self.accumulation,
            "processes": self.processes,
        }


class TrackingSection(Message):
    """The tracker to which a training reports, and the run's name and id there."""

    wandb: Text
    project: Text | None
    name: Text
    id: Text


class StartSection(Message):
    """The checkpoint that a training starts from. `optimizer` is `moments` if its state is loaded, too."""

    path: Text | None
    optimizer: Literal["moments", False]


class MeasurementSection(Message):
    """How a cell of a bench is measured: at least `steps` steps and `seconds` after the warm-up."""

    warmup_steps: Positive
    steps: Positive
    seconds: float


class TrainingSection(Message):
    """A training by the bundled payload; only the payload reads it. The settings `train`, `lora` and the like are the experiment's."""

    model: ModelSection
    data: DataSection
    batch: BatchSection
    train: dict[str, object]
    lora: dict[str, object] | None
    precision: Text
    attention: Text
    device: Literal["cuda", "cpu"]
    checkpoint: dict[str, object]
    resume: dict[str, object]
    evaluation: dict[str, object]
    peak_flops: float | None
    tracking: TrackingSection
    objective: Annotated[dict[str, object] | None, MAY_MISS] = None
    deepspeed: Annotated[Text, MAY_MISS] = ""
    prepared: Text
    start_from: StartSection | None
    measurement: Annotated[MeasurementSection | None, MAY_MISS] = None

    def as_json(self) -> dict[str, object]:
        """Return the section as the payload parses it."""
        return self.model_dump(mode="json", exclude_unset=True)


class MergeRequest(Message):
    """A merge: an adapter, its base model, and how to check the result.

    Attributes:
        adapter: The folder of the checkpoint.
        base: The folder or hub id of the base model; None if it lies next to its adapter.
        rows: Files whose rows are used to compare the two models.
        memory_bytes: The host's memory.
        sharded: The checkpoint holds all weights in shards, which are joined; it has no base.
    """

    adapter: Text
    base: Text | None
    precision: Text
    quantized: bool
    dtype: Text
    step: int
    rows: Many[Text]
    memory_bytes: Size | None
    sharded: bool = False


class MergeSection(Message):
    """A merge by the bundled payload."""

    merge: MergeRequest


class BenchCell(Message):
    """A cell of a bench.

    Attributes:
        number: From 1.
        label: What differs from the other cells, in words.
        values: The same, by dotted keys.
        training: With a measurement.
        env: Variables, over those of the job.
        accelerate: The file of accelerate's settings.
    """

    number: Positive
    label: Text
    values: dict[str, object]
    training: TrainingSection
    env: dict[str, str]
    accelerate: Text


class BenchRequest(Message):
    """The cells of a bench; `timeout_s` is that of one cell."""

    timeout_s: float
    cells: Many[BenchCell]


class BenchSection(Message):
    """A bench by the bundled payload."""

    bench: BenchRequest


_PAYLOADS_OWN = WithJsonSchema(
    {"anyOf": [{"type": "null"}, {"type": "object"}], "description": "the bundled payload's own; no agent reads it"}
)


class SweepSection(Message):
    """The sweep that a run belongs to. Only home reads it.

    `cell`: the run's number in the sweep, from 1. `values`: what differs between the cells.
    """

    id: RunId
    cell: Positive
    label: Text
    values: dict[str, object]


class BudgetSection(Message):
    """For how long a run may run, over all attempts: what its budget pays for.

    `said`: the budget as a person knows it, such as `20 EUR`.
    """

    seconds: Annotated[float, Field(gt=0)]
    said: Annotated[Text, MAY_MISS] = ""


class Spec(Message):
    """A run's plan.

    Attributes:
        time_limit_s: How long an attempt's job may take in seconds, by its supervisor's own clock; None: no limit is
            known.
        budget: For how long its budget pays; None: it has none that stops it.
        scheduler: None: armada's own supervisor starts the job.
        watch: None: the job announces its checkpoints itself.
        sync: The experiment's `sync`; only home reads it.
        experiment: The experiment as the user wrote it.
        home: The home that launched it.
        sweep: The sweep that the run is a cell of.
    """

    format: Literal[1]
    run_id: RunId
    name: Text
    task: Task
    created_at: Text | UnixTime
    host: Text
    profile: Text | None
    job: JobSpec
    gpus: Annotated[int, Field(ge=0)]
    processes: Positive
    environment: EnvironmentSpec | None
    container: Annotated[ContainerSpec | None, MAY_MISS] = None
    scheduler: Annotated[SchedulerSpec | None, MAY_MISS] = None
    stop_grace_s: Seconds
    time_limit_s: Annotated[Annotated[float, Field(gt=0)] | None, MAY_MISS] = None
    budget: Annotated[BudgetSection | None, MAY_MISS] = None
    outbox: OutboxSpec
    watch: Annotated[WatchSpec | None, MAY_MISS] = None
    training: Annotated[TrainingSection | MergeSection | BenchSection | None, _PAYLOADS_OWN]
    sync: Annotated[dict[str, object] | None, MAY_MISS] = None
    experiment: dict[str, object]
    project: Annotated[ProjectSpec | None, MAY_MISS] = None
    launch_key: Annotated[Text | None, MAY_MISS] = None
    home: Annotated[AskingHome | None, MAY_MISS] = None
    sweep: Annotated[SweepSection | None, MAY_MISS] = None

    def as_json(self) -> dict[str, object]:
        """Return the plan as spec.json contains it: the given fields in their order."""
        return self.model_dump(mode="json", exclude_unset=True)


class CreateRun(Request[Created]):
    """Create a run's folder and, with `submission`, submit the run."""

    method = "run.create"
    answer = Created
    run_id: RunId
    spec: Spec
    files: dict[Annotated[str, Field(pattern=r"^launch/[A-Za-z0-9_][A-Za-z0-9._-]*$")], Text]
    secrets: Secrets
    submission: Annotated[Positive, MAY_MISS] = 1
    home: Annotated[AskingHome | None, MAY_MISS] = None
