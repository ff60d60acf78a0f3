"""Copy a published checkpoint to a separate folder, to work with."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, NotFound
from armada.sync.checkpoints.manifest import NAME
from armada.sync.checkpoints.published import PARTIAL, left_out, read_published
from armada.sync.transfer.staging import check_space, is_right

if TYPE_CHECKING:
    from pathlib import Path

    from armada.store.checkpoints import Checkpoint


def copy_checkpoint(checkpoint: Checkpoint, target: Path) -> Path:
    """Copy a checkpoint at home to a new folder; each file is verified while it is copied.

    Raises:
        Conflict: The folder exists and is not empty.
        ArmadaError: A file at home is damaged, or the folder cannot be written.
    """
    if checkpoint.home_path is None:
        raise NotFound(f"checkpoint-{checkpoint.step} did not come home")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise _taken(target)
    manifest, files = read_published(checkpoint.home_path, checkpoint.digest)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        check_space(part, f"a copy of checkpoint-{checkpoint.step}", sum(file.size for file in files))
        for file in files:
            place = part / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint.home_path / file.path, place)
            if not is_right(part, file):
                raise ArmadaError(
                    f"{checkpoint.home_path / file.path} is damaged", hint=f"armada sync verify {checkpoint.run_id}"
                )
        (part / NAME).write_text(manifest.text)
        if left_out(checkpoint.home_path):
            shutil.copyfile(checkpoint.home_path / PARTIAL, part / PARTIAL)
        part.replace(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(target) from error  # another process created it during the copy
        raise ArmadaError(f"cannot copy to {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} exists already", hint="name a folder that does not exist")
