"""Whether home's disk keeps the names of a checkpoint apart (`foundation/folded_names.py`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.folded_names import folded
from armada.sync.checkpoints.manifest import OURS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.sync.transfer.interface import File


def find_hidden(folder: Path, files: Sequence[File]) -> str | None:
    """Return the name of a file that is not in a folder, if another of these names is taken for it there. None if all are there.

    One whose bytes are those of the other is not lost.
    """
    known: dict[str, set[str]] = {}
    for file in files:
        known.setdefault(folded(file.path), set()).add(file.sha256)
    doubtful = [file for file in files if len(known[folded(file.path)]) > 1]
    if not doubtful:
        return None
    return find_missing(folder, doubtful)


def find_missing(folder: Path, files: Sequence[File]) -> str | None:
    """Return the name of a file that a folder does not list, nor one of the same bytes that its disk may show instead."""
    listed = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    here = {(folded(file.path), file.sha256) for file in files if file.path in listed}
    return next((file.path for file in files if (folded(file.path), file.sha256) not in here), None)


def require_apart(folder: Path, files: Sequence[File], what: str) -> None:
    """Refuse a checkpoint of whose files a folder's disk does not keep all names. Call it before armada's own files are there.

    Raises:
        ArmadaError: It takes two of them for one, or one of them for a file of armada's.
    """
    name = find_missing(folder, files) or next((each for each in sorted(OURS) if os.path.lexists(folder / each)), None)
    if name is not None:
        raise not_apart(what, folder, name)


def not_apart(what: str, folder: Path, name: str) -> ArmadaError:
    """Return the error for a checkpoint of whose files a disk does not keep all names."""
    return ArmadaError(
        f"{what} cannot be whole at home: the disk of {folder.parent} takes {name} and another name in it for one",
        hint="put ARMADA_HOME on a disk that tells upper from lower case; until then, keep what the host has",
    )
