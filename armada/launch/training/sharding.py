"""Derive accelerate's and DeepSpeed's settings from `train.sharding`, and compare the user's own with the word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from armada.config.documents import shown
from armada.config.training import FSDP_WORDS, ZERO_STAGES
from armada.errors import PreflightRefused

if TYPE_CHECKING:
    from armada.config.training import Sharding
    from armada.launch.estimates.memory import Sharded

_REPLICAS = 2
"""Of `fsdp-hybrid`: each is divided among half of the processes, which on one machine are the closest to each other."""


FIXED: dict[str, object] = {"fsdp_version": 2, "fsdp_state_dict_type": "SHARDED_STATE_DICT"}
"""Of accelerate's `fsdp_config`: the trainer resumes from nothing else."""


def uses_fsdp(sharding: Sharding, processes: int) -> bool:
    """Whether FSDP divides the training. A single process has nobody to divide it with."""
    return sharding in FSDP_WORDS and processes > 1


def fsdp_settings(sharding: Sharding, processes: int, *, activation_checkpointing: bool) -> dict[str, object]:
    """Return the keys of accelerate.yaml that make it FSDP2, each layer of the model a unit of its own.

    Raises:
        PreflightRefused: `fsdp-hybrid` cannot divide so few processes.
    """
    settings: dict[str, object] = {
        "fsdp_config": {
            **FIXED,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",  # by the classes that the model names itself
            "fsdp_reshard_after_forward": True,
            "fsdp_cpu_ram_efficient_loading": True,  # one process reads the model, and not all of them
            "fsdp_activation_checkpointing": activation_checkpointing,
        }
    }
    if sharding == "fsdp-hybrid":
        settings["parallelism_config"] = {
            "parallelism_config_dp_replicate_size": _REPLICAS,
            "parallelism_config_dp_shard_size": shard_size(sharding, processes),
        }
    return settings


def shard_size(sharding: Sharding, processes: int) -> int:
    """Return among how many processes weights and optimizer are divided.

    Raises:
        PreflightRefused: `fsdp-hybrid` cannot divide so few processes.
    """
    if sharding != "fsdp-hybrid" or processes == 1:
        return processes
    if processes % _REPLICAS or processes < 2 * _REPLICAS:
        raise PreflightRefused(
            f"`train.sharding: fsdp-hybrid` makes {_REPLICAS} replicas, each divided among half of the processes, and "
            f"there are {processes}",
            hint="an even number of at least 4 GPUs, or `train: {sharding: fsdp}`",
        )
    return processes // _REPLICAS


def zero_settings(sharding: Sharding, precision: str) -> dict[str, object] | None:
    """Return the DeepSpeed file of `zero2` and `zero3`; the trainer fills in each `auto` from the plan."""
    stage = ZERO_STAGES.get(sharding)
    if stage is None:
        return None
    zero: dict[str, object] = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
    if stage == max(ZERO_STAGES.values()):
        # Checkpoints then hold a whole model beside the shards, which is what comes home and is exported.
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    return {
        "zero_optimization": zero,
        "bf16": {"enabled": precision == "bf16"},
        "fp16": {"enabled": precision == "fp16"},
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }


def divided_parts(sharding: object) -> frozenset[Sharded]:
    """Return what the processes divide among themselves."""
    if sharding in FSDP_WORDS or sharding == "zero3":
        return frozenset({"weights", "gradients", "optimizer"})
    return frozenset({"gradients", "optimizer"} if sharding == "zero2" else ())


def refuse_other_word(
    sharding: Sharding, processes: int, settings: Mapping[str, object], place: object, word: object
) -> None:
    """Refuse settings of accelerate that divide the training otherwise than the word.

    Args:
        sharding: The word.
        processes: Those of the plan.
        settings: An accelerate file, or a profile's `accelerate:`.
        place: Where they say it.
        word: Where the word stands, as part of a sentence.

    Raises:
        PreflightRefused: They differ.
    """
    wanted = settings.get("distributed_type")
    if wanted == "FSDP" and not uses_fsdp(sharding, processes):
        alone = "; a single process has nobody to divide it with" if sharding in FSDP_WORDS else ""
        raise PreflightRefused(
            f"{place}: `distributed_type` is FSDP, but {word} is {sharding}{alone}",
            hint="set `train: {sharding: fsdp}` in the experiment, or leave `distributed_type` out",
        )
    if wanted not in {None, "FSDP"} and uses_fsdp(sharding, processes):
        raise PreflightRefused(
            f"{place}: `distributed_type` is {shown(wanted)}, but {word} is {sharding}, which makes it FSDP",
            hint="leave `distributed_type` out of the file",
        )
