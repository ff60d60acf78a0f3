"""Use the user's own accelerate or DeepSpeed file unchanged, once every value in it agrees with the plan.

If two files set one value, a training may silently run with a different learning rate or batch than its file says
(bigscience's metadata experiments ran at a peak of 1e-4 while their configuration said 5e-5). So neither file overrides
the other: values that differ are refused, with their lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.documents import Document, Location, Place, build, compose, read_document, read_text, shown
from armada.config.profiles import ACCELERATE_KEYS
from armada.config.training import ZERO_STAGES
from armada.config.validation import dotted, nearest
from armada.errors import ConfigError, PreflightRefused
from armada.launch.training.sharding import FIXED, refuse_other_word, uses_fsdp, zero_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Experiment
    from armada.config.training import Sharding, Train
    from armada.launch.training.batch import Batch

_AUTO = "auto"
_SHARDED = ("FSDP", "DEEPSPEED")
_PARALLEL = "parallelism_config"
_SPLITS = {"cp": "context", "sp": "sequence", "tp": "tensor"}
"""accelerate's kinds of parallelism that divide a row or a layer."""

_SCHEDULES = {
    "WarmupLR": "constant_with_warmup",
    "WarmupDecayLR": "linear",
    "WarmupCosineLR": "cosine",
}
"""DeepSpeed's schedulers, with their names in armada."""

_PLUGIN: dict[str, Location] = {
    "zero_stage": ("zero_optimization", "stage"),
    "offload_optimizer_device": ("zero_optimization", "offload_optimizer", "device"),
    "offload_param_device": ("zero_optimization", "offload_param", "device"),
    "zero3_save_16bit_model": ("zero_optimization", "stage3_gather_16bit_weights_on_model_save"),
}
"""accelerate's keys for settings that are in a DeepSpeed file."""

_ADAM = {"betas": [0.9, 0.999], "eps": 1e-8}
"""The settings of the payload's AdamW, where the experiment names no others."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One value of the plan, and where it comes from."""

    value: object
    source: str


@dataclass(frozen=True, slots=True)
class UserFiles:
    """The user's files, parsed: `accelerate` are keys for accelerate.yaml, `deepspeed` is a DeepSpeed configuration."""

    accelerate: dict[str, object]
    deepspeed: dict[str, object] | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The plan's side of the comparison.

    Attributes:
        batch: None for scripts, which split their batch themselves.
        accelerate: The user's own accelerate file.
        deepspeed: The user's own DeepSpeed file.
        train: The bundled trainer's settings; None for scripts.
    """

    experiment: Experiment
    profile: Profile
    processes: int
    device: str
    batch: Batch | None
    accelerate: Path | None = None
    deepspeed: Path | None = None
    train: Train | None = None

    @property
    def precision(self) -> str:
        return self.profile.train.precision

    @property
    def sharding(self) -> Sharding:
        """What the experiment says of the bundled trainer's processes."""
        return "none" if self.train is None else self.train.sharding


def read_user_files(facts: Facts) -> UserFiles:
    """Read the files that an experiment names, and compare every repeated value with the plan.

    Raises:
        ConfigError: A file is not of the expected form.
        PreflightRefused: Values differ; the error has both places of each.
    """
    problems: list[str] = []
    accelerate: dict[str, object] = {}
    deepspeed: dict[str, object] | None = None
    plugin: dict[Location, Decided] = {}
    _compare_sharding(facts, facts.profile.accelerate, _profile_place(facts, "accelerate", "distributed_type"))
    _refuse_zero_on_cpu(facts)
    _refuse_split_rows(facts, facts.profile.accelerate, lambda _: _profile_place(facts, "accelerate", _PARALLEL))
    if facts.accelerate is not None:
        document = read_document(facts.accelerate)
        accelerate = _read_accelerate(document, facts, problems)
        plugin = _plugin_values(document)
        _compare_sharding(facts, document.data, document.value_place(("distributed_type",)))
        _refuse_split_rows(facts, document.data, document.value_place)
        _refuse_shards(facts, document, ("deepspeed_config", "zero_stage"))
    if facts.deepspeed is not None:
        document = read_json(facts.deepspeed)
        deepspeed = document.data
        _compare(document, {**_deepspeed_values(facts, document), **plugin}, problems)
        _refuse_on_cpu(facts, document)
        _refuse_shards(facts, document, ("zero_optimization", "stage"))
        # The file itself has these settings; accelerate refuses those that its plugin repeats.
        accelerate = {
            key: value for key, value in accelerate.items() if key not in {"distributed_type", "deepspeed_config"}
        }
    if problems:
        raise PreflightRefused(
            "; ".join(problems), hint="set each value in one place, or make the two agree (in DeepSpeed files: auto)"
        )
    if deepspeed is None and "deepspeed_config" not in accelerate:
        deepspeed = zero_settings(facts.sharding, facts.precision)
    return UserFiles(accelerate, deepspeed)


