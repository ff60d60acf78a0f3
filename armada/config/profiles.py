"""Profiles: how to train on one kind of GPU machine, and which environment to build there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from armada.config.documents import Document, Location, parse_document, read_document, shown
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

DERIVED = "derived:"
"""How the names of profiles begin that were made from a host's facts and have no file."""

OLDEST_BF16 = 8.0
"""Compute capability from which GPUs have bf16, and flash attention 2 its kernels (Ampere)."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""The name of a profile, and of a list of requirements."""

_PARENT = re.compile(rf"_?{NAME.pattern}")
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
    if not NAME.fullmatch(name):
        raise problem(f"must be the name of a file in `requirements/`, not {shown(name)}")
    return name


class Gpus(Settings):
    """The GPUs that the profile is for; `count: 0` is a machine without GPUs."""

    count: Annotated[int, Field(ge=0)]
    """GPUs of one machine; with `least` the most."""
    least: Annotated[int, Field(ge=1)] | None = None
    """The fewest GPUs of a machine that the profile fits (default: exactly `count`)."""
    model: FilledText | None = None
    """Their name, such as `A100-SXM4-80GB`."""
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory of one GPU, in GB."""
    peak_tflops: Annotated[float, Field(gt=0)] | None = None
    """Dense, in 16 bits with 32-bit sums: what the MFU of a training is a share of."""
    bandwidth_gb_s: Annotated[float, Field(gt=0)] | None = None
    """Bandwidth of one GPU's memory, in GB a second."""
    compute_capability: Annotated[float, Field(ge=1, lt=100)] | None = None
    """What nvidia-smi calls compute_cap, such as 8.6; bf16 and flash attention 2 need 8.0."""
    interconnect: Literal["nvlink", "pcie"] | None = None
    """How the GPUs of one machine exchange gradients: all over NVLink, or over PCIe."""

    @property
    def fewest(self) -> int:
        """The fewest GPUs of a machine that the profile fits."""
        return self.count if self.least is None else self.least

    @property
    def span(self) -> str:
        """How many GPUs: `8`, or `1-8`."""
        return f"{self.count}" if self.fewest == self.count else f"{self.fewest}-{self.count}"

    @model_validator(mode="after")
    def _a_gpu_has_a_model_and_memory(self, info: ValidationInfo) -> Gpus:
        given = (self.model is not None, self.memory_gb is not None)
        # Some hosts do not say how much memory a GPU has: nvidia-smi prints `[N/A]` where it is the machine's own.
        if self.count and not all(given) and not (self.model and (info.context or {}).get("derived")):
            raise problem("needs `model` and `memory_gb` beside `count`")
        if not self.count and any(given):
            raise problem("has no GPUs (`count: 0`), but names a model")
        if self.fewest > self.count:
            raise problem(f"must be at most `count`, which is {self.count}", key="least")
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
        "requirements": {"type": "string", "pattern": f"^(?:{NAME.pattern})$"}
    }

    python: Annotated[FilledText, AfterValidator(_python)] = ">=3.11,<3.14"
    """Versions of Python that fit."""
    torch: Annotated[FilledText, AfterValidator(_version), shaped(_VERSION)]
    """The one version of torch."""
    torch_index: Annotated[str, AfterValidator(_index), shaped(_INDEX)] | None = None
    """Where torch's build for this machine is, on hosts whose own pip configuration names no index."""
    requirements: Annotated[
        tuple[Annotated[str, AfterValidator(_list_name), shaped(NAME)], ...], Field(strict=False)
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
    unless: Annotated[tuple[FilledText, ...], Field(strict=False)] = ()
    """Parts of the GPU's name with which it is another GPU after all, such as `Laptop`."""
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
    derived: str | None = Field(default=None, exclude=True, repr=False)
    """The YAML text of a profile that was made from a host's facts; None of one that has a file."""
    notes: Annotated[tuple[str, ...], Field(exclude=True, repr=False)] = ()
    """What a person has to know of a derived profile, as sentences."""

    @property
    def is_own(self) -> bool:
        """Whether its file is the user's."""
        return self.origin is not None and self.origin.parent != bundled("profiles")

    @model_validator(mode="after")
    def _old_gpus_have_neither_bf16_nor_flash_attention(self) -> Profile:
        capability = self.gpus.compute_capability
        if capability is None or capability >= OLDEST_BF16:
            return self
        why = f"needs compute capability 8.0, and `gpus.compute_capability` is {capability}"
        if self.train.precision == "bf16":
            raise problem(why, key="train.precision", hint="precision: fp16")
        if self.train.attention == "flash_attention_2":
            raise problem(why, key="train.attention", hint="attention: sdpa")
        return self

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
    """The names of the user's and the bundled profiles. A file whose name begins with `_` only serves `extends:`."""
    return sorted({file.stem for folder in _folders(home) for file in folder.glob("[!_]*.yaml")})


def load_profile(name: str, home: HomePaths) -> Profile:
    """Load one of the user's profiles, or a bundled one.

    Raises:
        NotFound: There is none of that name.
        ConfigError: The file is wrong.
    """
    return _made(name, _laid_over(_found(name, home), home), home)


def load_profile_file(file: Path, home: HomePaths) -> Profile:
    """Load a profile from any file, as if it were one of the user's.

    Raises:
        ConfigError: The file is wrong.
    """
    return _made(file.stem, _laid_over(read_document(file), home), home)


def load_derived(name: str, text: str, home: HomePaths, origin: str, notes: tuple[str, ...] = ()) -> Profile:
    """Make a profile of text that stands in no file.

    Args:
        name: Begins with `DERIVED`.
        text: What would stand in its file.
        home: Whose profiles it may extend.
        origin: What `places` says of its keys.
        notes: Sentences for a person.

    Raises:
        ConfigError: A profile that it extends is wrong.
    """
    nowhere = Path(origin)
    made = _made(name, _laid_over(parse_document(text, nowhere), home), home, derived=text, notes=notes)
    places = {key: origin if place.startswith(f"{nowhere}:") else place for key, place in made.places.items()}
    return made.model_copy(update={"origin": None, "places": places})


def _made(
    name: str, document: Document, home: HomePaths, *, derived: str | None = None, notes: tuple[str, ...] = ()
) -> Profile:
    files: list[Path] = []
    for index, wanted in enumerate(_named_lists(document)):
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
        "derived": derived,
        "notes": notes,
    }
    return validate(document, Profile, given=given, context={"derived": derived is not None})


