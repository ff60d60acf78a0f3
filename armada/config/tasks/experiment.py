"""The keys of every experiment, whatever its task. None of them names a host."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from armada.config.budget import Budget
from armada.config.checkpoints import Checkpoint, Count, ResumeSettings
from armada.config.data import Data, sources_in
from armada.config.documents import Document, Location, shown
from armada.config.files import Files
from armada.config.labels import GROUP, MOST_TAGS, TAG, group_problem, tag_problem
from armada.config.near_paths import near_path
from armada.config.requirements import Requirement
from armada.config.schedulers import Duration, Line, Size
from armada.config.settings import (
    Environment,
    FilePath,
    FilledText,
    SchemaPart,
    Settings,
    Text,
    VariableName,
    problem,
    shaped,
)
from armada.config.sweep import Sweep
from armada.config.sync import SyncSettings
from armada.config.tasks.job_environment import EnvironmentChoice, JobEnvironment
from armada.config.tasks.registry import TRAININGS, tasks_with
from armada.config.validation import dotted
from armada.errors import ConfigError
from armada.units import DURATION, duration_s


def _tag(text: str) -> str:
    if (wrong := tag_problem(text)) is not None:
        raise problem(wrong)
    return text


def _group(text: str) -> str:
    if (wrong := group_problem(text)) is not None:
        raise problem(wrong)
    return text


TagName = Annotated[Text, AfterValidator(_tag), shaped(TAG)]
GroupName = Annotated[Text, AfterValidator(_group), shaped(GROUP)]

StallAfter = Annotated[FilledText, shaped(re.compile(f"never|{DURATION.pattern}"), blanks=True)]

_SAYS_NOTHING: tuple[Any, ...] = (None, [], "")


class Resources(Settings):
    gpus: Literal["all"] | Annotated[int, Field(ge=0)] | None = None
    """How many GPUs, or `all`; by default every GPU of the profile, for a command none."""
    processes: Count | None = None
    """Without GPUs, how many share the work; with them there is one for each."""
    cpus: Count | None = None
    """Cores, where a batch system hands them out; by default what the host says for each GPU."""
    memory: Size | None = None
    """Memory for all of the run, `64G`; by default what the site gives."""
    disk: Size | None = None
    """Scratch space, which HTCondor hands out."""
    time_limit: Duration | None = None
    """How long an attempt may take, on any host; the run saves a checkpoint at its end. By default what the host says."""

    @model_validator(mode="after")
    def _one_process_a_gpu(self) -> Resources:
        if isinstance(self.gpus, int) and self.gpus and self.processes not in {None, self.gpus}:
            raise problem(f"must be {self.gpus}, one for each GPU, or be left out", key="processes")
        return self


class Experiment(Settings):
    """What to run, with the keys of every task; `armada.config.tasks.registry` names the model of each task."""

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
        "envs": "env",
        "venv": "environment",
        "variables": "env",
        "modules": "setup",
        "module": "setup",
    }

    also_written: ClassVar[dict[str, SchemaPart]] = {"resume": {"type": "array", "items": {"type": "string"}}}

    takes_gpus: ClassVar[bool] = True
    """Without `resources.gpus` it runs on every GPU of its profile, and so needs a profile."""

    nothing_said: ClassVar[frozenset[str]] = frozenset()
    """Keys for which `null` is the same as leaving them out."""

    name: FilledText
    """Free text; run ids and folders are made from it."""
    task: str
    """What the run does."""
    code: FilePath | None = None
    """Folder whose git-tracked and not-ignored files travel; the run works in a copy."""
    data: Data | None = None
    """What is trained on, or what a script or command reads."""
    files: Files = Field(default_factory=dict)
    """Further files and folders that the job finds in its folder, by their names there; each is put on the host once."""
    checkpoint: Checkpoint | None = None
    """How its checkpoints are found; without it none come home."""
    resume: ResumeSettings | None = None
    """How the run continues from its own checkpoints."""
    resources: Resources = Resources()
    """GPUs, processes, memory and time."""
    secrets: Annotated[tuple[VariableName, ...], Field(strict=False)] = ()
    """Names of variables taken from home's environment."""
    env: Environment = Field(default_factory=dict)
    """Further variables for the job."""
    environment: EnvironmentChoice = None
    """Python of the job: `profile` or packages of your own; trainings and scripts have the profile's, commands none."""
    setup: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Lines of shell that a login shell runs before the job, at each attempt: `[module load cuda/12.4]`."""
    stop_grace_s: Annotated[float, Field(ge=0)] = 60.0
    """Seconds between SIGTERM and SIGKILL."""
    stall_after: StallAfter | None = None
    """How long a run may make no progress before it is called stalled: `30m`, `never`. `task: sft` has 30m."""
    budget: Budget | Annotated[float, Field(gt=0, le=1e9)] | None = None
    """`{cost: 20 EUR}` or `{hours: 5}`: then it saves and is stopped. A number alone: what it may cost before you are told."""
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    """How often the daemon resumes it by itself after its host was restarted or its supervisor killed; a batch system does that anyway."""
    sync: SyncSettings = SyncSettings()
    """What comes home, how often, how fast."""
    group: GroupName | None = None
    """Group of runs that the run is listed with, such as a sweep. Home alone knows it; it changes nothing of the run."""
    tags: Annotated[tuple[TagName, ...], Field(strict=False, max_length=MOST_TAGS)] = ()
    """Words to find the run by: `[arc, baseline]`. Home alone knows them; they change nothing of the run."""
    sweep: Sweep | None = None
    """Settings that `armada sweep` varies; each combination is a run of its own."""
    origin: Path | None = Field(default=None, exclude=True, repr=False)
    follows: str | None = Field(default=None, exclude=True, repr=False)
    """The run that this launch follows, from its command."""
    places: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """`file:line` (or the override) of every key that was written."""
    requirement_lines: Annotated[tuple[Requirement, ...], Field(exclude=True, repr=False)] = ()
    """`environment.requirements`, read."""

    @property
    def needs_profile(self) -> bool:
        """Whether it runs on the GPUs of its profile unless it says otherwise, or in an environment made for it."""
        is_made = self.existing is not None or self.container is not None
        return self.takes_gpus or (self.environment is not None and not is_made)

    @property
    def existing(self) -> JobEnvironment | None:
        """The environment, where the user made it on the host."""
        environment = self.environment
        is_there = (
            isinstance(environment, JobEnvironment) and environment.container is None and not environment.is_built
        )
        return environment if is_there and isinstance(environment, JobEnvironment) else None

    @property
    def container(self) -> str | None:
        """The image in which the job runs; None if it runs on the host itself."""
        return self.environment.container if isinstance(self.environment, JobEnvironment) else None

    @classmethod
    def refusal(cls, key: str) -> tuple[str, str | None] | None:
        """Explain that a key belongs to other tasks; None if no task has it.

        Returns:
            What is wrong with it, and what to do.
        """
        owners = tasks_with(key)
        if not owners:
            return None
        named = " or ".join(f"`task: {task}`" for task in owners)
        return f"belongs to {named}", f"leave it out, or write task: {owners[0]}"

    def find_files(self, document: Document) -> Self:
        """Check that the files and folders it names exist.

        Args:
            document: Where it stands, for the lines of what is wrong.

        Returns:
            The experiment, with what only the file system tells.

        Raises:
            ConfigError: One is not there.
        """
        if self.code is not None and not self.code.is_dir():
            raise no_folder(document, ("code",), "code", self.code)
        for split in ("train", "eval"):
            for location, item in sources_in(getattr(self.data, split, ())):
                if item.path is not None and not self.is_data(item.path):
                    at = ("data", split, *location, "path")
                    place = document.value_place(at)
                    message = f"`{dotted(at)}`: there is no file {shown(str(item.path), 500)}"
                    raise place.error(message, near_path(item.path, _folder(document), self.is_data))
        for name, source in self.files.items():
            if source.path is not None and not (source.path.is_file() or source.path.is_dir()):
                place = document.value_place(("files", name))
                message = f"`files.{name}`: there is no file or folder {shown(str(source.path), 500)}"
                raise place.error(message, near_path(source.path, _folder(document), Path.exists))
        if isinstance(self.environment, JobEnvironment):
            return self.model_copy(update={"requirement_lines": self.environment.read(document)})
        return self

    def is_data(self, path: Path) -> bool:
        """Whether a path can be data: any file or folder."""
        return path.is_file() or path.is_dir()

    @field_validator("budget", mode="before")
    @classmethod
    def _says_what_happens(cls, value: object) -> object:
        if isinstance(value, str):
            hint = f"budget: {{cost: {value[:40]}}} stops the run then; budget: 20 only tells you"
            raise problem(f"{shown(value)} does not say what it is", hint=hint)
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
                raise problem(f"{name} is listed twice")
        return value

    @model_validator(mode="before")
    @classmethod
    def _leave_out_what_says_nothing(cls, data: Any) -> Any:
        """`--set train=` takes a key away; one that is empty and another task's hinders nobody."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if not cls._says_nothing(key, value)}

    @classmethod
    def _says_nothing(cls, key: object, value: Any) -> bool:
        if key in cls.nothing_said:
            return value is None
        return key not in cls.model_fields and value in _SAYS_NOTHING and bool(tasks_with(str(key)))

    @model_validator(mode="after")
    def _no_setup_around_a_container(self) -> Self:
        if self.setup and self.container is not None:
            message = "runs on the host, where the container does not see what it sets"
            hint = "run the lines in the container: command: [sh, -c, '…; exec …']"
            if self.task in TRAININGS:
                hint = "build an image in which they are done, and name that one"
            raise problem(message, key="setup", hint=hint)
        return self

    @model_validator(mode="after")
    def _one_source_a_variable(self) -> Self:
        if both := sorted(set(self.secrets) & set(self.env)):
            raise problem(f"{both[0]} is in `secrets` and in `env`: keep one of them", key="secrets")
        return self

    @model_validator(mode="after")
    def _saves_where_armada_reads(self) -> Self:
        """Armada does not follow links to the host: what a job saves behind one would never come home."""
        wanted = [("sync.outputs", pattern) for pattern in self.sync.outputs]
        if self.checkpoint is not None and self.checkpoint.pattern is not None:
            wanted.append(("checkpoint.pattern", self.checkpoint.pattern))
        for name in (name for name, source in self.files.items() if source.host is not None):
            for key, pattern in wanted:
                if PurePosixPath(pattern).is_relative_to(name):
                    raise problem(
                        f"{shown(pattern)} lies behind the link `files.{name}`, from which nothing comes home",
                        key=key,
                        hint="save to another folder",
                    )
        return self


def find_file(document: Document, key: str, file: Path | None) -> None:
    """Check that the file that a key names exists.

    Raises:
        ConfigError: It is not there.
    """
    if file is not None and not file.is_file():
        message = f"`{key}`: there is no file {shown(str(file), 500)}"
        raise document.value_place((key,)).error(message, near_path(file, _folder(document), Path.is_file))


def no_folder(document: Document, location: Location, key: str, folder: Path) -> ConfigError:
    """Return the error about a folder that is not there, with the nearest name."""
    message = f"`{key}`: there is no folder {shown(str(folder), 500)}"
    return document.value_place(location).error(message, near_path(folder, _folder(document), Path.is_dir))


def _folder(document: Document) -> Path:
    return document.path.absolute().parent