def read_json(path: Path) -> Document:
    """Read a JSON object with the line of each value; YAML 1.2 reads JSON, except tabs between values.

    Raises:
        ConfigError: The file is not a JSON object.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise ConfigError(f"not JSON: {error}", path=path, line=line) from error
    if not isinstance(content, dict):
        raise ConfigError("it must contain one JSON object", path=path, line=1)
    document = Document(path, {})
    node = compose(text.replace("\t", " "), lambda line: Place(path, line))
    assert node is not None  # noqa: S101  # an object was just read from it
    build(node, document, lambda line: Place(path, line), ())
    document.data = content  # from the JSON parser: 1e5 is a number in JSON and text in YAML
    return document


def _read_accelerate(document: Document, facts: Facts, problems: list[str]) -> dict[str, object]:
    for key in document.data:
        if key not in ACCELERATE_KEYS:
            near = nearest(key, ACCELERATE_KEYS)
            hint = f"did you mean `{near}`?" if near else "see `accelerate config` for the known keys"
            raise document.key_place((key,)).error(f"`{key}` is not a key of accelerate's configuration", hint)
    expected = _accelerate_values(facts)
    _compare(document, expected, problems)
    _refuse_on_cpu(facts, document)
    _compare_with_profile(document, facts, problems)
    decided = {location[0] for location in expected if len(location) == 1}
    kept = {key: value for key, value in document.data.items() if key not in decided}
    if document.data.get("distributed_type") in _SHARDED:
        kept["distributed_type"] = document.data["distributed_type"]
    plugin = kept.get("deepspeed_config")
    if isinstance(plugin, Mapping) and plugin.get("deepspeed_config_file") is not None:
        place = document.value_place(("deepspeed_config", "deepspeed_config_file"))
        raise place.error(
            "`deepspeed_config.deepspeed_config_file` names a file on this machine, which the host does not have",
            "name it as `deepspeed:` in the experiment; armada then sends it",
        )
    return kept


def _accelerate_values(facts: Facts) -> dict[Location, Decided]:
    """Return the values that an accelerate file may repeat."""
    many = facts.processes > 1
    kind = "MULTI_GPU" if many else "NO"
    one_machine = Decided(1, "a run, which is on one machine,")
    expected: dict[Location, Decided] = {
        ("compute_environment",): Decided("LOCAL_MACHINE", one_machine.source),
        ("num_machines",): one_machine,
        ("machine_rank",): Decided(0, one_machine.source),
        ("num_processes",): Decided(facts.processes, _world_place(facts)),
        ("mixed_precision",): Decided(
            "no" if facts.precision == "fp32" else facts.precision, _profile_place(facts, "train", "precision")
        ),
        ("use_cpu",): Decided(facts.device == "cpu", _where(facts, "resources.gpus")),
        ("gpu_ids",): Decided("all", "the supervisor, which hides the GPUs that are not the run's,"),
        ("main_process_port",): Decided(0, "the launch, which lets accelerate find a free port,"),
        ("distributed_type",): Decided(kind, _world_place(facts)),
    }
    for plugin in ("deepspeed_config", "fsdp_config"):
        for key, decided in _training_values(facts).items():
            expected[plugin, key] = decided
    if uses_fsdp(facts.sharding, facts.processes):
        for key, value in FIXED.items():
            expected["fsdp_config", key] = Decided(value, _where(facts, "train.sharding"))
    if facts.sharding in ZERO_STAGES:
        stage = Decided(ZERO_STAGES[facts.sharding], _where(facts, "train.sharding"))
        expected["deepspeed_config", "zero_stage"] = stage
    if facts.train is not None:
        expected["dynamo_config", "dynamo_backend"] = Decided(
            "INDUCTOR" if facts.train.compile else "NO", _where(facts, "train.compile")
        )
    return expected


def _training_values(facts: Facts) -> dict[str, Decided]:
    """Return the values of the training that accelerate's plugins repeat."""
    batch, train = facts.batch, facts.train
    if batch is None or train is None:
        return {}
    checkpointing = Decided(
        facts.profile.train.activation_checkpointing, _profile_place(facts, "train", "activation_checkpointing")
    )
    by_fsdp = checkpointing
    if uses_fsdp(facts.sharding, facts.processes) and getattr(facts.experiment, "lora", None) is not None:
        by_fsdp = Decided(False, f"{_where(facts, 'lora')}, whose layers transformers recomputes instead,")
    return {
        "gradient_accumulation_steps": Decided(batch.accumulation, _batch_place(facts, batch)),
        "gradient_clipping": Decided(train.max_grad_norm, _where(facts, "train.max_grad_norm")),
        "activation_checkpointing": checkpointing,
        "fsdp_activation_checkpointing": by_fsdp,
    }


