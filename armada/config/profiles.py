"""Profiles: how to train on one kind of GPU machine, and which environment to build there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from armada.config.documents import Document, Location, read_document, shown
from armada.config.settings import Environment, FilledText, SchemaPart, Settings, Text, problem, shaped
from armada.config.validation import nearest, validate, written_places
from armada.errors import NotFound
from armada.paths import HomePaths, bundled

# fmt: off
ACCELERATE_KEYS = frozenset({
    # The fields of accelerate 1.15's ClusterConfig: any other stops `accelerate launch` on the host.
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes",
    "machine_rank", "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend",
    "same_network", "main_training_function", "enable_cpu_affinity", "fp8_config", "deepspeed_config",
    "fsdp_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "downcast_bf16", "tpu_name",
    "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env",
    "dynamo_config",
})
# fmt: on

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?(==[A-Za-z0-9.!+_-]+| @ (https?|file)://[^\s]+)")
_PYTHON = re.compile(r"(===?|~=|!=|<=?|>=?)\s*3(\.\d+){0,2}(\.\*)?")
_INDEX = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9._:/~-]*")
_WHEELS = re.compile(r"(https|file)://[A-Za-z0-9/][A-Za-z0-9._:/~%-]*")
_VERSION = re.compile(r"\d+(\.\d+)+([A-Za-z]+\d+)?(\+[A-Za-z0-9.]+)?")


def _pin(line: str) -> str:
    # They become lines of a requirements file, where `-r` and `--index-url` would be options.
    if not _PIN.fullmatch(line):
        raise problem(f"must be pinned: `name==1.2.3` or `name @ https://…`, not {shown(line)}")
    return line


def _python(specifier: str) -> str:
    if not all(_PYTHON.fullmatch(part.strip()) for part in specifier.split(",")):
        raise problem(f"must be versions of Python such as `>=3.11,<3.14`, not {shown(specifier)}")
    return specifier


def _version(version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise problem(f"must be one version such as 2.13.0, not {shown(version)}")
    return version


def _index(url: str) -> str:
    if not _INDEX.fullmatch(url):
        raise problem(f"must be an https URL of a package index, not {shown(url)}")
    return url


def _wheels_url(url: str) -> str:
    if not _WHEELS.fullmatch(url):
        raise problem(f"must be an https or file URL, not {shown(url)}")
    return url


def _list_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise problem(f"must be the name of a file in `requirements/`, not {shown(name)}")
    return name


class Gpus(Settings):
    """The GPUs that the profile is for; `count: 0` is a machine without GPUs."""

    count: Annotated[int, Field(ge=0)]
    """GPUs of one machine."""
    model: FilledText | None = None
    """Their name, such as `A100-SXM4-80GB`."""
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory of one GPU, in GB."""
    peak_tflops: Annotated[float, Field(gt=0)] | None = None
    """Dense, in 16 bits with 32-bit sums: what the MFU of a training is a share of."""

    @model_validator(mode="after")
    def _a_gpu_has_a_model_and_memory(self) -> Gpus:
        given = (self.model is not None, self.memory_gb is not None)
        if self.count and not all(given):
            raise problem("needs `model` and `memory_gb` beside `count`")
        if not self.count and any(given):
            raise problem("has no GPUs (`count: 0`), but names a model")
        return self


