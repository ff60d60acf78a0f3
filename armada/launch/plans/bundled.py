"""Plan a training with the bundled payload, whatever its task."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.tasks.bundled import BundledTraining
from armada.config.tasks.distill import Distill
from armada.errors import PreflightRefused
from armada.launch.checks.subject import Trained
from armada.launch.plans.task import Parts, Task
from armada.launch.plans.training import Training, take_data
from armada.launch.training.batch import Batch, resolve_batch
from armada.launch.training.dataset import DataFacts, check_data, count_rows, mean_row_bytes
from armada.launch.training.fused_kernels import KernelsChoice, choose_kernels
from armada.launch.training.hook import check_hooks
from armada.launch.training.image_needs import training_needs
from armada.launch.training.model_facts import ModelFacts, read_folder, read_model, tiny_model
from armada.launch.training.output_head import LogitsChoice, choose_logits
from armada.launch.training.teacher import check_tokens, refuse_fewer_words
from armada.launch.training.warmstart import Start, find_start
from armada.provision.container import refuse_cluster
from armada.provision.content import Content
from armada.provision.environment_key import has_package
from armada.provision.hub import HubAnswer, HubModel, ask_hub, find_model
from armada.provision.model import model_content

if TYPE_CHECKING:
    from armada.config.profiles import Profile
    from armada.launch.plans.task import Place
    from armada.protocol.spec import TrainingSection
    from armada.provision.container import Container
    from armada.provision.environment import Environment


class BundledTask(Task[BundledTraining]):
    """The trainer, its data, its model, and where it starts."""

    needs = "payload"
    is_on_cpu = False
    """It only reads its data, on CPUs."""

    @cached_property
    def start(self) -> Start | None:
        """The checkpoint it begins with."""
        return find_start(self.order.database, self.order.session, self.settings)

    @cached_property
    def data(self) -> DataFacts:
        """Its files of data, read through once."""
        known, key = self.order.data, f"{self.settings.task} {self.settings.data.model_dump_json()}"
        if key not in known:
            known[key] = check_data(self.settings.data, self.settings.task)
        return known[key]

    @cached_property
    def sent_data(self) -> dict[Path, Content]:
        """The files to send of each dataset."""
        return take_data(self.data.paths)

    @cached_property
    def sent_model(self) -> Content | None:
        """The model, if it is a folder at home."""
        return model_content(self.settings.local_model) if self.settings.local_model else None

    @cached_property
    def sent_companions(self) -> dict[str, Content]:
        """The models beside the one that is trained, of those that are folders at home."""
        return {name: model_content(Path(name)) for name in self.settings.companions if Path(name).is_absolute()}

    def read_for_all(self) -> dict[str, object]:
        read = {"data": self.data, "sent_data": self.sent_data, "sent_model": self.sent_model}
        read["sent_companions"] = self.sent_companions
        return {**super().read_for_all(), **read}

    def read(self) -> None:
        _ = self.start
        self.rows = self.data.rows
        self.counts_on_host = None in self.data.counts.values() or not self.settings.data.is_local
        check_tokens(self.settings)
        check_hooks(self.settings, self.snapshot.content.files if self.snapshot else ())

    def parts(self, place: Place) -> Parts:
        settings, profile = self.settings, place.need_profile()
        if settings.container is not None:
            refuse_cluster(place.host)  # before the cluster is asked for a model
        _refuse_quantization(settings, profile, place.gpus)
        if not place.host.has_internet:
            self._refuse_hub_companions(place)
        train = settings.train
        batch = resolve_batch(
            train.global_batch_size, train.micro_batch_size, profile.train.micro_batch_size, place.processes
        )
        environment = self.plan_environment(place) if settings.container is None else None
        hub = self._find_model(place)
        answer = self._ask_hub(place, settings.hub_model)
        facts = self._model_facts(hub, answer)
        teacher = self._teacher_facts(place)
        refuse_fewer_words(settings, facts, teacher)
        logits = self._choose_logits(place, facts, batch)
        kernels = choose_kernels(settings, environment, facts.shape, gpus=place.gpus, precision=profile.train.precision)
        training = Training(
            settings=settings,
            profile=profile,
            paths=place.paths,
            environment=environment,
            batch=batch,
            run_id=place.run_id,
            title=place.title,
            gpus=place.gpus,
            cores=place.cores,
            data=self.sent_data,
            model=hub if isinstance(hub, Content) else self.sent_model,
            hub=hub,
            wandb=self._wandb(place, environment),
            start=self.start,
            companions=self.sent_companions,
            logits=logits.word,
            kernels=kernels.word,
        )
        contents, section = training.contents(), training.section()
        return Parts(
            argv=training.argv(),
            variables=training.variables(),
            environment=environment,
            container=self._container(place, profile, section),
            contents=contents,
            files=training.launch_files(),
            training=section,
            watch=None,
            batch=batch,
            hub=hub if isinstance(hub, HubModel) else None,
            precision=profile.train.precision,
            checkpoint_bytes=self._checkpoint_bytes(contents, hub),
            trained=self._trained(
                section, environment, hub, answer, facts, teacher, (logits, kernels), is_divided=training.is_divided
            ),
        )

    def _choose_logits(self, place: Place, facts: ModelFacts, batch: Batch) -> LogitsChoice:
        return choose_logits(
            self.settings,
            facts.shape,
            micro_batch=batch.micro,
            processes=place.processes,
            gpus=place.gpus,
            memory_bytes=None if place.host.batch is not None else place.facts.memory_bytes,
        )

    def _trained(
        self,
        section: TrainingSection,
        environment: Environment | None,
        hub: HubModel | Content | None,
        answer: HubAnswer,
        facts: ModelFacts,
        teacher: ModelFacts | None,
        chosen: tuple[LogitsChoice, KernelsChoice],
        *,
        is_divided: bool,
    ) -> Trained:
        """What the checks read of the training."""
        settings, (logits, kernels) = self.settings, chosen
        return Trained(
            section=section,
            environment=environment,
            model=hub.source if isinstance(hub, Content) else settings.local_model,
            kind=self.data.kind,
            looks=self.data.looks,
            tools=self.data.tools,
            hub_model=settings.hub_model,
            answer=answer,
            max_steps=settings.train.max_steps,
            facts=facts,
            is_divided=is_divided,
            rows=_times(count_rows(settings.data.train, self.data), settings.completions),
            row_bytes=mean_row_bytes(settings.data.train, self.data),
            eval_rows=_whole(_times(count_rows(settings.data.eval_sources, self.data), settings.completions)),
            sequences=settings.sequences,
            has_reference=settings.keeps_reference,
            may_shard=settings.may_shard,
            logits_why=logits.why,
            kernels_why=kernels.why,
            teacher=teacher,
        )

    def _refuse_hub_companions(self, place: Place) -> None:
        for name, key in self.settings.companions.items():
            if name not in self.sent_companions:
                where = self.settings.places.get(key)
                raise PreflightRefused(
                    f"{f'{where}: ' if where else ''}`{key}` is {name} of the hub, and runs on {place.host.name} have no internet",
                    hint=f"hf download {name} --local-dir FOLDER, and give the folder",
                )

    def _find_model(self, place: Place) -> HubModel | Content | None:
        """The hub's model, where a run cannot fetch it by itself."""
        name = self.settings.hub_model
        if place.host.has_internet or name is None:
            return None
        fetches = self.settings.container is None  # an environment of the host fetches it
        secrets = self.settings.secrets
        return find_model(place.session, self.order.home, name, place.variables, secrets, fetches=fetches)

    def _container(self, place: Place, profile: Profile, section: TrainingSection) -> Container | None:
        gpus = 0 if self.is_on_cpu else place.gpus
        needs = training_needs(None if self.is_on_cpu else section.as_json(), profile, gpus=gpus)
        return self.examine_container(place, gpus=gpus, needs=needs)

    def _ask_hub(self, place: Place, name: str | None) -> HubAnswer:
        """What the hub says of a model that the run will fetch itself."""
        from_cache = place.variables.get("HF_HUB_OFFLINE", "") not in {"", "0"}
        if name is None or from_cache or not place.host.has_internet:
            return HubAnswer()
        return ask_hub(place.session, name, place.variables, self.settings.secrets)

    def _model_facts(self, hub: HubModel | Content | None, answer: HubAnswer) -> ModelFacts:
        """What home can read of the model."""
        model = self.settings.model
        if not isinstance(model, str):
            return tiny_model(model.tiny)
        folder = hub.source if isinstance(hub, Content) else self.settings.local_model
        if folder is not None:
            return read_folder(folder)
        told = hub if isinstance(hub, HubModel) else answer
        if told.config is not None:
            return read_model(told.config)
        return ModelFacts(
            problem=told.config_problem or answer.refused or answer.unreachable or "the hub was not asked"
        )

    def _teacher_facts(self, place: Place) -> ModelFacts | None:
        """What home can read of the teacher, where there is one."""
        if not isinstance(self.settings, Distill):
            return None
        teacher, named = self.settings.distill.teacher, self.settings.named_teacher
        if not isinstance(teacher, str):
            return tiny_model(teacher.tiny)
        if named in self.sent_companions:
            return read_folder(Path(teacher))
        answer = self._ask_hub(place, named)
        if answer.config is not None:
            return read_model(answer.config)
        return ModelFacts(problem=answer.refused or answer.unreachable or "the hub was not asked")

    def _wandb(self, place: Place, environment: Environment | None) -> str | None:
        """What `tracking.wandb: auto` means where runs have no internet; None leaves what the experiment says."""
        if place.host.has_internet or self.settings.tracking.wandb != "auto" or environment is None:
            return None
        return "offline" if has_package(environment.requirements, "wandb") else "off"

    def _checkpoint_bytes(self, contents: tuple[Content, ...], hub: HubModel | Content | None) -> int:
        """An upper estimate of what checkpoints take on the host; 0 where the model's size is not known here.

        Full fine-tuning saves weights and two fp32 moments: with bf16 weights five times the model's files. LoRA saves a
        few per cent of them.
        """
        model = sum(content.size_bytes for content in contents if content.kind == "models")
        model += hub.size_bytes if isinstance(hub, HubModel) else 0
        each = model * (0.15 if self.settings.lora is not None else 5)
        return int(each * (self.settings.checkpoint.keep_last + self.outbox_keep))


def _times(rows: float | None, completions: int) -> float | None:
    return None if rows is None else rows * completions


def _whole(rows: float | None) -> int | None:
    return None if rows is None else int(rows)


def _refuse_quantization(experiment: BundledTraining, profile: Profile, gpus: int) -> None:
    wanted = experiment.lora.quantize if experiment.lora is not None else "none"
    if wanted == "none":
        return
    if not gpus:
        raise PreflightRefused(
            f"lora.quantize is {wanted}, for which bitsandbytes needs CUDA GPUs, and this run has none",
            hint="leave it out, or launch on a host with GPUs",
        )
    if profile.train.precision != "bf16":
        raise PreflightRefused(
            f"lora.quantize is {wanted}, which needs bf16, and profile {profile.name} has {profile.train.precision}",
            hint="leave it out, or use a GPU with bf16 (compute capability 8.0)",
        )
