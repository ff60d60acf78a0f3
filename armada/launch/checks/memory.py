"""Check the memory of GPUs against an estimate, and the length of rows against the model's positions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from armada.launch.checks.check import Answer, fail, ok, warn
from armada.launch.estimates.memory import MemoryEstimate, TrainingShape, estimate_memory, staged_bytes
from armada.launch.training.model_facts import training_shape
from armada.launch.training.sharding import divided_parts
from armada.units import memory_amount

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject, Trained
    from armada.launch.estimates.shape import ModelShape

_SHOWN_SHARE = 0.01
_MOST_REMEDIES = 3
_SHARD = "`train.sharding: fsdp`"
_RECOMPUTE = "`train: {activation_checkpointing: true}` in the profile"


def estimate_launch(subject: Subject) -> MemoryEstimate | None:
    """Return the estimate of a training's memory for each process; None where none can be made."""
    trained = subject.trained
    if trained is None or trained.facts.shape is None or trained.is_divided:
        return None
    return estimate_memory(trained.facts.shape, _shape_of(trained, subject))


def check_memory(subject: Subject) -> Answer | None:
    """Compare the estimate with a GPU's memory. Only weights and optimizer alone are certain enough to refuse."""
    trained = subject.trained
    if trained is None:
        return None
    if trained.is_divided:
        return ok("memory is not estimated: DeepSpeed's file decides where the states are")
    if trained.facts.shape is None:
        return ok(f"memory is not estimated: {trained.facts.problem}")
    shape, training = trained.facts.shape, _shape_of(trained, subject)
    estimate = estimate_memory(shape, training)
    what = _describe(estimate) + _name_choices(trained)
    if trained.teacher is not None and trained.teacher.shape is None:
        what = f"without the teacher, whose size is unknown ({trained.teacher.problem}), {what}"
    if training.device == "cpu":
        return _compare_ram(subject, estimate, what)
    what += " on each GPU"
    memory, named = find_gpu_memory(subject)
    if memory is None:
        return ok(f"{what}; how much one has is not known")
    has = f"{named} has {memory_amount(memory)}"
    if estimate.certain_bytes > memory:
        alone = "weights and optimizer" if trained.teacher is None else "both models' weights and the optimizer"
        sentence = f"{alone} alone need {memory_amount(estimate.certain_bytes)} on each GPU, and {has}"
        return fail(sentence, _remedy(shape, training, memory, may_shard=trained.may_shard))
    if estimate.total_bytes > memory:
        return warn(f"{what}, and {has}", _remedy(shape, training, memory, may_shard=trained.may_shard))
    staged, there = staged_bytes(shape, training), subject.facts.memory_bytes
    if staged:
        what += f"; a checkpoint that is being written takes {memory_amount(staged)} of the host's memory"
        if there is not None and subject.host.batch is None and staged > there:
            return warn(f"{what}, which is {memory_amount(there)}", "`checkpoint: {in_background: false}`")
    close = "; it may not fit" if estimate.high_bytes > memory else ""
    return ok(f"{what}; {has}{close}")


def check_length(subject: Subject) -> Answer | None:
    """Compare `train.max_length` with the positions of a hub model. A folder is checked with the payload's code (ARM015)."""
    trained = subject.trained
    if trained is None or trained.model is not None or trained.hub_model is None or trained.facts.positions is None:
        return None
    length, positions = trained.section.train.get("max_length"), trained.facts.positions
    if not isinstance(length, int) or length <= positions:
        return ok(f"rows are at most {length} tokens long, and the model is made for {positions}")
    shape = trained.facts.shape
    effect = (
        "rows beyond them end the training"
        if shape and shape.learned_positions
        else "its output may be worse beyond them"
    )
    place = subject.experiment.places.get("train.max_length")
    sentence = f"`train.max_length` {length} is more than the {positions} positions of {trained.hub_model}: {effect}"
    return warn(f"{place}: {sentence}" if place else sentence, f"train.max_length: {positions}")


def _shape_of(trained: Trained, subject: Subject) -> TrainingShape:
    return training_shape(
        trained.section,
        subject.facts.gpus if subject.host.batch is None else (),
        sequences=trained.sequences,
        has_reference=trained.has_reference,
        teacher=trained.teacher.shape if trained.teacher is not None else None,
    )


def find_gpu_memory(subject: Subject) -> tuple[int | None, str]:
    """Return the memory of the smallest GPU in bytes, and its name. A cluster's login node does not show the workers' GPUs."""
    if subject.host.batch is None:
        sizes = [(gpu.memory_total_bytes, gpu.name) for gpu in subject.facts.gpus if gpu.memory_total_bytes]
        # A process has the memory of its slice, which the profile knows.
        if sizes and not any(gpu.slices for gpu in subject.facts.gpus):
            return min(sizes)
    profile = subject.profile
    if profile is None or profile.gpus.memory_gb is None:
        return None, ""
    # Vendors mean 2**30 bytes: nvidia-smi shows 24,576 MiB for 24 GB.
    return int(profile.gpus.memory_gb * 2**30), f"a GPU of profile {profile.name}"


