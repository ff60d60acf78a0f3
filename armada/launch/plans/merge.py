"""Plan `armada merge`: a run that merges another run's adapter into its base model, or joins its shards."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from armada.config.profile_choice import choose_profile
from armada.config.profiles import DERIVED, load_profile
from armada.config.sync import SyncSettings
from armada.config.tasks.command import Command
from armada.config.tasks.registry import TRAININGS
from armada.config.training import FSDP_WORDS
from armada.errors import NotFound, PreflightRefused
from armada.launch.plans.payload import payload_variables
from armada.launch.plans.task import Parts, Task
from armada.launch.training.checkpoint_content import checkpoint_content
from armada.launch.training.image_needs import PYTHON, image_needs
from armada.protocol.recorded import RecordedTraining
from armada.protocol.spec import MergeRequest, MergeSection
from armada.provision.container import examine_container
from armada.provision.content import Content, take_stock
from armada.provision.environment import plan_environment
from armada.provision.model import model_content
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.config.profiles import Profile
    from armada.launch.plans.task import Order, Place
    from armada.paths import HostPaths
    from armada.protocol.facts import Facts
    from armada.protocol.recorded import RecordedSpec
    from armada.provision.container import Container
    from armada.provision.environment import Environment
    from armada.store.checkpoints import Checkpoint
    from armada.store.runs import Run

_NEEDED_SECRET = "HF_TOKEN"  # noqa: S105  # a name; a gated base cannot be fetched without it
_SHA256 = re.compile("[0-9a-f]{64}")
_MERGING = ("-m", "armada_train.merge")


@dataclass(frozen=True, slots=True)
class Source:
    """What is merged: a run, its plan, and one of its checkpoints."""

    run: Run
    spec: RecordedSpec
    checkpoint: Checkpoint

    @property
    def training(self) -> RecordedTraining:
        """What is known of the training; nothing, where its plan is not one."""
        return self.spec.training or RecordedTraining()

    @property
    def is_sharded(self) -> bool:
        """Whether all weights are in shards, which are joined instead of merged."""
        return _has_shards(self.training)

    @property
    def title(self) -> str:
        return f"{self.spec.name or self.run.name} merged"


def _has_shards(training: RecordedTraining) -> bool:
    word = training.train.sharding if training.train is not None else None
    processes = training.batch.processes if training.batch is not None else None
    return training.lora is None and word in FSDP_WORDS and (processes or 0) > 1


def refuse_unmergeable(run: Run, spec: RecordedSpec) -> None:
    """Refuse at once a run that cannot be merged.

    Raises:
        PreflightRefused: The run has neither an adapter nor shards.
    """
    if spec.task not in TRAININGS:
        raise PreflightRefused(
            f"{run.run_id} is a {spec.task}, not a `task: sft` training",
            hint="only those trainings can be merged",
        )
    if spec.task == "reward" and not _has_shards(spec.training or RecordedTraining()):
        raise PreflightRefused(
            f"{run.run_id} is a reward model, whose adapter holds its head: there is nothing to merge it into",
            hint=f"armada pull {run.run_id} --to DIR",
        )
    if spec.training is None or (spec.training.lora is None and not _has_shards(spec.training)):
        raise PreflightRefused(
            f"{run.run_id} trained every weight, and saved them whole: there is no adapter to merge",
            hint=f"armada pull {run.run_id} --to DIR",
        )


def choose_host(run: Run, checkpoint: Checkpoint) -> str:
    """Choose the host of the checkpoint, or home if only home has it."""
    return run.host if checkpoint.on_host or checkpoint.home_path is None else "local"


class MergeTask(Task[Command]):
    """One process on CPUs, whose result travels as a checkpoint.

    Args:
        source: What to merge.
        dtype: Of the merged weights, or `auto`.
        order: Where.
    """

    def __init__(self, source: Source, dtype: str, order: Order) -> None:
        super().__init__(_settings(source, order.name), order)
        self.source = source
        self.dtype = dtype

    @property
    def kind(self) -> str:
        return "merge"

    @property
    def outbox_keep(self) -> int:
        return 1

    @property
    def _is_there(self) -> bool:
        """It merges on the training's own host."""
        return self.order.session.host.name == self.source.run.host

    @property
    def profile_name(self) -> str | None:
        """The training's profile, because its environment already exists. A derived one is derived again."""
        trained_with = self.source.spec.profile if self._is_there else None
        if self._is_there and not (trained_with or "").startswith(DERIVED):
            return trained_with
        return self.order.session.host.profile

    def profile(self, facts: Facts) -> Profile:
        """Any profile: a merge needs no GPU."""
        if self.named_profile is not None:
            return self.named_profile
        host, home = self.order.session.host, self.order.home
        # A cluster's own GPUs cannot be seen from here.
        if host.batch is not None:
            return load_profile("cpu", home)
        return choose_profile(facts.hardware.gpus, home).profile

    def variables(self, profile: Profile | None, run_id: str) -> dict[str, str]:  # noqa: ARG002  # a merge needs neither
        """None of the training's variables, because a merge may have to fetch the base model."""
        return {"PYTHONUNBUFFERED": "1"}

    def recorded(self) -> dict[str, object]:
        run, checkpoint = self.source.run, self.source.checkpoint
        return {"merge": {"run": run.run_id, "checkpoint": checkpoint.digest, "dtype": self.dtype}}

    def parts(self, place: Place) -> Parts:
        """Say what the merge needs.

        Raises:
            NotFound: The checkpoint, or the base model, can be had neither there nor here.
            ArmadaError: The checkpoint is damaged at home.
            PreflightRefused: The recorded plan of the training is not whole, or its base model at home has changed.
        """
        paths, source, is_there = place.paths, self.source, self._is_there
        training, checkpoint = source.training, source.checkpoint
        container = self._container(place)
        environment = self._environment(place) if container is None else None
        payload = payload_content()
        contents = [payload]
        lora = training.lora
        if training.precision is None:
            raise PreflightRefused(f"the recorded plan of {source.run.run_id} does not say its precision")
        request = MergeRequest(
            adapter=self._adapter(paths, contents),
            base=None if source.is_sharded else _base(source, paths, contents, is_there=is_there),
            precision=training.precision,
            quantized=lora is not None and (lora.quantize or "none") != "none",
            dtype=self.dtype,
            step=checkpoint.step,
            rows=() if source.is_sharded else _rows(source, paths, contents, is_there=is_there),
            memory_bytes=place.facts.memory_bytes,
            sharded=source.is_sharded,
        )
        python = PYTHON if environment is None else str(paths.environment_python(environment.key))
        spec = paths.run(place.run_id) / "spec.json"
        return Parts(
            argv=[python, *_MERGING, "--spec", str(spec)],
            variables=payload_variables(paths, payload, in_container=environment is None),
            environment=environment,
            container=container,
            contents=tuple(contents),
            training=MergeSection(merge=request),
            watch=None,
            checkpoint_bytes=3 * checkpoint.size_bytes,
            on_cpu=True,
        )

    def _adapter(self, paths: HostPaths, contents: list[Content]) -> str:
        """The folder of the adapter, or of the shards, on the merging host; one that is sent is added to `contents`."""
        run, checkpoint = self.source.run, self.source.checkpoint
        if self._is_there and checkpoint.on_host:
            return str(paths.outbox(run.run_id, checkpoint.digest))
        if checkpoint.home_path is None:
            raise NotFound(
                f"checkpoint-{checkpoint.step} of {run.run_id} is not at home, so it cannot be sent from there",
                hint=f"armada pull {run.run_id} --checkpoint {checkpoint.step}",
            )
        content = checkpoint_content(self.order.database, checkpoint, checkpoint.home_path, _mergeable)
        contents.append(content)
        return str(paths.content("models", content.sha))

    def _environment(self, place: Place) -> Environment:
        return plan_environment(place.session, place.need_profile(), place.facts)

    def _container(self, place: Place) -> Container | None:
        """The image of the training on its own host, whose Python has what a merge needs, too; None elsewhere."""
        recorded = self.source.spec.container
        image = recorded.reference if recorded is not None and self._is_there else None
        if image is None:
            return None
        return examine_container(place.session, image, (), gpus=0, needs=image_needs(place.need_profile(), ["peft"]))


