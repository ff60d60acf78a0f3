"""Send a checkpoint from home to a host: the files of its manifest, each compared with what the manifest says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.provision.content import Content, take_stock
from armada.sync.checkpoints.new_folder import damaged, read_whole
from armada.sync.checkpoints.proof import doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from armada.errors import ArmadaError
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

_NOTHING_SENT = "nothing was sent"


def checkpoint_content(
    database: Database, checkpoint: Checkpoint, place: Path, choose: Callable[[Iterable[str]], list[str]]
) -> Content:
    """Return files of a checkpoint at home as a content for hosts.

    A file that differs from the manifest is recorded as damage. What else lies in the folder is not sent.

    Args:
        database: The store.
        checkpoint: The checkpoint.
        place: Its folder at home.
        choose: Returns those of its file names that are sent. What it raises is passed on.

    Raises:
        NotFound: The folder is gone.
        ArmadaError: A file is not as it came.
        ProvisionFailed: A file cannot be read.
    """
    _, manifest, here = read_whole(database, checkpoint, place, _NOTHING_SENT)
    names = choose(file.path for file in here)
    for name in names:
        if not (place / name).is_file():
            raise _damage(database, checkpoint, name)
    content = take_stock("models", place, names)
    right = {file.path: file.sha256 for file in manifest.files}
    for name, _, sha256, _ in content.manifest:
        if right[name] != sha256:
            raise _damage(database, checkpoint, name)
    return content


def _damage(database: Database, checkpoint: Checkpoint, name: str) -> ArmadaError:
    doubt(database, checkpoint, name)
    return damaged(checkpoint, name, _NOTHING_SENT)
