"""Measure where a training's time goes, at the seams of the Trainer and of accelerate."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Variable
from transformers import TrainerCallback

from armada_train.runfolder import RunFolder
from armada_train.training.time_parts import PARTS, HostTimer, QueueTimer, TimeParts, in_microseconds


def make_times(device: torch.device) -> TimeParts:
    """Return a stopwatch for the device that trains."""
    if device.type == "cuda":
        return TimeParts(QueueTimer(lambda: torch.cuda.Event(enable_timing=True)))
    return TimeParts(HostTimer())


def watch_training(trainer: Any, times: TimeParts, agreement: Any) -> None:
    """Measure the parts of a trainer's steps that are calls of accelerate, and what the ranks exchange.

    Args:
        trainer: After its construction.
        times: Receives the times.
        agreement: What the ranks agree by.
    """
    accelerator, world_size = trainer.accelerator, int(trainer.args.world_size)
    trainer.add_callback(_OptimizerCallback(times))
    accelerator.clip_grad_norm_ = times.within("optimizer", accelerator.clip_grad_norm_)
    backward = times.within("backward", accelerator.backward)
    if world_size == 1:
        accelerator.backward = backward
        return

    def backward_of_several(loss: Any, **kwargs: Any) -> Any:
        if loss.requires_grad:
            loss.register_hook(announce_end)
        return backward(loss, **kwargs)

    def announce_end(_gradient: Any) -> None:
        # The engine calls what is queued in this order after the last gradient. DDP and FSDP queue later than this, and
        # wait there for the other ranks' gradients.
        Variable._execution_engine.queue_callback(end_own_part)  # noqa: SLF001  # as torch's own FSDP does

    def end_own_part() -> None:
        times.turn_into("communication")

    accelerator.backward = backward_of_several
    for each, name in ((accelerator, "gather"), (accelerator, "reduce"), (agreement, "highest")):
        setattr(each, name, times.within("communication", getattr(each, name)))


def pack_times(times: TimeParts, run: RunFolder, device: torch.device) -> torch.Tensor:
    """Return a rank's times at its place among all ranks: the sum over the ranks has those of each."""
    packed = torch.zeros(run.world_size, len(PARTS), dtype=torch.int64)
    packed[run.rank] = torch.tensor(in_microseconds(times.lap()))
    return packed.flatten().to(device)


class _OptimizerCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not installed where types are checked
    def __init__(self, times: TimeParts) -> None:
        self._times = times

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._times.begin(state.global_step)

    def on_pre_optimizer_step(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._times.enter("optimizer")

    def on_step_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._times.leave()