def _deepspeed_values(facts: Facts, document: Document) -> dict[Location, Decided]:
    """Return the values that a DeepSpeed file may repeat."""
    precision = _profile_place(facts, "train", "precision")
    expected: dict[Location, Decided] = {
        ("bf16", "enabled"): Decided(facts.precision == "bf16", precision),
        ("bfloat16", "enabled"): Decided(facts.precision == "bf16", precision),
        ("fp16", "enabled"): Decided(facts.precision == "fp16", precision),
    }
    batch, train = facts.batch, facts.train
    if batch is None or train is None:
        return expected
    if train.sharding in ZERO_STAGES:
        stage = Decided(ZERO_STAGES[train.sharding], _where(facts, "train.sharding"))
        expected["zero_optimization", "stage"] = stage
    expected |= {
        ("train_batch_size",): Decided(batch.global_, _where(facts, "train.global_batch_size")),
        ("train_micro_batch_size_per_gpu",): Decided(
            batch.micro, _where(facts, "train.micro_batch_size", "train.global_batch_size")
        ),
        ("gradient_accumulation_steps",): Decided(batch.accumulation, _batch_place(facts, batch)),
        ("gradient_clipping",): Decided(train.max_grad_norm, _where(facts, "train.max_grad_norm")),
        ("optimizer", "type"): Decided("AdamW", "the payload, whose optimizer is AdamW,"),
        ("optimizer", "params", "lr"): Decided(train.learning_rate, _where(facts, "train.learning_rate")),
        ("optimizer", "params", "weight_decay"): Decided(train.weight_decay, _where(facts, "train.weight_decay")),
        ("scheduler", "params", "warmup_max_lr"): Decided(train.learning_rate, _where(facts, "train.learning_rate")),
        ("scheduler", "params", "warmup_min_lr"): Decided(0.0, "the payload, whose warm-up begins at 0,"),
    }
    expected |= _optimizer_values(facts, train)
    if isinstance(train.warmup_steps, int):
        expected["scheduler", "params", "warmup_num_steps"] = Decided(
            train.warmup_steps, _where(facts, "train.warmup_steps")
        )
    elif train.max_steps:
        steps = math.ceil(train.warmup_steps * train.max_steps)
        expected["scheduler", "params", "warmup_num_steps"] = Decided(steps, _where(facts, "train.warmup_steps"))
    if train.max_steps:
        expected["scheduler", "params", "total_num_steps"] = Decided(train.max_steps, _where(facts, "train.max_steps"))
    named = document.data.get("scheduler")
    kind = named.get("type") if isinstance(named, dict) else None
    if train.lr_floor:
        expected["scheduler", "type"] = Decided(f"{train.lr_scheduler} with a floor", _where(facts, "train.lr_floor"))
    elif _SCHEDULES.get(str(kind)) != train.lr_scheduler:
        ours = next((theirs for theirs, name in _SCHEDULES.items() if name == train.lr_scheduler), train.lr_scheduler)
        expected["scheduler", "type"] = Decided(ours, _where(facts, "train.lr_scheduler"))
    return expected


