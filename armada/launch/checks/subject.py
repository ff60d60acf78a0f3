"""Everything that checks read, gathered in advance. A check itself asks no host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.launch.checks.check import SchedulerAnswer
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
    from armada.provision.sources import FoundFile


@dataclass(frozen=True, slots=True)
class Trained:
    """Facts that only a training with the bundled trainer has.

    Attributes:
        section: spec["training"].
        environment: In which it will run.
        model: The model's folder here; None for one that only the host can look at.
        kind: Of the data's rows; None where only the host can read them.
        hub_model: The model's id, if it is a hub id.
        answer: What the hub says of that.
        max_steps: After which it ends; None where epochs end it.
    """

    section: TrainingSection
    environment: Environment
    model: Path | None = None
    kind: str | None = None
    hub_model: str | None = None
    answer: HubAnswer = field(default_factory=HubAnswer)
    max_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A planned launch, as the checks see it.

    Attributes:
        facts: What the host said of itself.
        precision: That the profile trains in; None where the job decides it.
        travelling_bytes: Of files that the host lacks.
        fetched_bytes: Of a model that the host fetches from the hub beforehand.
        checkpoint_bytes: An upper estimate of what checkpoints take there.
        environment_missing: The environment has to be built.
        files: What `files:` name elsewhere than at home.
        left_behind: Files that the job names, and that git ignores.
        scheduler: What the host's batch system says of the job file.
        trained: None for all but trainings by the bundled trainer.
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
    scheduler: SchedulerAnswer = field(default_factory=SchedulerAnswer)
    trained: Trained | None = None
