"""Recognise a disk that fills while a checkpoint is saved, and explain it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from armada_train.failure import PayloadFailure

_FULL = (errno.ENOSPC, errno.EDQUOT)
_WORDS = ("No space left on device", "os error 28", "Disk quota exceeded", "StorageFull")
# torch's own zip writer only reports that the file is shorter than expected.
_TORCH_WORDS = ("unexpected pos", "iostream error", "PytorchStreamWriter failed")
_LITTLE_BYTES = 64 << 20


def is_disk_full(error: BaseException | None, folder: Path) -> bool:
    """Tell whether an exception, or one of its causes, comes from a full disk.

    Args:
        error: The exception raised while saving.
        folder: The folder that was written to.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        text = str(error)
        if any(words in text for words in _WORDS):
            return True
        if any(words in text for words in _TORCH_WORDS) and _free_bytes(folder) < _LITTLE_BYTES:
            return True
        error = error.__cause__ or error.__context__
    return False


def give_up(checkpoint: Path, last: str | None, *, is_main: bool) -> PayloadFailure:
    """Delete an incomplete checkpoint, which frees space for the run's own records, and return the failure to raise.

    Args:
        checkpoint: The folder that could not be written.
        last: Name of the newest complete checkpoint; None without any.
        is_main: Whether this rank writes checkpoints.
    """
    if is_main:
        shutil.rmtree(checkpoint, ignore_errors=True)
    free = f"{_free_bytes(checkpoint.parent) / 1e9:.1f} GB are free there without it"
    kept = f"{last} is the last complete one" if last else "there is no earlier one"
    place = f"the disk is full: {checkpoint.name} could not be saved in {checkpoint.parent}"
    return PayloadFailure("disk_full", f"{place} ({free}); {kept}. Free space there, then resume the run")


def _free_bytes(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
