"""Copy a published checkpoint to a separate folder, to work with."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from armada.errors import NotFound
from armada.sync.checkpoints.manifest import NAME
from armada.sync.checkpoints.new_folder import check_target, copy_verified, new_folder
from armada.sync.checkpoints.published import PARTIAL, left_out, read_published

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database


def copy_checkpoint(database: Database, home: HomePaths, checkpoint: Checkpoint, target: Path) -> Path:
    """Copy a checkpoint at home to a new folder; each file is verified while it is copied.

    Raises:
        UsageError: It is no folder that a checkpoint can be copied to.
        Conflict: The folder exists and is not empty.
        DiskFull: It does not fit there.
        ArmadaError: A file at home is damaged, or the folder cannot be written.
    """
    if checkpoint.home_path is None:
        raise NotFound(f"checkpoint-{checkpoint.step} did not come home")
    check_target(target, home)
    manifest, files = read_published(checkpoint.home_path, checkpoint.digest)
    what = f"a copy of checkpoint-{checkpoint.step}"
    with new_folder(target, what, sum(file.size for file in files)) as part:
        for file in files:
            place = part / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            copy_verified(database, checkpoint, file, place)
        (part / NAME).write_text(manifest.text)
        if left_out(checkpoint.home_path):
            shutil.copyfile(checkpoint.home_path / PARTIAL, part / PARTIAL)
    return target