class TrainSettings(Settings):
    """Training settings that depend on the machine; the experiment has the others."""

    other_names: ClassVar[dict[str, str]] = {
        "per_device_train_batch_size": "micro_batch_size",
        "mixed_precision": "precision",
        "gradient_checkpointing": "activation_checkpointing",
        "attn_implementation": "attention",
    }

    micro_batch_size: Annotated[int, Field(ge=1)]
    """The most samples that fit on a GPU at once, at the usual lengths."""
    precision: Literal["bf16", "fp16", "fp32"]
    """Number format of the training; `bf16` needs compute capability 8.0."""
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    """Attention kernel; `auto` takes the best one that the environment has."""
    activation_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them: less memory, more time."""


class EnvironmentSettings(Settings):
    """The Python environment: everything pinned."""

    also_written: ClassVar[dict[str, SchemaPart]] = {
        "requirements": {"type": "string", "pattern": f"^(?:{_NAME.pattern})$"}
    }

    python: Annotated[FilledText, AfterValidator(_python)] = ">=3.11,<3.14"
    """Versions of Python that fit."""
    torch: Annotated[FilledText, AfterValidator(_version), shaped(_VERSION)]
    """The one version of torch."""
    torch_index: Annotated[str, AfterValidator(_index), shaped(_INDEX)] | None = None
    """Where torch's build for this machine is, on hosts whose own pip configuration names no index."""
    requirements: Annotated[
        tuple[Annotated[str, AfterValidator(_list_name), shaped(_NAME)], ...], Field(strict=False)
    ] = ("train.txt",)
    """Files in a `requirements/` folder beside the user's profiles, or bundled."""
    packages: Annotated[tuple[Annotated[Text, AfterValidator(_pin), shaped(_PIN)], ...], Field(strict=False)] = ()
    """Further pinned packages: `einops==0.8.1`."""
    optional: Annotated[tuple[Annotated[Text, AfterValidator(_pin), shaped(_PIN)], ...], Field(strict=False)] = ()
    """Pinned packages that are installed where the host's index has them, and done without where not."""
    flash_attn: Literal["auto", "wheel", "build", "none"] = "auto"
    """auto: a wheel if one fits and can be had; wheel: refused without one; build: compiled on the host, for hours."""
    flash_attn_url: Annotated[str, AfterValidator(_wheels_url), shaped(_WHEELS)] | None = None
    """Where its releases are mirrored; below it `v<version>/<wheel>`."""

    @field_validator("requirements", mode="before")
    @classmethod
    def _one_name_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Profile(Settings):
    """A kind of GPU machine."""

    other_names: ClassVar[dict[str, str]] = {"inherits": "extends", "base": "extends"}
    from_elsewhere: ClassVar[frozenset[str]] = frozenset({"name"})

    name: FilledText
    description: Text = ""
    """One line for people."""
    extends: FilledText | None = None
    """The name of a profile that this one takes over; keys given here win."""
    gpus: Gpus
    """Which GPUs the machine has."""
    match: Annotated[tuple[FilledText, ...], Field(strict=False)] = ()
    """Parts of the GPU's name, as nvidia-smi prints it, by which the profile is chosen."""
    train: TrainSettings
    """What the machine decides about training."""
    environment: EnvironmentSettings
    """The Python environment of trainings and scripts."""
    accelerate: dict[Annotated[Text, Field(json_schema_extra={"enum": [*sorted(ACCELERATE_KEYS)]})], Any] = Field(
        default_factory=dict
    )
    """More keys of accelerate.yaml, such as `fsdp_config`; what the plan decides cannot be said here."""
    env: Environment = Field(default_factory=dict)
    """Variables for every job on such a machine."""
    origin: Path | None = Field(default=None, exclude=True, repr=False)
    places: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """`file:line` of every key, of whichever of the profiles laid over each other it comes from."""
    requirement_files: Annotated[tuple[Path, ...], Field(exclude=True, repr=False)] = ()
    """`environment.requirements`, found."""

    @property
    def peak_flops(self) -> float | None:
        """Peak FLOPS of one GPU at the profile's precision; None if unknown."""
        if self.gpus.peak_tflops is None or self.train.precision == "fp32":
            return None
        return self.gpus.peak_tflops * 1e12

    @field_validator("accelerate")
    @classmethod
    def _known_to_accelerate(cls, value: dict[str, object]) -> dict[str, object]:
        for key in value:
            if key not in ACCELERATE_KEYS:
                near = nearest(key, ACCELERATE_KEYS)
                hint = f"did you mean `accelerate.{near}`?" if near else "see `accelerate config` for the known keys"
                raise problem("is not a key of accelerate's configuration", key=key, hint=hint)
        return value


def list_profiles(home: HomePaths) -> list[str]:
    """The names of the user's and the bundled profiles."""
    return sorted({file.stem for folder in _folders(home) for file in folder.glob("*.yaml")})