def _optimizer_values(facts: Facts, train: Train) -> dict[Location, Decided]:
    """Return the optimizer's own settings; of another than AdamW a DeepSpeed file says nothing that could agree."""
    chosen, found = train.optimizer, dict[Location, Decided]()
    if chosen.name != "adamw":
        return {("optimizer", "type"): Decided(chosen.name, _where(facts, "train.optimizer"))}
    for key, default in _ADAM.items():
        own = getattr(chosen, key)
        value, source = (default, "the payload's AdamW") if own is None else (own, _where(facts, "train.optimizer"))
        found["optimizer", "params", key] = Decided(list(value) if isinstance(value, tuple) else value, source)
    return found


def _compare(document: Document, expected: Mapping[Location, Decided], problems: list[str]) -> None:
    for location, decided in expected.items():
        found = _look_up(document.data, location)
        if found is None or found == _AUTO or _alike(found, decided.value):
            continue
        if location == ("distributed_type",) and found in _SHARDED:
            continue
        place = document.value_place(location)
        problems.append(
            f"{place}: `{dotted(location)}` is {shown(found)}, but {decided.source} makes it {shown(decided.value)}"
        )


def _compare_with_profile(document: Document, facts: Facts, problems: list[str]) -> None:
    """Report values that differ from the profile, which may set accelerate's keys too. Both are used, so they must agree."""
    for key, value in facts.profile.accelerate.items():
        found = document.data.get(key)
        if found is not None and found != value:
            problems.append(
                f"{document.value_place((key,))}: `{key}` is {shown(found)}, but "
                f"{_profile_place(facts, 'accelerate', key)} makes it {shown(value)}"
            )


def _refuse_on_cpu(facts: Facts, document: Document) -> None:
    wanted = document.data.get("distributed_type")
    is_deepspeed = wanted == "DEEPSPEED" or document.path == facts.deepspeed
    shards = uses_fsdp(facts.sharding, facts.processes)
    if facts.device == "cpu" and (is_deepspeed or (wanted == "FSDP" and not shards)):
        place = document.value_place(("distributed_type",))
        name = "DeepSpeed" if is_deepspeed else "FSDP"
        raise PreflightRefused(
            f"{place}: {name} needs GPUs, and this run has none", hint="leave the file out, or launch on GPUs"
        )


def _compare_sharding(facts: Facts, settings: Mapping[str, object], place: object) -> None:
    """Refuse an accelerate file, or a profile, that divides a training otherwise than `train.sharding`.

    On CPUs FSDP by a file alone is refused for another reason, which is reported first.
    """
    if facts.train is None or (facts.device == "cpu" and facts.sharding == "none"):
        return
    refuse_other_word(facts.sharding, facts.processes, settings, place, _where(facts, "train.sharding"))