def _folders(home: HomePaths) -> list[Path]:
    return [home.profiles, bundled("profiles")]


def _files(name: str, home: HomePaths) -> list[Path]:
    return [file for folder in _folders(home) if (file := folder / f"{name}.yaml").is_file()]


@cache
def _bundled_document(file: Path) -> Document:
    """Read a bundled file once in a process: one launch asks for a dozen of them, at 3 ms each."""
    return read_document(file)


def _document(file: Path) -> Document:
    """Read a file; the result may be changed."""
    if file.parent != bundled("profiles"):
        return read_document(file)
    read = _bundled_document(file)
    return Document(read.path, deepcopy(read.data), dict(read.keys), dict(read.values))


def _named_lists(document: Document) -> tuple[str, ...]:
    """The lists a document names, before it is known to be right: what is not text is left to the validation."""
    environment = document.data.get("environment")
    if not isinstance(environment, dict):
        return ()
    lists = environment.get("requirements", ["train.txt"])
    lists = [lists] if isinstance(lists, str) else lists
    return tuple(item for item in lists if isinstance(item, str)) if isinstance(lists, list) else ()


def _found(name: str, home: HomePaths) -> Document:
    """The document of a profile.

    Raises:
        NotFound: There is none of that name.
    """
    files = _files(name, home) if NAME.fullmatch(name) else []
    if files:
        return _document(files[0])
    if name.startswith(DERIVED):
        hint = "a derived profile has no file until `armada profiles detect HOST --save NAME` writes one"
    else:
        known = list_profiles(home)
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
    raise NotFound(f"there is no profile {shown(name)}", hint=hint)


def _laid_over(top: Document, home: HomePaths) -> Document:
    """A profile's document with the ones it extends below it."""
    chain = [top]
    while isinstance(parent := chain[-1].data.get("extends"), str):
        seen = {document.path for document in chain}
        # `extends: cpu` in the user's own cpu.yaml means the bundled one.
        found = _files(parent, home) if _PARENT.fullmatch(parent) else []
        below = [file for file in found if file != chain[-1].path]
        place = chain[-1].value_place(("extends",))
        if not below:
            near = nearest(parent, list_profiles(home))
            raise place.error(f"there is no profile {shown(parent)}", f"did you mean {near}?" if near else None)
        if below[0] in seen:
            raise place.error(
                f"the profiles extend each other in a circle: {shown(parent)} comes back to {shown(top.path.stem)}"
            )
        chain.append(_document(below[0]))
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
