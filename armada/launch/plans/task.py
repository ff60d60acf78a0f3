"""What a task provides to a launch: it reads its files at home, then says what one run of it needs on its host.

A new task is a subclass of `Task` in a module of its own here, and a line in `armada.config.tasks.registry`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from armada.config import labels
from armada.config.profiles import load_profile
from armada.config.tasks.experiment import Experiment
from armada.errors import PreflightRefused
from armada.launch.plans.machine import find_profile
from armada.protocol.spec import WatchSpec
from armada.provision.code import take_snapshot
from armada.provision.container import Container, examine_container
from armada.provision.environment import plan_environment
from armada.provision.existing import ExistingEnvironment, examine_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.launch.checks.subject import Trained
    from armada.launch.training.batch import Batch
    from armada.launch.training.dataset import DataFacts
    from armada.paths import HomePaths, HostPaths
    from armada.protocol.facts import Facts
    from armada.protocol.spec import BenchSection, JobLink, MergeSection, TrainingSection
    from armada.provision.code import Snapshot
    from armada.provision.content import Content
    from armada.provision.environment import Environment
    from armada.provision.hub import HubModel
    from armada.provision.image_packages import ImageNeeds
    from armada.provision.own_packages import Needs
    from armada.rpc.session import HostSession
    from armada.store.database import Database

S = TypeVar("S", bound=Experiment)


@dataclass(frozen=True, slots=True)
class Order:
    """The host, profile and options of a requested run.

    Attributes:
        session: With the host the run is meant for.
        home: Where profiles are.
        database: The store, which knows earlier runs.
        profile: Its name, instead of the host's own.
        name: Instead of the experiment's.
        snapshots: Of folders of code, by their path: the cells of a sweep share them.
        data: What was found in data, by the settings of it, for the same reason.
        sweep: The sweep that its run is a cell of.
        at_once: How many cells of the sweep run at once on the host.
        taken: The cores of the runs that compute there, once asked for.
    """

    session: HostSession
    home: HomePaths
    database: Database
    profile: str | None = None
    name: str | None = None
    snapshots: dict[Path, Snapshot] = field(default_factory=dict)
    data: dict[str, DataFacts] = field(default_factory=dict)
    sweep: str | None = None
    at_once: int = 1
    taken: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """What every run gets on its host, whatever its task.

    Attributes:
        facts: What the host said of itself.
        clock_off_s: By how many seconds its clock was ahead of home's when it said that.
        cores: That the job may use without GPUs: its share of the host's; in a cluster what is asked for.
        variables: That every job of this experiment gets.
    """

    session: HostSession
    facts: Facts
    profile: Profile | None
    run_id: str
    title: str
    gpus: int
    processes: int
    cores: int
    variables: dict[str, str]
    clock_off_s: float = 0.0

    @property
    def host(self) -> Host:
        return self.session.host

    @property
    def paths(self) -> HostPaths:
        return self.session.paths

    def need_profile(self) -> Profile:
        """The profile, for a task that cannot do without.

        Raises:
            PreflightRefused: There is none.
        """
        if self.profile is None:
            raise PreflightRefused("this task needs a profile", hint="--profile NAME", host=self.host.name)
        return self.profile


@dataclass(frozen=True, slots=True)
class Parts:
    """What one run needs on its host: contents to send, environment, which command, what is checked.

    Attributes:
        argv: The job.
        variables: Of its environment, over those that every job gets.
        environment: Python's; None where the job brings its own.
        is_active: The job works inside it: `python` and `torchrun` are its own.
        existing: Stands in for `environment`: one that the user made on the host.
        container: The image in which the job runs; it stands in for both.
        imports: Modules that the job cannot start without, each with the line that imports it.
        contents: Files that travel, beside the project's code.
        links: To files of `contents` in the folder the job works in, as spec["job"]["data"].
        files: What a person would want to read beside the spec, by names below the run's folder.
        training: spec["training"], which only the payload reads.
        watch: How the host watches a job that tells nothing by itself, which is what a job is taken for. None: it
            announces its checkpoints, the last one before it ends well, as the payload does. Where it was lost without
            that one, it is taken to have failed, and may be run again.
        batch: The samples of a step, where armada decides them.
        hub: A model that the host fetches before the run.
        precision: That the profile trains in, where it does.
        checkpoint_bytes: An upper estimate of what checkpoints take on the host.
        trained: What is checked of a training by the payload.
        on_cpu: It takes one process and no GPU, whatever its experiment asks for.
    """

    argv: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    environment: Environment | None = None
    is_active: bool = False
    existing: ExistingEnvironment | None = None
    container: Container | None = None
    imports: Mapping[str, str] = field(default_factory=dict)
    contents: tuple[Content, ...] = ()
    links: tuple[JobLink, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    training: TrainingSection | MergeSection | BenchSection | None = None
    watch: WatchSpec | None = field(default_factory=lambda: WatchSpec(checkpoints=None, resume=()))
    batch: Batch | None = None
    hub: HubModel | None = None
    precision: str | None = None
    checkpoint_bytes: int = 0
    trained: Trained | None = None
    on_cpu: bool = False


class Task(ABC, Generic[S]):
    """One kind of run.

    Args:
        settings: What is asked for.
        order: Where.
    """

    rows: int = 0
    """Of data, as far as they were counted at home."""
    needs: Needs = "nothing"
    """Of the Python environment, where the experiment has requirements of its own."""
    counts_on_host: bool = False
    """Some of the data can only be counted on the host: parquet, saved datasets, those of the hub."""

    def __init__(self, settings: S, order: Order) -> None:
        self.settings = settings
        self.order = order

    @property
    def kind(self) -> str:
        """spec["task"]."""
        return self.settings.task

    @property
    def title(self) -> str:
        """What the run is called."""
        return self.order.name or self.settings.name

    @property
    def takes_gpus(self) -> bool:
        """Whether it runs on every GPU of its profile unless it says otherwise, and so needs a profile."""
        return self.settings.takes_gpus

    @property
    def outbox_keep(self) -> int:
        """How many checkpoints the host keeps for home to fetch."""
        return max(3, self.settings.checkpoint.keep_last) if self.settings.checkpoint is not None else 3

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The project's code as it is now.

        Raises:
            ProvisionFailed: There is nothing to send, or it is far too much to be code.
        """
        if self.settings.code is None:
            return None
        home, known = self.order.home, self.order.snapshots
        if self.settings.code not in known:
            known[self.settings.code] = take_snapshot(self.settings.code, without=(home.config, home.state))
        return known[self.settings.code]

    @property
    def profile_name(self) -> str | None:
        """The profile that the command line names, else the host's. None: the host's GPUs decide."""
        return self.order.profile or self.order.session.host.profile

    @cached_property
    def named_profile(self) -> Profile | None:
        """The profile of that name.

        Raises:
            ConfigError: It is wrong.
            NotFound: There is none of that name.
        """
        return load_profile(self.profile_name, self.order.home) if self.profile_name else None

    def read_for_all(self) -> dict[str, object]:
        """Read at home what is the same for every host, to be handed to the tasks of other hosts. Asks no host.

        Raises:
            ArmadaError: A file it names is missing or wrong.
        """
        return {"snapshot": self.snapshot}

    def take_over(self, found: Mapping[str, object]) -> None:
        """Use what another host's task of the same experiment has read, instead of reading it again."""
        vars(self).update(found)  # where `cached_property` keeps its values

    def read(self) -> None:
        """Read the files at home before asking the host, because errors cost nothing yet.

        Raises:
            ArmadaError: A file it names is missing or wrong.
        """

    def profile(self, facts: Facts) -> Profile | None:
        """Return the profile to run with: the named one, else the one for the host's GPUs.

        Raises:
            PreflightRefused: It needs one, and the host's GPUs cannot be seen.
        """
        # What runs on CPUs alone needs nothing a profile says.
        needed = self.takes_gpus or self.settings.needs_profile
        if self.named_profile is not None or not (needed or self.settings.resources.gpus):
            return self.named_profile
        order = self.order
        return find_profile(order.session.host, facts, order.home, needed=needed)

    def plan_environment(self, place: Place) -> Environment:
        """The environment of the profile, or of the experiment's own requirements.

        Raises:
            ConfigError: The requirements and the profile contradict each other.
            PreflightRefused: There is no profile, or the profile wants what this host cannot have.
            HostUnreachable: The host does not answer.
        """
        lines = self.settings.requirement_lines
        return plan_environment(place.session, place.need_profile(), place.facts, lines, self.needs)

    def examine_environment(self, place: Place, *needed: str) -> ExistingEnvironment | None:
        """The environment that the user made on the host, examined; None where the experiment names none.

        Args:
            place: Of the run.
            needed: Packages that the task cannot do without.

        Raises:
            ProvisionFailed: It is not there, its Python does not start, or somebody else could have changed it.
            PreflightRefused: It lacks what the task needs.
        """
        wanted = self.settings.existing
        return examine_environment(place.session, wanted, needed) if wanted is not None else None

    def examine_container(
        self, place: Place, *packages: str, gpus: int | None = None, needs: ImageNeeds | None = None
    ) -> Container | None:
        """The image in which the job runs; None where the experiment names none.

        Args:
            place: Of the run.
            packages: Python packages that the task needs in it, in any release.
            gpus: Of the job, if not all that the run takes.
            needs: What the bundled trainer needs of its Python.

        Raises:
            PreflightRefused: The host is a cluster.
            ProvisionFailed: The host cannot run containers.
        """
        image = self.settings.container
        if image is None:
            return None
        return examine_container(place.session, image, packages, gpus=place.gpus if gpus is None else gpus, needs=needs)

    def variables(self, profile: Profile | None, run_id: str) -> dict[str, str]:
        """The environment of every job of this experiment; values of the experiment itself count last."""
        session = self.order.session
        return {
            "PYTHONUNBUFFERED": "1",
            **_offline(session.host, session.paths, run_id),
            **(profile.env if profile else {}),
            **self.settings.env,
        }

    def recorded(self) -> dict[str, object]:
        """spec["experiment"]: the experiment as written."""
        recorded: dict[str, object] = json.loads(self.settings.model_dump_json(exclude={*labels.KEYS, "sweep"}))
        return recorded

    @abstractmethod
    def parts(self, place: Place) -> Parts:
        """Return what the run needs. May ask the host, but changes nothing there.

        Raises:
            ConfigError: A file the experiment names is missing or wrong.
            PreflightRefused: The experiment, the profile and the host do not go together.
            HostUnreachable: The host does not answer.
        """


def _offline(host: Host, paths: HostPaths, run_id: str) -> dict[str, str]:
    """Spare what would wait minutes for the internet where there is none."""
    if host.has_internet:
        return {}
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
    # Below the run's folder, from where W&B's files come home; a program's own place for them is its work folder.
    return {**dict.fromkeys(names, "1"), "WANDB_MODE": "offline", "WANDB_DIR": str(paths.run(run_id))}