def _settings(source: Source, name: str | None) -> Command:
    """What the launch has to know of a merge as of any experiment; its command is made final when its place is known."""
    asked = set(source.spec.secrets).difference(source.spec.unconfirmed_secrets)
    secrets = tuple(name for name in asked if name == _NEEDED_SECRET and os.environ.get(name))
    sync = SyncSettings.model_validate_json(json.dumps(source.spec.sync or {}))
    return Command(name=name or source.title, task="command", command=_MERGING, secrets=secrets, sync=sync)


def _mergeable(names: Iterable[str]) -> list[str]:
    """Leave out the states of optimizer and random numbers: two thirds of a checkpoint, and nothing to merge."""
    return [name for name in names if not name.startswith(("optimizer", "rng_state", "scheduler"))]


def _base(source: Source, paths: HostPaths, contents: list[Content], *, is_there: bool) -> str | None:
    """The base model on the merging host; None for one made on the spot, which travels beside its adapter."""
    model = source.training.model
    path = model.path if model is not None else None
    if path is None or is_there or not path.startswith("/"):
        return path
    asked = source.spec.experiment
    given = asked.model if asked is not None else None
    if given is None or not (Path(given) / "config.json").is_file():
        raise NotFound(
            f"the base model of {source.run.run_id} is on {source.run.host} and not at home (it was {given})",
            hint=f"--host {source.run.host} merges there",
        )
    content = model_content(Path(given))
    sent = PurePosixPath(path)
    if sent.parent.name == "models" and _SHA256.fullmatch(sent.name) and sent.name != content.sha:
        raise PreflightRefused(
            f"{given} is not the model that {source.run.run_id} was trained on: its files have changed since",
            hint=f"--host {source.run.host} merges with the files that it has; or put the former ones back",
        )
    contents.append(content)
    return str(paths.content("models", content.sha))


def _rows(source: Source, paths: HostPaths, contents: list[Content], *, is_there: bool) -> tuple[str, ...]:
    """Files to compare the two models on: the evaluation's, else the training's; none is no hindrance."""
    told = source.training if is_there else source.spec.experiment
    named = told.data.files if told is not None and told.data is not None else ()
    if is_there:
        return tuple(named)
    places = []
    for file in map(Path, named[:1]):
        if file.is_file():
            real = file.resolve()
            content = take_stock("data", real.parent, [real.name])
            contents.append(content)
            places.append(str(paths.content("data", content.sha) / real.name))
    return tuple(places)