def _refuse_split_rows(facts: Facts, settings: Mapping[str, object], place: Callable[[Location], object]) -> None:
    """Refuse context, sequence and tensor parallelism, under which several processes share a row or a layer.

    The bundled trainer plans its batch, counts and evaluates as if each process had rows of its own.
    """
    sizes = settings.get(_PARALLEL)
    if facts.train is None or not isinstance(sizes, dict):
        return
    for kind, name in _SPLITS.items():
        key = f"{_PARALLEL}_{kind}_size"
        if sizes.get(key, 1) not in (None, 1):
            raise PreflightRefused(
                f"{place((_PARALLEL, key))}: `{key}` is {shown(sizes[key])}, and the bundled trainer has no {name} parallelism: "
                "each process computes rows of its own",
                hint="leave it out, and divide the model: `train: {sharding: fsdp}`; or `task: script` with your own script",
            )


def _refuse_zero_on_cpu(facts: Facts) -> None:
    if facts.device == "cpu" and facts.sharding in ZERO_STAGES:
        raise PreflightRefused(
            f"{_where(facts, 'train.sharding')} is {facts.sharding}: DeepSpeed needs GPUs, and this run has none",
            hint="`train: {sharding: fsdp}`, which divides a training among CPU processes too, or launch on GPUs",
        )


def _refuse_shards(facts: Facts, document: Document, location: Location) -> None:
    if facts.train is not None and facts.sharding != "zero3" and _look_up(document.data, location) == 3:
        place = document.value_place(location)
        raise PreflightRefused(
            f"{place}: `{dotted(location)}` is 3, and the bundled trainer evaluates and saves whole models, not shards",
            hint="`train: {sharding: zero3}`, or stage 2, or `task: script` with your own script",
        )


def _plugin_values(document: Document) -> dict[Location, Decided]:
    """Convert an accelerate file's DeepSpeed settings to the keys of a DeepSpeed file."""
    found = {}
    for key, location in _PLUGIN.items():
        value = _look_up(document.data, ("deepspeed_config", key))
        if value is not None:
            place = document.value_place(("deepspeed_config", key))
            found[location] = Decided(value, f"{place} (`deepspeed_config.{key}`)")
    return found


def _look_up(data: Any, location: Location) -> Any:
    for part in location:
        if not isinstance(data, Mapping) or part not in data:
            return None
        data = data[part]
    return data


def _alike(found: Any, wanted: object) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        # PyYAML reads a bare `no` as false, and users may quote true.
        return _flag(found) == _flag(wanted)
    if isinstance(found, str) and isinstance(wanted, int | float):
        try:
            found = float(found)  # PyYAML reads `5e-5` as text, and quoted numbers are common
        except ValueError:
            return False
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return math.isclose(found, wanted, rel_tol=1e-9)
    if isinstance(found, str) and isinstance(wanted, str):
        return found.lower() == wanted.lower()
    return bool(found == wanted)


def _flag(value: object) -> object:
    return {"true": True, "false": False, "yes": True, "no": False}.get(str(value).lower(), value)


def _where(facts: Facts, *keys: str) -> str:
    """Return the place in the experiment: that of the first of these keys that is set in it, or its default."""
    places = facts.experiment.places
    for key in keys:
        if key in places:
            return f"{places[key]} (`{key}`)"
    return f"`{keys[0]}`, which {facts.experiment.origin or 'the experiment'} leaves at its default,"


def _world_place(facts: Facts) -> str:
    """Return where the number of processes comes from: the GPUs, or without GPUs the experiment's own setting."""
    return _where(facts, "resources.gpus" if facts.device == "cuda" else "resources.processes")


def _batch_place(facts: Facts, batch: Batch) -> str:
    ranks = f"{batch.processes} process{'' if batch.processes == 1 else 'es'}"
    sum_ = f"{batch.global_} = micro {batch.micro} × accumulation {batch.accumulation} × {ranks}"
    return f"{_where(facts, 'train.global_batch_size')}, {sum_},"


def _profile_place(facts: Facts, *keys: str) -> str:
    key = ".".join(keys)
    place = facts.profile.places.get(key)
    return f"{place or facts.profile.origin or f'profile {facts.profile.name}'} (`{key}`)"
