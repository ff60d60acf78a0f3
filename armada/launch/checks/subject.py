"""Everything that checks read, collected in advance. A check itself contacts no host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.launch.checks.check import SchedulerAnswer
from armada.launch.training.model_facts import ModelFacts
from armada.provision.hub import HubAnswer

if TYPE_CHECKING:
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Experiment
    from armada.protocol.facts import Facts
    from armada.protocol.spec import TrainingSection
    from armada.provision.code import Snapshot
    from armada.provision.environment import Environment
    from armada.provision.left_behind import LeftBehind
    from armada.provision.script_imports import MissingModule
    from armada.provision.sources import FoundFile


@dataclass(frozen=True, slots=True)
class Trained:
    """Facts that only a training with the bundled trainer has.

    Attributes:
        section: spec["training"].
        environment: The environment of the run; None if an image brings its own Python.
        model: The model's folder at home; None if only the host can read it.
        kind: The kind of the data's rows; None if only the host can read them.
        looks: What the rows look like by their columns.
        tools: Whether rows offer tools, and call some.
        hub_model: The model's id, if it is a hub id.
        answer: The hub's answer about that model.
        max_steps: The number of steps; None if the number of epochs limits the training.
        facts: The model's shape, as far as home knows it.
        is_divided: DeepSpeed divides or moves weights and optimizer, as its file says.
        rows: Rows of an epoch, weighted; None if some can only be counted on the host.
        row_bytes: The mean size of a row in its file; None if it says nothing about its length.
        eval_rows: Rows of the data for evaluation; None if some can only be counted on the host.
        sequences: Sequences of tokens in each row: a pair has two.
        has_reference: Whether a second copy of the model is in memory, which is never trained.
        may_shard: Whether `train.sharding: fsdp` would go with everything else that the experiment says.
        logits_why: Why the loss is computed as the section says, as part of a sentence; empty if the experiment says it.
        kernels_why: The same of its kernels; empty also where there is no choice.
        teacher: Another model whose output is compared with this one's; None without one.
    """

    section: TrainingSection
    environment: Environment | None
    model: Path | None = None
    kind: str | None = None
    looks: tuple[str, ...] = ()
    tools: tuple[bool, bool] = (False, False)
    hub_model: str | None = None
    answer: HubAnswer = field(default_factory=HubAnswer)
    max_steps: int | None = None
    facts: ModelFacts = field(default_factory=ModelFacts)
    is_divided: bool = False
    rows: float | None = None
    row_bytes: float | None = None
    eval_rows: int | None = None
    sequences: int = 1
    has_reference: bool = False
    may_shard: bool = False
    logits_why: str = ""
    kernels_why: str = ""
    teacher: ModelFacts | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A planned launch, as the checks see it.

    Attributes:
        facts: The host's facts.
        precision: The profile's precision; None if the job decides.
        travelling_bytes: Size of the files to send.
        fetched_bytes: Size of a model that the host fetches from the hub beforehand.
        checkpoint_bytes: An upper estimate of the size of checkpoints on the host.
        environment_missing: The environment has to be built.
        files: The entries of `files:` that are not at home.
        left_behind: Files that the job names but that git ignores.
        missing_modules: Modules that the script imports and the environment lacks.
        scheduler: The answer of the host's batch system about the job file.
        trained: Facts of a training by the bundled trainer; None for all other tasks.
        clock_off_s: By how many seconds the host's clock is ahead of home's.
        threads: With which each process computes on the host's cores; None if the job decides.
    """

    experiment: Experiment
    host: Host
    profile: Profile | None
    facts: Facts
    gpus: int
    processes: int
    precision: str | None = None
    travelling_bytes: int = 0
    fetched_bytes: int = 0
    checkpoint_bytes: int = 0
    environment_missing: bool = False
    snapshot: Snapshot | None = None
    files: tuple[FoundFile, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    missing_modules: tuple[MissingModule, ...] = ()
    scheduler: SchedulerAnswer = field(default_factory=SchedulerAnswer)
    trained: Trained | None = None
    threads: int | None = None
    clock_off_s: float = 0.0
