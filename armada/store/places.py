"""Paths of files at home, relative to the store's folder, so that a moved, copied or restored home finds its own files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.store.database import Database

_PUBLISHED_PARTS = 4  # runs/<run_id>/checkpoints/<name>


def write(database: Database, path: Path) -> str:
    """What the store keeps of a path.

    Raises:
        ValueError: It does not lie below the home that the store belongs to.
    """
    return path.relative_to(database.below).as_posix()


def read(database: Database, text: str) -> Path | None:
    """Where a published checkpoint lies.

    A store of the first release kept absolute paths. Their last parts say where below its home a checkpoint lay, whatever that was
    called, and whichever home this is a copy of.

    Returns:
        Always a path below this home; None for what can be none.
    """
    place = PurePosixPath(text)
    if place.is_absolute():
        place = PurePosixPath(*place.parts[-_PUBLISHED_PARTS:])
    if place.is_absolute() or ".." in place.parts or not place.parts or place.parts[0] != "runs":
        return None
    return database.below / place
