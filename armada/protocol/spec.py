"""spec.json, a run's plan: as a launch writes it, and `run.create` carries it. How home reads one again: `armada.protocol.recorded`."""

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

Task = Annotated[str, any_word("sft", "script", "command", "merge", "prepare")]


class JobLink(Message):
    """A content of the host, and its name in the folder that the job works in; `outside`: a path of the host's own instead."""

    content: Text
    name: Text
    outside: Annotated[bool, MAY_MISS] = False


class JobSpec(Message):
    """The job. `data` are the links to its data and files; `setup` are lines of shell that a login shell runs before it."""

    argv: Annotated[Many[Text], Field(min_length=1)]
    env: dict[str, Text]
    code: Text | None
    secrets: Many[Text]
    data: Annotated[Many[JobLink], MAY_MISS] = ()
    setup: Annotated[Many[Text], MAY_MISS] = ()


class EnvironmentSpec(Message):
    """The Python environment; `flash_attn` says which one it has, or why none.

    `active`: the job's PATH begins with its programs, and VIRTUAL_ENV names it, or CONDA_PREFIX where it is conda's.
    `existing`: the user made it, and `path` is all that names it.
    """

    key: EnvironmentKey
    path: Text
    flash_attn: Annotated[Text, MAY_MISS] = ""
    active: Annotated[bool, MAY_MISS] = False
    existing: Annotated[bool, MAY_MISS] = False
    conda: Annotated[bool, MAY_MISS] = False
    python: Annotated[Text, MAY_MISS] = ""


class SchedulerSpec(Message):
    """What the agent has to know of the host's batch system.

    `max_attempts_without_progress`: attempts in a row that may reach the time limit without a newer checkpoint. `quota` is the
    site's own command for what is left of an allowance.
    """

    kind: Literal["slurm", "htcondor"]
    poll_s: Annotated[float, Field(gt=0)]
    max_retries: Annotated[int, Field(ge=0)]
    requeue_at_time_limit: bool
    max_attempts_without_progress: Annotated[Positive, MAY_MISS] = 2
    quota: Annotated[Many[Text], MAY_MISS] = ()


class OutboxSpec(Message):
    """How many checkpoints the host keeps for home, and below how much free disk it gives up middle ones."""

    keep: Positive
    disk_floor_bytes: Size


class CheckpointPattern(Message):
    """How checkpoints of a job of the user's own are found, and for how long one must not change."""

    pattern: Text
    quiet_s: Seconds


class WatchSpec(Message):
    """How a job that tells nothing by itself is watched.

    `resume` are its arguments to continue from a checkpoint, `metrics` the tables below its work folder that its curves are read from.
    """

    checkpoints: CheckpointPattern | None
    resume: Many[Text]
    metrics: Annotated[Many[Text], MAY_MISS] = ()


class ProjectSpec(Message):
    """The revision of the project's code, and whether it had changes that no revision holds."""

    revision: Text | None
    dirty: bool


class HubData(Message):
    """A dataset of the hub."""

    id: Text
    split: Annotated[Text, MAY_MISS] = ""
    config: Annotated[Text, MAY_MISS] = ""
    revision: Annotated[Text, MAY_MISS] = ""


class TrainedData(Message):
    """Where a training's rows come from: one of `hub`, `hook` and `path`, the file's place on the host."""

    hub: Annotated[HubData | None, MAY_MISS] = None
    hook: Annotated[Text, MAY_MISS] = ""
    path: Annotated[Text, MAY_MISS] = ""
    weight: Annotated[float, MAY_MISS] = 1.0


class DataSection(Message):
    """A training's data."""

    train: Many[TrainedData]
    eval: Many[TrainedData]
    workers: int | None


class ModelSection(Message):
    """Where the host has the model, and what home calls it where that is something else; or how a tiny one is made."""

    path: Annotated[Text, MAY_MISS] = ""
    name: Annotated[Text, MAY_MISS] = ""
    tiny: Annotated[dict[str, object], MAY_MISS] = Field(default_factory=dict)


class BatchSection(Message):
    """The samples of a step, and how they come together; `global` is a keyword of Python's."""

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
    """To whom a training reports, and under which name and id."""

    wandb: Text
    project: Text | None
    name: Text
    id: Text


class StartSection(Message):
    """The checkpoint that a training begins with; `optimizer` is `moments` where its state is taken too."""

    path: Text | None
    optimizer: Literal["moments", False]


class TrainingSection(Message):
    """A training by the bundled payload, which alone reads it. The settings of `train`, `lora` and the like are the experiment's own."""

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
    deepspeed: Annotated[Text, MAY_MISS] = ""
    prepared: Text
    start_from: StartSection | None

    def as_json(self) -> dict[str, object]:
        """The section as the payload parses it."""
        return self.model_dump(mode="json", exclude_unset=True)


class MergeRequest(Message):
    """What is merged into what.

    Attributes:
        adapter: The folder of the checkpoint.
        base: The folder or hub id of the base model; None for one that lies beside its adapter.
        rows: Files to compare the two models on.
        memory_bytes: Of the host.
    """

    adapter: Text
    base: Text | None
    precision: Text
    quantized: bool
    dtype: Text
    step: int
    rows: Many[Text]
    memory_bytes: Size | None


class MergeSection(Message):
    """A merge by the bundled payload."""

    merge: MergeRequest


_PAYLOADS_OWN = WithJsonSchema(
    {"anyOf": [{"type": "null"}, {"type": "object"}], "description": "the bundled payload's own; no agent reads it"}
)


class Spec(Message):
    """A run's plan.

    Attributes:
        time_limit_s: How long an attempt's job may take, by its supervisor's own clock; None: nobody says.
        scheduler: None: a supervisor of our own starts it.
        watch: None: the job announces its checkpoints by itself.
        sync: The experiment's `sync`; only home reads it.
        experiment: What a person asked for.
        home: That launched it.
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
    scheduler: Annotated[SchedulerSpec | None, MAY_MISS] = None
    stop_grace_s: Seconds
    time_limit_s: Annotated[Annotated[float, Field(gt=0)] | None, MAY_MISS] = None
    outbox: OutboxSpec
    watch: Annotated[WatchSpec | None, MAY_MISS] = None
    training: Annotated[TrainingSection | MergeSection | None, _PAYLOADS_OWN]
    sync: Annotated[dict[str, object] | None, MAY_MISS] = None
    experiment: dict[str, object]
    project: Annotated[ProjectSpec | None, MAY_MISS] = None
    launch_key: Annotated[Text | None, MAY_MISS] = None
    home: Annotated[AskingHome | None, MAY_MISS] = None

    def as_json(self) -> dict[str, object]:
        """The plan as spec.json holds it: its fields in their order, those that were given."""
        return self.model_dump(mode="json", exclude_unset=True)


class CreateRun(Request[Created]):
    """Make a run's folder and, with `submission`, hand it over."""

    method = "run.create"
    answer = Created
    run_id: RunId
    spec: Spec
    files: dict[Annotated[str, Field(pattern=r"^launch/[A-Za-z0-9_][A-Za-z0-9._-]*$")], Text]
    secrets: Secrets
    submission: Annotated[Positive, MAY_MISS] = 1
    home: Annotated[AskingHome | None, MAY_MISS] = None
