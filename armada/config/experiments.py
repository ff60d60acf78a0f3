"""Experiments: what to train; nothing in them names a host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from armada.config.checkpoints import Checkpoint, Count, ResumeSettings
from armada.config.documents import Document, read_document, shown
from armada.config.model_names import mistyped_folder
from armada.config.overrides import apply_override
from armada.config.schedulers import Duration, Size
from armada.config.settings import Environment, FilePath, FilledText, Settings, Text, VariableName, problem, shaped
from armada.config.sync import SyncSettings
from armada.config.training import HUB_ID, Data, Evaluation, Lora, StartFrom, TinyChoice, Train
from armada.config.validation import validate, written_places
from armada.units import DURATION, duration_s

_TRAINING_ONLY = ("model", "train", "lora", "start_from", "evaluation", "tracking")
_SCRIPT_ONLY = ("script", "arguments")
_WITH_DEFAULTS = ("checkpoint", "resume", "evaluation", "tracking")


class Resources(Settings):
    gpus: Literal["all"] | Annotated[int, Field(ge=0)] | None = None
    """None: every GPU of the profile."""
    processes: Count | None = None
    """Without GPUs, how many share the work; with them there is one for each."""
    cpus: Count | None = None
    """Cores, where a batch system hands them out; None: what the host says for each GPU."""
    memory: Size | None = None
    """Memory for all of the run, `64G`; None: what the site gives."""
    disk: Size | None = None
    """Scratch space, which HTCondor hands out."""
    time_limit: Duration | None = None
    """How long an attempt may take, on any host; the run saves a checkpoint at its end. None: what the host says."""

    @model_validator(mode="after")
    def _one_process_a_gpu(self) -> Resources:
        if isinstance(self.gpus, int) and self.gpus and self.processes not in {None, self.gpus}:
            raise problem(f"must be {self.gpus}, one for each GPU, or be left out", key="processes")
        return self


class Tracking(Settings):
    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    project: FilledText | None = None


class Experiment(Settings):
    """What to train (`task: sft`), or to run: a script under accelerate (`task: script`), anything (`task: command`)."""

    other_names: ClassVar[dict[str, str]] = {
        "dataset": "data",
        "datasets": "data",
        "base_model": "model",
        "model_name_or_path": "model",
        "peft": "lora",
        "cmd": "command",
        "args": "arguments",
        "program": "script",
        "run": "command",
        "environment": "env",
        "envs": "env",
    }

    also_written: ClassVar[dict[str, dict[str, Any]]] = {
        "resume": {"type": "array", "items": {"type": "string"}},
        "start_from": {"type": "string"},
    }

    name: FilledText
    task: Literal["sft", "script", "command"]
    script: FilledText | None = None
    """A Python file below `code`, started by accelerate once per GPU with the profile's flags."""
    arguments: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """The script's."""
    command: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = None
    model: FilledText | TinyChoice | None = None
    """A hub id, an absolute folder, or a tiny one made on the spot."""
    code: FilePath | None = None
    data: Data | None = None
    train: Train | None = None
    lora: Lora | None = None
    """None trains every weight."""
    start_from: StartFrom | None = None
    checkpoint: Checkpoint | None = None
    """Never None for `task: sft`; elsewhere None where no pattern finds any."""
    resume: ResumeSettings | None = None
    """Never None for `task: sft`, as the next."""
    evaluation: Evaluation | None = None
    resources: Resources = Resources()
    accelerate: FilePath | None = None
    """A file of accelerate's own, for what neither profile nor experiment says; what it repeats must agree."""
    deepspeed: FilePath | None = None
    """A DeepSpeed configuration, under the same rule."""
    tracking: Tracking | None = None
    """Never None for `task: sft`."""
    secrets: Annotated[tuple[VariableName, ...], Field(strict=False)] = ()
    """Names of variables taken from home's environment."""
    env: Environment = Field(default_factory=dict)
    stop_grace_s: Annotated[float, Field(ge=0)] = 60.0
    stall_after: Annotated[FilledText, shaped(re.compile(f"never|{DURATION.pattern}"), blanks=True)] | None = None
    """For how long nothing may get on before the run is called stalled: `30m`, `never`. `task: sft` has 30m."""
    budget: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """In the money of its host's `price_per_hour`: what it may cost before somebody is told."""
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    """How often the daemon resumes it by itself after its host was restarted or its supervisor killed; a batch system does that anyway."""
    sync: SyncSettings = SyncSettings()
    origin: Path | None = Field(default=None, exclude=True, repr=False)
    places: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """`file:line` (or the override) of every key that was written."""

    @property
    def local_model(self) -> Path | None:
        """The model's folder, if it is one here."""
        return Path(self.model) if isinstance(self.model, str) and Path(self.model).is_absolute() else None

    @field_validator("command", mode="before")
    @classmethod
    def _command_is_a_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise problem(
                "must be a list of words: no shell reads it", hint=f'for a shell write: command: [sh, -c, "{value}"]'
            )
        return value

    @field_validator("model", mode="before")
    @classmethod
    def _model_is_a_name_or_tiny(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str | dict | TinyChoice):
            raise problem(f"must be a hub id, a folder, or {{tiny: {{}}}}, not {shown(value)}")
        return value

    @field_validator("script")
    @classmethod
    def _script_lies_in_the_code(cls, value: str | None) -> str | None:
        if value is not None and (value.startswith(("/", "~", "-")) or ".." in Path(value).parts):
            raise problem(f"must be a file below `code`, relative to it, not {shown(value)}")
        return value

    @field_validator("stall_after")
    @classmethod
    def _is_a_span(cls, value: str | None) -> str | None:
        try:
            seconds = 10.0 if value in (None, "never") else duration_s(value)
        except ValueError:
            raise problem(f"{value!r} is not a duration", hint="write 30m, 2h or never") from None
        if not 10 <= seconds <= 30 * 86_400:
            raise problem(f"{value} is not between 10s and 30d", hint="write 30m, 2h or never")
        return value

    @field_validator("secrets")
    @classmethod
    def _capital_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
                raise problem(
                    f"{shown(name)} must be the NAME of a variable, in capitals; values are taken from the environment"
                )
            if value.count(name) > 1:
                raise problem(f"{name} stands there twice")
        return value

    @model_validator(mode="before")
    @classmethod
    def _keys_of_its_task(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.get("task") in ("command", "script"):  # a list, which has no hash, is refused with its line
            for key in _TRAINING_ONLY:
                if data.get(key) is not None:
                    raise problem(
                        f"belongs to `task: sft`; a {data['task']} brings its own training",
                        key=key,
                        hint="leave it out",
                    )
        for key in _SCRIPT_ONLY:
            if data.get("task") != "script" and data.get(key):
                raise problem("belongs to `task: script`", key=key, hint="leave it out, or write task: script")
        if data.get("task") == "sft":
            defaults: dict[str, Any] = {"stall_after": "30m"} | {key: {} for key in _WITH_DEFAULTS}
            return {**data, **{key: value for key, value in defaults.items() if data.get(key) is None}}
        return data

    @model_validator(mode="after")
    def _fits_its_task(self) -> Experiment:
        if self.task != "command" and self.command is not None:
            raise problem("belongs to `task: command`", key="command", hint="leave it out, or write task: command")
        if self.task == "command" and self.command is None:
            raise problem("needs `command: [program, argument, …]`", key="task")
        if self.task == "script":
            for key in ("script", "code"):
                if getattr(self, key) is None:
                    raise problem("is missing; `task: script` needs the script and its `code`", key=key)
        if self.task == "sft":
            for key in ("model", "data", "train"):
                if getattr(self, key) is None:
                    raise problem("is missing; `task: sft` needs model, data and train", key=key)
        else:
            self._check_data_of_jobs()
        self._check_checkpoints()
        self._check_files_of_launchers()
        if self.train and self.train.eval_every_steps and self.data and not self.data.eval:
            raise problem("has nothing to evaluate: data.eval is empty", key="train.eval_every_steps")
        if self.evaluation and self.evaluation.samples and self.data and not self.data.eval:
            raise problem("takes its prompts from data.eval, which is empty", key="evaluation.samples")
        if self.train and self.data and self.data.has_hook:
            self._check_hooks(self.train)
        if both := sorted(set(self.secrets) & set(self.env)):
            raise problem(f"{both[0]} is in `secrets` and in `env`: which one should the job see?", key="secrets")
        return self

    def _check_data_of_jobs(self) -> None:
        """Scripts and commands find files where they lie in the project; nothing is read or mixed for them."""
        data = self.data
        for split in ("train", "eval"):
            for index, source in enumerate(getattr(data, split, ())):
                key = f"data.{split}[{index}]"
                if source.path is None:
                    raise problem(f"needs `path`: a {self.task} gets files, and fetches all else itself", key=key)
                if source.weight != 1.0:
                    raise problem(f"belongs to `task: sft`; a {self.task} mixes its data itself", key=f"{key}.weight")
        if data is not None and data.workers:
            raise problem(f"belongs to `task: sft`; a {self.task} reads its data itself", key="data.workers")

    def _check_checkpoints(self) -> None:
        """The trainer is told when to save and where from to resume; other jobs decide that themselves."""
        checkpoint, resume = self.checkpoint, self.resume
        if self.task == "sft":
            if checkpoint and checkpoint.pattern is not None:
                raise problem("finds the checkpoints of scripts and commands", key="checkpoint.pattern")
            if resume and resume.arguments:
                raise problem("are for scripts and commands: `task: sft` finds its checkpoint", key="resume.arguments")
            return
        if checkpoint and checkpoint.pattern is None:
            raise problem("is missing: a job of your own decides itself when it saves", key="checkpoint.pattern")
        for key in ("every_steps", "every_minutes"):
            if checkpoint and getattr(checkpoint, key) is not None:
                raise problem(
                    "belongs to `task: sft`; a job of your own decides when it saves", key=f"checkpoint.{key}"
                )
        if resume and resume.accept_changes:
            raise problem("belongs to `task: sft`", key="resume.accept_changes", hint="leave it out")
        if resume and resume.arguments and checkpoint is None:
            raise problem("needs `checkpoint.pattern`, by which checkpoints are found", key="resume")

    def _check_files_of_launchers(self) -> None:
        if self.task == "command" and (self.accelerate or self.deepspeed):
            key = "accelerate" if self.accelerate else "deepspeed"
            raise problem("belongs to trainings and scripts: a command is started as it is", key=key)
        if self.task == "script" and self.deepspeed:
            raise problem(
                "is handed to the bundled trainer; a script names its own",
                key="deepspeed",
                hint="accelerate: FILE with distributed_type: DEEPSPEED",
            )

    def _check_hooks(self, train: Train) -> None:
        if self.code is None:
            raise problem("has a hook, which comes from `code`, and there is none", key="data.train", hint="code: .")
        if train.max_steps is None:
            raise problem("needs max_steps: what a hook makes has no end, so no epochs", key="train")
        for key in ("packing", "group_by_length"):
            if getattr(train, key):
                raise problem("needs rows that are there beforehand, not a hook's", key=f"train.{key}")
        if train.long_samples == "split":
            raise problem("split needs rows that are there beforehand: a hook can split", key="train.long_samples")


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment; what it names must be there. Relative paths, in overrides too, are relative to its file.

    Args:
        path: The file.
        overrides: `train.seed=7`, each put over the file; later ones win.

    Raises:
        ConfigError: The file, an override, or something they name is wrong.
    """
    document = read_document(path.expanduser())
    folder = document.path.absolute().parent
    for text in overrides:
        apply_override(document, text)
    given = {"origin": document.path.absolute(), "places": written_places(document)}
    experiment = validate(document, Experiment, given=given, context={"folder": folder})
    _check_files(experiment, document)
    if isinstance(experiment.model, str):
        return experiment.model_copy(update={"model": _model(experiment.model, folder, document)})
    return experiment


def _check_files(experiment: Experiment, document: Document) -> None:
    if experiment.code is not None and not experiment.code.is_dir():
        raise document.value_place(("code",)).error(f"`code`: there is no folder {shown(str(experiment.code), 500)}")
    start = experiment.start_from.path if experiment.start_from else None
    if start is not None and not start.is_dir():
        place = document.value_place(("start_from", "path"))
        raise place.error(f"`start_from.path`: there is no folder {shown(str(start), 500)}")
    if (
        experiment.script is not None
        and experiment.code is not None
        and not (experiment.code / experiment.script).is_file()
    ):
        place = document.value_place(("script",))
        raise place.error(f"`script`: there is no file {shown(str(experiment.code / experiment.script), 500)}")
    for key in ("accelerate", "deepspeed"):
        file = getattr(experiment, key)
        if file is not None and not file.is_file():
            raise document.value_place((key,)).error(f"`{key}`: there is no file {shown(str(file), 500)}")
    for split in ("train", "eval"):
        for index, item in enumerate(getattr(experiment.data, split, ())):
            if item.path is not None and not _is_data(item.path, experiment.task):
                place = document.value_place(("data", split, index, "path"))
                raise place.error(f"`data.{split}[{index}].path`: there is no file {shown(str(item.path), 500)}")


def _is_data(path: Path, task: str) -> bool:
    """Whether a path can be data: for a job of the user's own any file or folder."""
    return path.is_file() or (path.is_dir() if task != "sft" else (path / "state.json").is_file())


def _model(name: str, base: Path, document: Document) -> str:
    folder = base / (Path(name).expanduser() if name.startswith("~/") else name)
    if folder.is_dir():
        return str(folder)
    place = document.value_place(("model",))
    if name.startswith(("/", "./", "../", "~")) or name in {".", ".."}:
        raise place.error(f"`model`: there is no folder {shown(str(folder), 500)}")
    if not HUB_ID.fullmatch(name):
        raise place.error(f"`model`: {shown(name)} is neither a folder nor a hub id", "a hub id reads owner/name")
    if meant := mistyped_folder(name, base):
        hint = f"did you mean {meant}? Where the hub's model is meant, rename that folder"
        raise place.error(f"`model`: there is no folder {shown(name)}, and there is {shown(meant)}", hint)
    return name
