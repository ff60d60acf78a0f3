"""Divide weights, gradients and optimizer among the ranks (FSDP2), and save and load what is divided.

accelerate shards as launch/accelerate.yaml tells it. What is missing there is here: sharding on CPUs, whole files
beside the shards, and loading shards into another number of ranks or into a model that is not sharded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from accelerate.state import DistributedType, PartialState
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from armada_train.checkpoints.shards import MODEL, OPTIMIZER
from armada_train.failure import PayloadFailure
from armada_train.specification.values import Training


def shards_on_cpu(training: Training) -> bool:
    return training.is_sharded and training.device == "cpu"


def let_cpus_shard(training: Training) -> None:
    """Name the world so that accelerate shards on CPUs too, which torch does over gloo without complaint.

    accelerate 1.15 looks at FSDP's settings only for GPUs and the like, and otherwise trains replicas without a word.
    It must happen after the trainer's arguments have joined the process group, and before the trainer is made.
    """
    if shards_on_cpu(training):
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_XPU  # noqa: SLF001


def divide_frozen(model: Any, accelerator: Any) -> None:
    """Divide a model that is never trained, each layer a unit of its own.

    TRL 1.16 makes one unit of a whole reference, which every rank then holds at once during its forward pass; what it
    finds divided already it leaves so. A teacher it does not divide at all.
    """
    plugin = accelerator.state.fsdp_plugin
    before = plugin.auto_wrap_policy, plugin.transformer_cls_names_to_wrap
    fsdp2_prepare_model(accelerator, model.requires_grad_(requires_grad=False).eval())
    # The classes of its layers, which may be others than those of the trained model's.
    plugin.auto_wrap_policy, plugin.transformer_cls_names_to_wrap = before


def describe_parts(what: str, model: Any, ranks: int) -> str:
    """Say how much of a model this rank holds."""
    held = sum(local(weight).numel() for weight in model.parameters())
    whole = sum(weight.numel() for weight in model.parameters())
    return f"the {what} is divided among {ranks} ranks: this one holds {held:,} of its {whole:,} parameters"


def guard_head(model: Any) -> None:
    """Refuse to train an output head that is still divided when the loss takes its weight (TRL 1.16, accelerate 1.15).

    TRL then gathers it by itself, and the gradient of each rank's rows stays on that rank: the losses were 0.02 off after
    three steps, without a word. accelerate gathers the head with the model's last norm, if it finds both.

    Raises:
        PayloadFailure: `bad_spec`, in the first forward pass.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    backbone = getattr(inner, inner.base_model_prefix, None)

    def check(*_: Any) -> None:
        weight = getattr(inner.get_output_embeddings(), "weight", None)
        if isinstance(weight, DTensor) and weight.requires_grad:
            raise PayloadFailure(
                "bad_spec",
                f"`training.train.sharding`: FSDP would not add up the gradients of the output head of {type(inner).__name__}: "
                "use `train: {sharding: zero3}` or `none`",
            )

    if backbone is not None:
        backbone.register_forward_hook(check)


def local(weight: Any) -> Any:
    """Return this rank's part of a weight."""
    return weight.to_local() if hasattr(weight, "to_local") else weight


def gather_trained(model: Any) -> dict[str, Any]:
    """Return the trained weights, whole and on the CPU; every rank must call this.

    It is meant for adapters, which are small.
    """
    return {
        name: (weight.full_tensor() if hasattr(weight, "full_tensor") else weight).detach().cpu()
        for name, weight in model.named_parameters()
        if weight.requires_grad
    }


def load_shards(model: Any, checkpoint: Path) -> None:
    """Load sharded weights into a model that is not sharded; each rank reads all of them.

    Raises:
        PayloadFailure: `resume_mismatch`: the checkpoint lacks a weight.
    """
    reader = dcp.FileSystemReader(checkpoint / MODEL)
    held = reader.read_metadata().state_dict_metadata
    for name, _ in model.named_parameters():
        if f"model.{name}" not in held:
            raise PayloadFailure("resume_mismatch", f"{checkpoint.name}: its shards hold no weight {name}")
    wanted = {name: value for name, value in model.state_dict().items() if f"model.{name}" in held}
    dcp.load({"model": wanted}, storage_reader=reader, no_dist=True)


def load_sharded_moments(model: Any, optimizer: Any, checkpoint: Path) -> None:
    """Load a sharded optimizer into one that is not sharded."""
    options = StateDictOptions()
    state = get_optimizer_state_dict(model, optimizer, options=options)
    dcp.load({"optimizer": state}, storage_reader=dcp.FileSystemReader(checkpoint / OPTIMIZER), no_dist=True)
    set_optimizer_state_dict(model, optimizer, state, options=options)


def give_moments(optimizer: Any, saved: Mapping[str, Any]) -> None:
    """Load a whole optimizer's state into a sharded one: each rank keeps its own part of every moment."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state = {
        number: {
            name: distribute_tensor(
                value.to(weights[number].device), weights[number].device_mesh, weights[number].placements
            )
            if torch.is_tensor(value) and value.dim()
            else value
            for name, value in moments.items()
        }
        for number, moments in saved["state"].items()
    }
    optimizer.load_state_dict({**saved, "state": state})
