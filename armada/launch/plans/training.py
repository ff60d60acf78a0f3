"""How the bundled payload trains: its section of the spec, its files and its command line, in final numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from armada.launch.plans.job_data import names_below
from armada.launch.plans.payload import payload_variables
from armada.launch.training.accelerate import launch_environment, render_accelerate
from armada.launch.training.config_files import Facts, read_user_files
from armada.launch.training.image_needs import PYTHON
from armada.launch.training.sharding import fsdp_settings, uses_fsdp
from armada.protocol.spec import (
    BatchSection,
    DataSection,
    HubData,
    ModelSection,
    StartSection,
    TrackingSection,
    TrainedData,
    TrainingSection,
)
from armada.provision.content import Content, take_stock
from armada.provision.hub import HubModel
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from armada.config.data import DataSource
    from armada.config.profiles import Profile
    from armada.config.settings import Settings
    from armada.config.tasks.bundled import BundledTraining
    from armada.launch.training.batch import Batch
    from armada.launch.training.config_files import UserFiles
    from armada.launch.training.fused_kernels import Kernels
    from armada.launch.training.warmstart import Start
    from armada.paths import HostPaths
    from armada.provision.environment import Environment

_DECIDED = ("global_batch_size", "micro_batch_size")
"""Of `train`; they are in `batch`, solved."""


@dataclass(frozen=True)
class Training:
    """A training with every decision made.

    Attributes:
        environment: Of the host; None if an image brings its own Python.
        cores: Of the machine it runs on.
        data: The files to send of each dataset.
        model: The model, if it is sent.
        hub: The hub's model that the experiment names, where runs cannot fetch it by themselves.
        wandb: Stands in for what the experiment says of W&B.
        start: The checkpoint it begins with.
        companions: Models beside the one that is trained, of those that are sent.
        logits: How the output head computes them: in tiles, or those of a micro batch at once.
        kernels: Which it takes instead of those of transformers.
    """

    settings: BundledTraining
    profile: Profile
    paths: HostPaths
    environment: Environment | None
    batch: Batch
    run_id: str
    title: str
    gpus: int
    cores: int
    data: Mapping[Path, Content]
    model: Content | None = None
    hub: HubModel | Content | None = None
    wandb: str | None = None
    start: Start | None = None
    companions: Mapping[str, Content] = field(default_factory=dict)
    logits: Literal["tiles", "whole"] = "tiles"
    kernels: Kernels = "none"

    @property
    def device(self) -> Literal["cuda", "cpu"]:
        return "cuda" if self.gpus else "cpu"

    @cached_property
    def payload(self) -> Content:
        """The trainer itself."""
        return payload_content()

    @property
    def model_path(self) -> str | None:
        """The model's path on the host; None if the run downloads or creates it."""
        if self.model is not None:
            return str(self.paths.content("models", self.model.sha))
        return self.hub.path if isinstance(self.hub, HubModel) else None

    @cached_property
    def files(self) -> UserFiles:
        """Accelerate's and DeepSpeed's own files, compared with the plan."""
        settings = self.settings
        return read_user_files(
            Facts(
                settings,
                self.profile,
                self.batch.processes,
                self.device,
                self.batch,
                accelerate=settings.accelerate,
                deepspeed=settings.deepspeed,
                train=settings.train,
            )
        )

    @property
    def is_divided(self) -> bool:
        """Whether a DeepSpeed file of the user's decides where weights and optimizer are."""
        keys = {*self.files.accelerate, *self.profile.accelerate}
        return self.settings.deepspeed is not None or "deepspeed_config" in keys

    def contents(self) -> tuple[Content, ...]:
        """Everything that is sent.

        Raises:
            ProvisionFailed: A file that should travel cannot be read.
        """
        begin = self.start.content if self.start else None
        models = [content for content in (self.model, begin) if content is not None]
        return (self.payload, *self.data.values(), *dict.fromkeys((*models, *self.companions.values())))

    @property
    def python(self) -> str:
        """What starts it: the environment's Python, or the one of its image."""
        return PYTHON if self.environment is None else str(self.paths.environment_python(self.environment.key))

    def argv(self) -> list[str]:
        """The command."""
        return [
            self.python,
            *("-m", "armada_train.launch", "--config_file", str(self.paths.launch(self.run_id) / "accelerate.yaml")),
            *("--spec", str(self.paths.run(self.run_id) / "spec.json")),
        ]

    def variables(self) -> dict[str, str]:
        """The environment variables of the command."""
        found = payload_variables(self.paths, self.payload, in_container=self.environment is None) | {
            "TOKENIZERS_PARALLELISM": "false",  # forked workers and the tokenizer's own threads deadlock
            **launch_environment(processes=self.batch.processes, device=self.device, cpu_count=self.cores),
        }
        if not self._fetches():
            found["HF_HUB_OFFLINE"] = "1"  # nothing is to be fetched: 2 s instead of 48 s where there is no internet
        return found

    def _fetches(self) -> bool:
        """Whether the run asks the hub for anything: a kernel, data, or its model."""
        kernel = self.device == "cuda" and self.profile.train.attention == "auto"
        model = self.model_path is None and isinstance(self.settings.model, str)
        companion = any(name not in self.companions for name in self.settings.companions)
        return kernel or model or companion or not self.settings.data.is_local

    def launch_files(self) -> dict[str, str]:
        """The configuration files of accelerate and DeepSpeed.

        Raises:
            ConfigError: A file of the user's own is not what it should be.
            PreflightRefused: It, or the profile, says something else than the plan.
        """
        profile = self.profile
        accelerate = render_accelerate(
            processes=self.batch.processes,
            device=self.device,
            precision=profile.train.precision,
            extras=profile.accelerate,
            extras_from=f"profile {profile.name}" + (f" ({profile.origin})" if profile.origin else ""),
            checked=self.files.accelerate,
            sharded=self._sharded(),
        )
        deepspeed = self.files.deepspeed
        more = {} if deepspeed is None else {"launch/deepspeed.json": json.dumps(deepspeed, indent=1)}
        return {"launch/accelerate.yaml": accelerate} | more

    def _sharded(self) -> dict[str, object] | None:
        """What accelerate is told so that FSDP divides the training; None if it does not."""
        sharding, processes = self.settings.train.sharding, self.batch.processes
        if not uses_fsdp(sharding, processes):
            return None
        # The wrappers of FSDP's own recomputation rename modules, which PEFT does not expect: transformers recomputes then.
        recomputes = self.profile.train.activation_checkpointing and self.settings.lora is None
        return fsdp_settings(sharding, processes, activation_checkpointing=recomputes)

    def section(self) -> TrainingSection:
        """spec["training"], which only the payload reads."""
        settings, profile = self.settings, self.profile
        section = TrainingSection(
            model=self._model_section(),
            data=self._data_section(),
            batch=self._batch_section(),
            train=_dump(settings.train, *_DECIDED, "best_metric")
            | self._best_section()
            | settings.train_section()
            | {"activation_checkpointing": profile.train.activation_checkpointing}
            | {"logits": self.logits, "kernels": self.kernels},
            lora=_dump(settings.lora) if settings.lora is not None else None,
            precision=profile.train.precision,
            attention=profile.train.attention,
            device=self.device,
            checkpoint=_dump(settings.checkpoint, "pattern", "quiet_s"),
            resume=_dump(settings.resume, "arguments"),
            evaluation=settings.evaluation.as_section(),
            peak_flops=profile.peak_flops if self.device == "cuda" else None,
            tracking=TrackingSection(
                wandb=self.wandb or settings.tracking.wandb,
                project=settings.tracking.project,
                name=self.title,
                id=self.run_id,
            ),
            prepared=str(self.paths.prepared),
            start_from=self._start_section(),
        )
        more: dict[str, object] = {}
        if settings.task != "sft":  # which is what a section without it is
            places = {name: str(self.paths.content("models", each.sha)) for name, each in self.companions.items()}
            more["objective"] = {"name": settings.task, **settings.objective_section(places)}
        if self.files.deepspeed is not None:
            more["deepspeed"] = str(self.paths.launch(self.run_id) / "deepspeed.json")
        return section.model_copy(update=more) if more else section

    def _best_section(self) -> dict[str, object]:
        """What tells better from worse, where the experiment says more than nothing."""
        train = self.settings.train
        best = {} if train.best_metric is None else {"best_metric": _dump(train.best_metric)}
        return best | train.best_section()

    def _model_section(self) -> ModelSection:
        """Where the host has the model, and what home calls it where that is something else: adapters name their base so."""
        model, path = self.settings.model, self.model_path
        if not isinstance(model, str):
            return ModelSection(tiny=_dump(model.tiny))
        return ModelSection(path=model) if path is None or path == model else ModelSection(path=path, name=model)

    def _data_section(self) -> DataSection:
        data = self.settings.data
        return DataSection(
            train=tuple(self._origin(source).model_copy(update={"weight": source.weight}) for source in data.train),
            eval=tuple(
                self._origin(source).model_copy(update={"set": name} if name else {})
                for name, sources in data.eval_sets.items()
                for source in sources
            ),
            workers=data.workers,
        )

    def _origin(self, source: DataSource) -> TrainedData:
        return self._place(source).model_copy(update=self.settings.data.form_of(source))

    def _place(self, source: DataSource) -> TrainedData:
        if source.hub is not None:
            more = source.model_dump(include={"split", "config", "revision"}, exclude_none=True)
            return TrainedData(hub=HubData(id=source.hub, **more))
        if source.hook is not None:
            return TrainedData(hook=source.hook)
        if source.path is None:
            return TrainedData()
        place = self.paths.content("data", self.data[source.path].sha) / source.path.resolve().name
        return TrainedData(path=str(place))

    def _batch_section(self) -> BatchSection:
        batch = self.batch
        return BatchSection(
            global_=batch.global_, micro=batch.micro, accumulation=batch.accumulation, processes=batch.processes
        )

    def _start_section(self) -> StartSection | None:
        start = self.start
        if start is None:
            return None
        place = str(self.paths.content("models", start.content.sha)) if start.content else start.place
        return StartSection(path=place, optimizer="moments" if start.moments else False)


def take_data(datasets: Iterable[Path]) -> dict[Path, Content]:
    """Return the files to send of each dataset. A link to data is replaced by the file it points to.

    Raises:
        ProvisionFailed: A file that should travel cannot be read.
    """
    real = {path: path.resolve() for path in datasets}
    return {path: take_stock("data", file.parent, names_below(file)) for path, file in real.items()}


def _dump(settings: Settings, *without: str) -> dict[str, object]:
    """Settings as JSON, without those that are for jobs of the user's own, or decided elsewhere."""
    return settings.model_dump(mode="json", exclude=set(without))
