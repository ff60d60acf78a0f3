"""Write a run's accelerate.yaml. Without one, `accelerate launch` would read the file in ~/.cache/huggingface on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from armada.config.documents import shown, yaml_text
from armada.errors import PreflightRefused
from armada.launch.training.sharding import FIXED

_ELSEWHERE = {
    "gradient_accumulation_steps": "`train.global_batch_size` of the experiment",
    "gradient_clipping": "`train.max_grad_norm` of the experiment",
    "train_batch_size": "`train.global_batch_size` of the experiment",
    "train_micro_batch_size_per_gpu": "`train.micro_batch_size`",
    "activation_checkpointing": "`train.activation_checkpointing` of the profile",
    "fsdp_activation_checkpointing": "`train.activation_checkpointing` of the profile",
}
"""Settings that also exist inside accelerate's plugins, where they silently override the trainer's or are overridden by them."""


def render_accelerate(
    *,
    processes: int,
    device: Literal["cpu", "cuda"],
    precision: Literal["bf16", "fp16", "fp32"],
    extras: Mapping[str, object],
    extras_from: str,
    checked: Mapping[str, object] | None = None,
    sharded: Mapping[str, object] | None = None,
) -> str:
    """Write launch/accelerate.yaml.

    Args:
        processes: The number of processes on this one machine.
        device: On `cpu` the processes use gloo; the trainer needs `use_cpu=True` as well.
        precision: The plan's precision.
        extras: Additional keys, from a profile's `accelerate:`.
        extras_from: The profile's name in errors, such as `profile a6000-8x (…/a6000-8x.yaml)`.
        checked: Keys of the user's own file that agree with the plan (see `user_files`).
        sharded: Keys that divide the training by FSDP; extras and the user's own file may add to them.

    Raises:
        PreflightRefused: An extra contradicts the plan.
    """
    decided = _decided(processes, device, precision)
    for key, value in extras.items():
        if key in decided and value != decided[key][0]:
            ours, source = decided[key]
            raise PreflightRefused(
                f"{extras_from} sets accelerate.{key} to {shown(value)}, but {source} makes it {shown(ours)}",
                hint=f"remove `{key}` from the profile's `accelerate:`",
            )
    for location, key in _keys_below(extras):
        if key in _ELSEWHERE:
            raise PreflightRefused(
                f"{extras_from} sets accelerate.{location}, which comes from {_ELSEWHERE[key]}",
                hint="set it there; if it is set twice, one of the two is silently ignored",
            )
    _refuse_other_shards(sharded or {}, extras, extras_from)
    settings = {key: value for key, (value, _) in decided.items()}
    checked = checked or {}
    settings["distributed_type"] = (
        "FSDP" if sharded else checked.get("distributed_type") or _distribution(processes, device, extras, extras_from)
    )
    extras = {**extras, **checked}
    settings.update({key: value for key, value in extras.items() if key not in settings})
    for key, value in (sharded or {}).items():
        given = extras.get(key)
        # The word's own settings are checked; what a user adds to them, such as offloading, is kept.
        settings[key] = {**value, **given} if isinstance(value, Mapping) and isinstance(given, Mapping) else value
    if settings["distributed_type"] == "FSDP" and not sharded:
        # accelerate's own default is version 1, the trainer's is 2.
        given = extras.get("fsdp_config")
        settings["fsdp_config"] = {"fsdp_version": 2, **(given if isinstance(given, Mapping) else {})}
    # accelerate reads the file with PyYAML, which reads a bare `no` as false and `1e-05` as text.
    return yaml_text(settings, version=(1, 1))


def launch_environment(*, processes: int, device: Literal["cpu", "cuda"], cpu_count: int) -> dict[str, str]:
    """Return the variables that `accelerate launch` needs in addition to its file.

    On CPUs accelerate would count physical cores itself, and fail in containers that hide them. Waiting threads must
    sleep: by default they spin, which reduced three runs on two cores to a twentieth of their speed (3 instead of 70 to
    190 steps a second each).
    """
    if device != "cpu":
        return {}
    return {"OMP_NUM_THREADS": str(max(1, cpu_count // processes)), "OMP_WAIT_POLICY": "PASSIVE"}


def _decided(processes: int, device: str, precision: str) -> dict[str, tuple[object, str]]:
    """Return what the plan decides, and where each value comes from."""
    one_machine = "a run, which is on one machine,"
    return {
        "compute_environment": ("LOCAL_MACHINE", one_machine),
        "num_machines": (1, one_machine),
        "machine_rank": (0, one_machine),
        "num_processes": (processes, "the plan (`resources` of the experiment and the host's GPUs)"),
        "mixed_precision": ("no" if precision == "fp32" else precision, "the plan (`train.precision` of the profile)"),
        "use_cpu": (device == "cpu", "the plan (`resources.gpus` of the experiment)"),
        "gpu_ids": ("all", "the supervisor, which hides the GPUs that are not the run's,"),
        # With 0, accelerate finds a free port; two runs on one machine must not share 29500.
        "main_process_port": (0, "the launch, which lets accelerate find a free port,"),
    }


def _distribution(processes: int, device: str, extras: Mapping[str, object], extras_from: str) -> str:
    # MULTI_GPU is accelerate's name for torchrun; its MULTI_CPU and --cpu silently start only one process.
    default = "MULTI_GPU" if processes > 1 else "NO"
    wanted = extras.get("distributed_type", default)
    if wanted == default:
        return default
    if wanted != "FSDP":
        raise PreflightRefused(
            f"{extras_from} sets accelerate.distributed_type to {shown(wanted)}; {processes} process(es) make it {default}",
            hint="leave it out; FSDP is for `task: script`",
        )
    if device == "cpu":
        raise PreflightRefused(f"{extras_from} asks for FSDP, which has no effect on CPUs", hint="use another profile")
    return "FSDP"


def _refuse_other_shards(sharded: Mapping[str, object], extras: Mapping[str, object], extras_from: str) -> None:
    """Refuse extras that say otherwise what `train.sharding` decides; they may add to it."""
    given = extras.get("fsdp_config")
    if not sharded or not isinstance(given, Mapping):
        return
    for key, value in FIXED.items():
        if given.get(key, value) != value:
            raise PreflightRefused(
                f"{extras_from} sets accelerate.fsdp_config.{key} to {shown(given[key])}, but `train.sharding` of the "
                f"experiment makes it {shown(value)}",
                hint=f"remove `{key}` from the profile's `accelerate:`",
            )


def _keys_below(values: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if above:
            yield f"{above}.{key}", key
        if isinstance(value, Mapping):
            yield from _keys_below(value, f"{above}.{key}" if above else key)
