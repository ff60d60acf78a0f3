"""Store paths relative to the store's folder, so that a moved, copied or restored home finds its own files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.store.database import Database

_PUBLISHED_PARTS = 4  # runs/<run_id>/checkpoints/<name>


def write(database: Database, path: Path) -> str:
    """Convert a path to the form the store keeps.

    Raises:
        ValueError: The path is not below the home that the store belongs to.
    """
    return path.relative_to(database.below).as_posix()


def read(database: Database, text: str) -> Path | None:
    """Convert the store's form back to the path of a published checkpoint.

    A store of the first release kept absolute paths. Their last parts are the place below home, even if home was moved
    or copied.

    Returns:
        A path below this home, or None if the text is not such a path.
    """
    place = PurePosixPath(text)
    if place.is_absolute():
        place = PurePosixPath(*place.parts[-_PUBLISHED_PARTS:])
    if place.is_absolute() or ".." in place.parts or not place.parts or place.parts[0] != "runs":
        return None
    return database.below / place
