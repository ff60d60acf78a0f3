"""Write a checkpoint's large files in the background: copied to host memory first, announced when all are whole.

The Trainer, transformers and PEFT save as they always do. While they do, calls that would write weights or the optimizer
are kept, with copies of their tensors, and a thread makes them afterwards. What is not recognised here is written at once.

Of a model that is divided (FSDP2), each rank copies and writes its own part. Their threads agree over a group of their
own, so they never meet the training's collectives: as `torch.distributed.checkpoint.async_save` does, but one save
after the other, and with the files that accelerate names.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import torch.distributed.checkpoint as dcp
from transformers.trainer_utils import rotate_checkpoints

from armada_train.checkpoints import announce as outbox
from armada_train.checkpoints.complete import MARK, drop_set_aside, newest_first, step_of
from armada_train.checkpoints.full_disk import give_up, is_disk_full
from armada_train.failure import GENERIC, PayloadFailure
from armada_train.runfolder import RunFolder
from armada_train.training.shard_errors import CheckpointException, of_its_rank
from armada_train.training.sharding import local

_OPTIMIZER = "optimizer.pt"
_WRITERS = ("transformers.modeling_utils", "peft.peft_model")
"""Modules that call `safe_save_file`, by a name of their own."""
_LONGEST_WRITE = timedelta(hours=6)
"""How long a rank's thread waits for another's, on a slow disk. If a rank dies, the others notice at once."""


class BackgroundWriter:
    """Writes one checkpoint at a time: on the first rank, or, of a model that is divided, on every rank.

    The thread is no daemon: an interpreter that ends waits for it. A process that is killed leaves a checkpoint with a
    mark, which nobody resumes from and which is never announced.

    Args:
        run: The run.
        divided: Whether each rank writes its part of the model. Then every rank must make one at the same time.
    """

    def __init__(self, run: RunFolder, *, divided: bool = False) -> None:
        self._run = run
        self._group = torch.distributed.new_group(backend="gloo", timeout=_LONGEST_WRITE) if divided else None
        self._writes: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._checkpoint = run.checkpoints
        self._error: Exception | None = None

    @contextmanager
    def stage(self, checkpoint: Path) -> Iterator[None]:
        """Keep the large writes of what is saved meanwhile, for `start`."""
        self._writes, self._checkpoint = [], checkpoint
        if not self.has_part:
            yield
            return
        if self._run.is_main:
            (checkpoint / MARK).touch()
        found: list[Any] = [sys.modules.get(name) for name in _WRITERS]
        modules = [module for module in found if hasattr(module, "safe_save_file")]
        before = [module.safe_save_file for module in modules]
        save, save_shards = torch.save, dcp.save
        try:
            for module in modules:
                module.safe_save_file = self._later(module.safe_save_file)
            torch.save = self._later_if_optimizer(save)
            dcp.save = self._later_together(save_shards)
            yield
        finally:
            torch.save, dcp.save = save, save_shards
            for module, function in zip(modules, before, strict=True):
                module.safe_save_file = function

    @property
    def has_part(self) -> bool:
        """Whether this rank writes anything in the background."""
        return self._run.is_main or self._group is not None

    def also(self, write: Callable[[], None]) -> None:
        """Make one more call after what was staged, and before the checkpoint counts as whole."""
        self._writes.append(write)

    def start(self, finish: Callable[[], None]) -> None:
        """Write what was staged, then call `finish` on the first rank; returns at once."""
        self._thread = threading.Thread(target=self._write, args=(self._writes, finish), name="armada-checkpoint")
        self._writes = []
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last checkpoint is written.

        Raises:
            PayloadFailure: It could not be written: `disk_full`, or `exception` with the cause.
        """
        self.settle()
        error, self._error = self._error, None
        if error is None:
            return
        if is_disk_full(error, self._run.checkpoints):
            others = [found.name for found in newest_first(self._run.checkpoints) if found != self._checkpoint]
            raise give_up(self._checkpoint, next(iter(others), None), is_main=self._run.is_main) from error
        raise PayloadFailure(GENERIC, _describe(self._checkpoint, error)) from error

    def settle(self) -> None:
        """Wait until nothing is being written, whatever became of it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, writes: list[Callable[[], None]], finish: Callable[[], None]) -> None:
        try:
            while writes:
                writes.pop(0)()  # and its copies are freed
            if self._run.is_main:
                (self._checkpoint / MARK).unlink()
                finish()
        except (Exception, CheckpointException) as error:
            self._error = of_its_rank(error) if isinstance(error, CheckpointException) else error
            if self._run.is_main:  # it is raised at the next save, or at the end
                print(_describe(self._checkpoint, self._error), flush=True)

    def _later(self, save: Callable[..., None]) -> Callable[..., None]:
        def keep(tensors: Any, path: Any, *given: Any, **named: Any) -> None:
            staged = copy_to_host(tensors)
            self._writes.append(lambda: save(staged, path, *given, **named))

        return keep

    def _later_together(self, save: Callable[..., Any]) -> Callable[..., None]:
        def keep(state_dict: Any, **named: Any) -> None:
            staged = copy_to_host(state_dict)
            self._writes.append(lambda: save(staged, **named, process_group=self._group))

        return keep

    def _later_if_optimizer(self, save: Callable[..., None]) -> Callable[..., None]:
        later = self._later(save)

        def keep(content: Any, path: Any, *given: Any, **named: Any) -> None:
            is_optimizer = isinstance(path, str | Path) and Path(path) == self._checkpoint / _OPTIMIZER
            (later if is_optimizer else save)(content, path, *given, **named)

        return keep


def finish_checkpoint(
    run: RunFolder,
    checkpoint: Path,
    announcement: Mapping[str, object],
    base_model: Path | None,
    rotate: Callable[[], None] | None = None,
) -> None:
    """Announce a checkpoint that is whole, and delete what it makes superfluous."""
    outbox.announce(run, checkpoint, announcement, base_model)
    drop_set_aside(run.checkpoints, step_of(checkpoint))
    if rotate is not None:
        rotate()


def rotate(checkpoint: Path, keep: int, best: str | None) -> None:
    """Delete the oldest checkpoints, as the Trainer does where nothing is written in the background."""
    rotate_checkpoints(
        output_dir=str(checkpoint.parent), save_total_limit=keep, best_model_checkpoint=best, use_mtime=True
    )


def copy_to_host(value: Any, seen: dict[Any, Any] | None = None) -> Any:
    """Copy all tensors in mappings and sequences to host memory; what shares memory there, shares it here.

    Weights that are tied must stay so: safetensors refuses some that share memory, and writes others once.
    """
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        held = local(value)  # this rank's part of it
        key = (held.device, held.data_ptr(), value.dtype, value.shape, value.stride())
        if key not in seen or not held.numel():
            seen[key] = value.detach().to("cpu", copy=True)
        return seen[key]
    if isinstance(value, Mapping):
        return {name: copy_to_host(each, seen) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copy_to_host(each, seen) for each in value)
    return value


def _describe(checkpoint: Path, error: Exception) -> str:
    return f"{checkpoint.name} could not be written: {type(error).__name__}: {error}"