def _compare_ram(subject: Subject, estimate: MemoryEstimate, what: str) -> Answer:
    has, processes = subject.facts.memory_bytes, max(1, subject.processes)
    if subject.host.batch is not None or has is None or estimate.total_bytes * processes <= has:
        return ok(f"{what} in each process")
    each = f" × {processes} processes" if processes > 1 else ""
    return warn(
        f"{what}{each}, and the host has {memory_amount(has)}",
        "a smaller micro batch, a shorter max_length, or fewer processes",
    )


def _describe(estimate: MemoryEstimate) -> str:
    shown = sorted(estimate.terms, key=lambda term: -term.size_bytes)
    least = estimate.total_bytes * _SHOWN_SHARE
    terms = ", ".join(f"{term.name} {memory_amount(term.size_bytes)}" for term in shown if term.size_bytes >= least)
    span = f"{memory_amount(estimate.low_bytes)} to {memory_amount(estimate.high_bytes)}"
    return f"an estimated {memory_amount(estimate.total_bytes)} ({span}; {terms})"


def _name_choices(trained: Trained) -> str:
    """Name how the loss is computed, and by which kernels a step is, if armada chose that."""
    said = ""
    if trained.logits_why:
        how = "of all logits at once" if trained.section.train.get("logits") == "whole" else "in tiles"
        said += f"; the loss is computed {how}, {trained.logits_why}"
    if trained.kernels_why:
        whose = "Liger's" if trained.section.train.get("kernels") == "liger" else "transformers' own"
        said += f"; the kernels are {whose}, {trained.kernels_why}"
    return said


def _remedy(shape: ModelShape, training: TrainingShape, memory: int, *, may_shard: bool) -> str:
    """Name the single changes with which the estimate fits; if none does, all that help together."""
    changes = _changes(training, may_shard=may_shard)
    fitting = []
    for key, change in changes:
        total = estimate_memory(shape, change).total_bytes
        if total <= memory:
            fitting.append(f"{key} (about {memory_amount(total)})")
    if fitting:
        return " or ".join(fitting[:_MOST_REMEDIES])
    least = dataclasses.replace(training, micro_batch=1, activation_checkpointing=True)
    combinations = [("", least)]
    if may_shard and training.processes > 1:
        combinations.append((f"{_SHARD} with ", _sharded(least)))
    if training.method == "full":
        combinations.append(("`lora: {}` with ", dataclasses.replace(least, method="lora", has_reference=False)))
    if _may_quantize(training):
        combinations.append(
            ("`lora: {quantize: nf4}` with ", dataclasses.replace(least, method="qlora", has_reference=False))
        )
    for key, together in combinations:
        total = estimate_memory(shape, together).total_bytes
        if total <= memory:
            return f"{key}`train.micro_batch_size: 1` and {_RECOMPUTE} (about {memory_amount(total)})"
    return "GPUs with more memory, or a smaller model"


def _sharded(training: TrainingShape) -> TrainingShape:
    """Return a training whose processes divide model, gradients and optimizer among themselves."""
    return dataclasses.replace(training, sharded=divided_parts("fsdp"), whole_logits=False)


def _may_quantize(training: TrainingShape) -> bool:
    """Whether its base may be in 4 bits, which FSDP does not divide."""
    return training.method != "qlora" and training.precision == "bf16" and "weights" not in training.sharded


def _smaller(micro_batch: int) -> list[int]:
    """Return the two largest divisors down to a sixteenth, the larger first; 1 if there is none."""
    found = [micro_batch // part for part in range(2, 17) if micro_batch % part == 0][:2]
    return found or ([1] if micro_batch > 1 else [])


def _changes(training: TrainingShape, *, may_shard: bool) -> list[tuple[str, TrainingShape]]:
    """List changes that need less memory, the least intrusive first."""
    found = (
        [("`train.logits: tiles`", dataclasses.replace(training, whole_logits=False))] if training.whole_logits else []
    )
    found += [
        (f"`train.micro_batch_size: {size}`", dataclasses.replace(training, micro_batch=size, accumulates=True))
        for size in _smaller(training.micro_batch)
    ]
    if not training.activation_checkpointing:
        wanted = dataclasses.replace(training, activation_checkpointing=True)
        found.append((_RECOMPUTE, wanted))
    if may_shard and training.processes > 1:
        found.append((_SHARD, _sharded(training)))
    if training.method == "full":
        found.append(("`lora: {}`", dataclasses.replace(training, method="lora", has_reference=False)))
    if _may_quantize(training):
        found.append(("`lora: {quantize: nf4}`", dataclasses.replace(training, method="qlora", has_reference=False)))
    if training.length >= 512:
        half = training.length // 2
        found.append((f"`train.max_length: {half}`", dataclasses.replace(training, length=half)))
    return found
