"""What every task of the bundled trainer says: the model, the data and how it is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from armada.config.checkpoints import Checkpoint, ResumeSettings
from armada.config.data import HUB_ID, Data
from armada.config.documents import Document, shown
from armada.config.model_names import mistyped_folder
from armada.config.near_paths import near_path
from armada.config.optimizers import PLAIN
from armada.config.settings import FilePath, FilledText, SchemaPart, problem
from armada.config.tasks.experiment import Experiment, StallAfter, find_file, no_folder
from armada.config.tracking import Tracking
from armada.config.training import (
    CHANGES_BASE,
    FSDP_WORDS,
    SHARDED_WORDS,
    Evaluation,
    Lora,
    StartFrom,
    TinyChoice,
    Train,
)
from armada.config.validation import dotted, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.documents import Location
    from armada.config.settings import Settings

_NEEDED = ("model", "data", "train")
_WITH_DEFAULTS = ("checkpoint", "resume", "evaluation", "tracking")


class BundledTraining(Experiment):
    """What to train, on what, and how. Each task of the bundled trainer is a subclass, with what is its own."""

    also_written: ClassVar[dict[str, SchemaPart]] = {
        **{key: {"type": "null"} for key in _WITH_DEFAULTS},
        "resume": {"type": ["array", "null"], "items": {"type": "string"}},
        "start_from": {"type": "string"},
    }
    nothing_said: ClassVar[frozenset[str]] = frozenset({*_NEEDED, *_WITH_DEFAULTS, "stall_after"})
    if_missing: ClassVar[dict[str, str]] = dict.fromkeys(_NEEDED, "a training needs model, data and train")

    makes_rows: ClassVar[bool] = False
    """Whether a hook may make its rows."""
    packs: ClassVar[bool] = False
    """Whether `train.packing` goes with it."""
    splits: ClassVar[bool] = False
    """Whether `train.long_samples: split` goes with it."""
    shards: ClassVar[tuple[str, ...]] = ()
    """The words of `train.sharding` that may divide its model among the processes."""
    whole_logits: ClassVar[bool] = False
    """Whether its loss may be computed of all logits at once (`train.logits: whole`)."""
    generates: ClassVar[bool] = True
    """Whether its model generates text; otherwise it scores texts."""
    has_reference: ClassVar[bool] = False
    """Whether it is compared with the model as it was."""
    eval_metrics: ClassVar[tuple[str, ...]] = ("eval_loss",)
    """What its evaluation computes that tells better from worse."""
    sequences: ClassVar[int] = 1
    """Sequences of tokens in a row of data."""
    samples: ClassVar[bool] = False
    """Whether it trains on completions that its model samples meanwhile."""

    model: FilledText | TinyChoice
    """A hub id, an absolute folder, or a tiny one made on the spot."""
    data: Data
    """What is trained on, or what a script or command reads."""
    train: Train
    """How it is trained."""
    lora: Lora | None = None
    """A LoRA adapter; without it every weight is trained."""
    start_from: StartFrom | None = None
    """Another training's weights to begin with."""
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    """When one is saved, and how many are kept."""
    resume: ResumeSettings = Field(default_factory=ResumeSettings)
    """How the run continues from its own checkpoints."""
    evaluation: Evaluation = Field(default_factory=Evaluation)
    """Sample answers after each evaluation."""
    accelerate: FilePath | None = None
    """A file of accelerate's own, for what neither profile nor experiment says; what it repeats must agree."""
    deepspeed: FilePath | None = None
    """A DeepSpeed configuration, under the same rule."""
    tracking: Tracking = Field(default_factory=Tracking)
    """Where curves are reported, beside armada."""
    stall_after: StallAfter | None = "30m"

    @property
    def own(self) -> Settings | None:
        """The settings of this task alone, which stand below its name."""
        return None

    @property
    def needs_reference(self) -> bool:
        """Whether its settings compare it with the model as it was."""
        return self.has_reference

    @property
    def keeps_reference(self) -> bool:
        """Whether a second copy of the model is in memory, which is never trained."""
        return self.needs_reference and self.lora is None

    @property
    def completions(self) -> int:
        """Completions of each row in a step; the batch sizes count them."""
        return 1

    @property
    def companions(self) -> dict[str, str]:
        """Models beside the one that is trained, with the key that names each."""
        return {}

    @property
    def functions(self) -> dict[str, str]:
        """Functions of the user's code, `module:function`, by the key that names each."""
        return {} if self.evaluation.function is None else {"evaluation.function": self.evaluation.function}

    def objective_section(self, _places: Mapping[str, str]) -> dict[str, object]:
        """What the payload is told of the task's own settings; `places` are the folders of companions on the host."""
        return self.own.model_dump(mode="json") if self.own is not None else {}

    def train_section(self) -> dict[str, object]:
        """What the payload is told of `train` where the task decides it."""
        return {}

    @property
    def local_model(self) -> Path | None:
        """The model's folder, if it is a folder at home."""
        return Path(self.model) if isinstance(self.model, str) and Path(self.model).is_absolute() else None

    @property
    def hub_model(self) -> str | None:
        """The model's id, if it is a hub id."""
        return self.model if isinstance(self.model, str) and self.local_model is None else None

    def find_files(self, document: Document) -> Self:
        start = self.start_from.path if self.start_from else None
        if start is not None and not start.is_dir():
            raise no_folder(document, ("start_from", "path"), "start_from.path", start)
        find_file(document, "accelerate", self.accelerate)
        find_file(document, "deepspeed", self.deepspeed)
        found = super().find_files(document)
        if not isinstance(self.model, str):
            return found
        return found.model_copy(update={"model": named_model(self.model, document)})

    def is_data(self, path: Path) -> bool:
        """A file, or what `datasets` saved."""
        return path.is_file() or (path / "state.json").is_file()

    @field_validator("model", mode="before")
    @classmethod
    def _model_is_a_name_or_tiny(cls, value: Any) -> Any:
        if not isinstance(value, str | dict | TinyChoice):
            raise problem(f"must be a hub id, a folder, or {{tiny: {{}}}}, not {shown(value)}")
        return value

    @model_validator(mode="after")
    def _keeps_to_tested_releases(self) -> Self:
        if (named := self.existing) is not None:
            key = "environment.conda" if named.conda is not None else "environment.existing"
            message = "belongs to scripts and commands: the bundled trainer needs the releases it is tested with"
            raise problem(message, key=key, hint="environment: {requirements: …} adds packages to them")
        return self

    @model_validator(mode="after")
    def _finds_its_own_checkpoints(self) -> Self:
        if self.checkpoint.pattern is not None:
            raise problem("finds the checkpoints of scripts and commands", key="checkpoint.pattern")
        if self.resume.arguments:
            raise problem(
                f"are for scripts and commands: `task: {self.task}` finds its checkpoint", key="resume.arguments"
            )
        return self

    @model_validator(mode="after")
    def _evaluates_on_something(self) -> Self:
        if self.train.eval_every_steps and not self.data.eval:
            raise problem("has nothing to evaluate: data.eval is empty", key="train.eval_every_steps")
        for key in ("samples", "function"):
            if getattr(self.evaluation, key) and not self.data.eval:
                raise problem("takes its prompts from data.eval, which is empty", key=f"evaluation.{key}")
        return self

    @property
    def compared_metrics(self) -> tuple[str, ...]:
        """What its evaluations compute that tells better from worse: of all rows, and of each set that has a name."""
        sets = [name for name in self.data.eval_sets if name]
        of_sets = (f"eval_{name}_{each.removeprefix('eval_')}" for name in sets for each in self.eval_metrics)
        return (*self.eval_metrics, *of_sets)

    @model_validator(mode="after")
    def _computes_what_ends_it(self) -> Self:
        rule = self.train.stop_early
        if rule is None:
            return self
        if not self.data.eval:
            raise problem(
                f"waits for {rule.metric or self.train.best_by}, and data.eval is empty", key="train.stop_early"
            )
        if self.train.eval_every_steps is None:
            message = "needs train.eval_every_steps: otherwise only the beginning and the end are evaluated"
            raise problem(message, key="train.stop_early", hint="train.eval_every_steps: 100")
        if rule.metric is not None:
            self._refuse_unknown_metric(rule.metric, "train.stop_early.metric")
        return self

    @model_validator(mode="after")
    def _computes_what_is_best(self) -> Self:
        best = self.train.best_metric
        if best is None:
            return self
        if not self.data.eval:
            raise problem(f"is {best.name}, and data.eval is empty", key="train.best_metric")
        self._refuse_unknown_metric(best.name, "train.best_metric")
        return self

    def _refuse_unknown_metric(self, metric: str, key: str) -> None:
        known = self.compared_metrics
        if metric not in known and self.evaluation.function is None:  # whose metrics only its first call tells
            near = nearest(metric, known)
            hint = f"did you mean {near}?" if near is not None else f"choose {' or '.join(known[:8])}"
            raise problem(f"{metric} is never computed by `task: {self.task}`", key=key, hint=hint)

    @model_validator(mode="after")
    def _goes_with_the_task(self) -> Self:
        task = f"`task: {self.task}`"
        if self.data.has_hook and not self.makes_rows:
            raise problem(f"cannot have a hook with {task}", key="data.train", hint="write its rows to a file")
        if self.train.packing and not self.packs:
            raise problem(f"does not go with {task}: a row is compared as a whole", key="train.packing")
        if self.train.long_samples == "split" and not self.splits:
            raise problem(
                f"split does not go with {task}: a row is compared as a whole",
                key="train.long_samples",
                hint="drop or truncate",
            )
        for key in ("samples", "function"):
            if getattr(self.evaluation, key) and not self.generates:
                raise problem(f"the model of {task} generates no text", key=f"evaluation.{key}", hint="leave it out")
        return self

    @model_validator(mode="after")
    def _can_be_divided(self) -> Self:
        word, key = self.train.sharding, "train.sharding"
        if self.deepspeed is not None and word in FSDP_WORDS:
            raise problem(f"{word} does not go with `deepspeed`: one of them divides the model", key=key)
        if word != "none" and self.train.optimizer.name != "adamw":
            said = f"`train.sharding: {word}` is tried with adamw alone, whose state it divides"
            raise problem(said, key="train.optimizer", hint="leave it out, or `train: {sharding: none}`")
        if word not in SHARDED_WORDS:
            return self
        if word not in self.shards:
            why = (
                f"which {' and '.join(self.shards)} alone divide"
                if self.shards
                else "which samples from the whole model"
            )
            hint = self.shards[0] if self.shards else "leave it out; `lora: {}` needs less memory"
            raise problem(f"{word} does not go with `task: {self.task}`, {why}", key=key, hint=hint)
        if self.lora is not None and self.lora.quantize != "none":
            hint = "zero2, or leave `lora.quantize` out: the base is divided among the GPUs instead"
            raise problem(
                f"{word} does not go with `lora.quantize`: a base in 4 bits is not divided", key=key, hint=hint
            )
        if word in FSDP_WORDS and self.lora is not None and self.lora.modules_to_save:
            raise problem(
                f"`train.sharding: {word}` would not add up their gradients",
                key="lora.modules_to_save",
                hint="zero3, or leave them out",
            )
        if self.start_from is not None and self.start_from.optimizer:
            raise problem(
                f"`train.sharding: {word}` divides the moments otherwise than that run did",
                key="start_from.optimizer",
                hint="leave it out, or `train: {sharding: none}`",
            )
        return self

    @property
    def may_shard(self) -> bool:
        """Whether `train.sharding: fsdp`, which it does not say, would go with everything else that it says."""
        lora, start = self.lora, self.start_from
        return (
            FSDP_WORDS[0] in self.shards
            and self.train.sharding == "none"
            and self.deepspeed is None
            and self.accelerate is None
            and self.train.optimizer.name == "adamw"
            and self.train.logits != "whole"
            and (lora is None or (lora.quantize == "none" and not lora.modules_to_save))
            and (start is None or not start.optimizer)
        )

    @model_validator(mode="after")
    def _writes_in_the_background(self) -> Self:
        if not self.checkpoint.in_background:
            return self
        key, word, optimizer = "checkpoint.in_background", self.train.sharding, self.train.optimizer.name
        if self.deepspeed is not None or word not in ("none", *FSDP_WORDS):
            by = "`deepspeed`" if word == "none" else f"`train.sharding: {word}`"
            said = f"does not go with {by}: DeepSpeed writes its checkpoints itself"
            raise problem(said, key=key, hint="leave it out, or `train: {sharding: fsdp}`")
        if optimizer not in PLAIN:
            said = f"does not go with `train.optimizer: {optimizer}`, whose state is no plain tensors"
            raise problem(said, key=key, hint=f"leave it out, or use {' or '.join(PLAIN[:2])}")
        return self

    @model_validator(mode="after")
    def _has_all_logits(self) -> Self:
        if self.train.logits != "whole":
            return self
        if not self.whole_logits:
            raise problem(f"whole does not go with `task: {self.task}`", key="train.logits", hint="leave it out")
        if self.train.sharding in SHARDED_WORDS:
            said = f"whole does not go with `train.sharding: {self.train.sharding}`, which divides the output head"
            raise problem(said, key="train.logits", hint="tiles, or leave it out")
        return self

    @model_validator(mode="after")
    def _functions_are_somewhere(self) -> Self:
        for key, function in self.functions.items():
            if self.code is None and "." not in function.partition(":")[0]:
                said = f"is {function}, which comes from `code`, and there is none"
                raise problem(said, key=key, hint="code: .")
        return self

    @model_validator(mode="after")
    def _reference_is_known(self) -> Self:
        if self.needs_reference and self.start_from is not None and self.lora is not None:
            raise problem(
                "with `lora`, the reference would be the model without that adapter",
                key="start_from",
                hint="`armada merge` that run, and use the result as `model`",
            )
        if self.needs_reference and self.lora is not None and self.lora.init in CHANGES_BASE:
            raise problem(
                f"{self.lora.init} does not go with `task: {self.task}`: it subtracts the adapter's first value from the model, "
                "so the reference, which is the model without the adapter, would be another one",
                key="lora.init",
                hint="true or gaussian",
            )
        return self

    @model_validator(mode="after")
    def _hooks_go_with_the_rest(self) -> Self:
        if not self.data.has_hook:
            return self
        if self.code is None:
            raise problem("has a hook, which comes from `code`, and there is none", key="data.train", hint="code: .")
        if self.train.max_steps is None:
            raise problem("needs max_steps: a hook's rows have no end, so there are no epochs", key="train")
        for key in ("packing", "group_by_length"):
            if getattr(self.train, key):
                raise problem("needs all rows in advance; a hook makes them during training", key=f"train.{key}")
        if self.train.long_samples == "split":
            raise problem("split needs all rows in advance: a hook can split", key="train.long_samples")
        return self


def named_model(name: str, document: Document, at: Location = ("model",)) -> str:
    """Return a model's folder beside the experiment, or a hub id that no folder was meant by.

    Args:
        name: As the experiment says.
        document: The experiment.
        at: Where it says so.

    Raises:
        ConfigError: It is neither, with the line.
    """
    base, key = document.path.absolute().parent, f"`{dotted(at)}`"
    folder = base / (Path(name).expanduser() if name.startswith("~/") else name)
    if folder.is_dir():
        return str(folder)
    place = document.value_place(at)
    if name.startswith(("/", "./", "../", "~")) or name in {".", ".."}:
        raise place.error(f"{key}: there is no folder {shown(str(folder), 500)}", near_path(folder, base, Path.is_dir))
    if not HUB_ID.fullmatch(name):
        raise place.error(f"{key}: {shown(name)} is neither a folder nor a hub id", "a hub id reads owner/name")
    if meant := mistyped_folder(name, base):
        hint = f"did you mean {meant}? If you mean the model on the hub, rename that folder"
        raise place.error(f"{key}: there is no folder {shown(name)}, and there is {shown(meant)}", hint)
    return name