def load_profile(name: str, home: HomePaths) -> Profile:
    """Load one of the user's profiles, or a bundled one.

    Raises:
        NotFound: There is none of that name.
        ConfigError: The file is wrong.
    """
    document = _laid_over(name, home)
    files: list[Path] = []
    lists = _named_lists(document)
    for index, wanted in enumerate(lists):
        found = next((f for folder in _folders(home) if (f := folder / "requirements" / wanted).is_file()), None)
        if found is None:
            known = {file.name for folder in _folders(home) for file in (folder / "requirements").glob("*.txt")}
            near = nearest(wanted, known)
            place = document.value_place(("environment", "requirements", index))
            raise place.error(
                f"there is no list of requirements {shown(wanted)}",
                f"did you mean {near}?" if near else f"known: {', '.join(sorted(known))}",
            )
        files.append(found)
    given = {
        "name": name,
        "origin": document.path,
        "places": written_places(document),
        "requirement_files": tuple(files),
    }
    return validate(document, Profile, given=given)


def choose_profile(names: Sequence[str], home: HomePaths) -> str:
    """Choose the profile for a host that names none, by the GPUs that its agent found.

    Args:
        names: Of its GPUs, one each, as nvidia-smi prints them.
        home: Whose profiles come before the bundled ones.

    Raises:
        NotFound: None fits, or several do; the hint lists them.
        ConfigError: A profile's file is wrong.
    """
    if not names:
        return "cpu"
    profiles = [load_profile(name, home) for name in list_profiles(home)]
    alike = [profile for profile in profiles if _matches(profile, names)]
    fitting = [profile for profile in alike if profile.gpus.count == len(names)]
    own = [profile for profile in fitting if profile.origin is not None and profile.origin.parent == home.profiles]
    fitting = own or fitting
    if len(fitting) == 1:
        return fitting[0].name
    what = f"{len(names)} × {names[0]}" if len(set(names)) == 1 else ", ".join(names)
    known = ", ".join(profile.name for profile in fitting or alike or profiles)
    if fitting:
        raise NotFound(f"several profiles fit {what}: {known}", hint="set `profile:` for the host in hosts.yaml")
    like = f"; for the same GPU there is {known}" if alike else ""
    raise NotFound(f"no profile fits {what}{like}", hint=f"set `profile:` for the host, or write one (known: {known})")


def _matches(profile: Profile, names: Sequence[str]) -> bool:
    return bool(names) and all(any(part.lower() in name.lower() for part in profile.match) for name in names)


def _folders(home: HomePaths) -> list[Path]:
    return [home.profiles, bundled("profiles")]


def _files(name: str, home: HomePaths) -> list[Path]:
    if not _NAME.fullmatch(name):
        return []
    return [file for folder in _folders(home) if (file := folder / f"{name}.yaml").is_file()]


def _named_lists(document: Document) -> tuple[str, ...]:
    """The lists a document names, before it is known to be right: what is not text is left to the validation."""
    environment = document.data.get("environment")
    if not isinstance(environment, dict):
        return ()
    lists = environment.get("requirements", ["train.txt"])
    lists = [lists] if isinstance(lists, str) else lists
    return tuple(item for item in lists if isinstance(item, str)) if isinstance(lists, list) else ()


def _laid_over(name: str, home: HomePaths) -> Document:
    """A profile's document with the ones it extends below it."""
    files = _files(name, home)
    if not files:
        known = list_profiles(home)
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
        raise NotFound(f"there is no profile {shown(name)}", hint=hint)
    chain = [read_document(files[0])]
    while isinstance(parent := chain[-1].data.get("extends"), str):
        seen = {document.path for document in chain}
        # `extends: cpu` in the user's own cpu.yaml means the bundled one.
        below = [file for file in _files(parent, home) if file != chain[-1].path]
        place = chain[-1].value_place(("extends",))
        if not below:
            near = nearest(parent, list_profiles(home))
            raise place.error(f"there is no profile {shown(parent)}", f"did you mean {near}?" if near else None)
        if below[0] in seen:
            raise place.error(
                f"the profiles extend each other in a circle: {shown(parent)} comes back to {shown(name)}"
            )
        chain.append(read_document(below[0]))
    laid = chain.pop()
    while chain:
        over = chain.pop()
        _lay(laid, over, (), over.data)
        laid.path = over.path
    return laid


def _lay(below: Document, over: Document, location: Location, values: Mapping[str, object]) -> None:
    """Mappings merge, everything else (lists too) replaces."""
    for key, value in values.items():
        here = (*location, key)
        container: Any = below.data
        for part in location:
            container = container[part]
        if isinstance(value, dict) and isinstance(container.get(key), dict):
            below.keys[here], below.values[here] = over.keys[here], over.values[here]
            _lay(below, over, here, value)
        else:
            below.put(here, value, over)
