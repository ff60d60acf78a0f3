"""Find the file or folder that a mistyped path probably means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.config.documents import shown
from armada.config.validation import nearest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_ENTRIES = 5000


def near_path(path: Path, base: Path, fits: Callable[[Path], bool]) -> str | None:
    """Return a hint that names the nearest path, or None.

    Each part of the path that does not exist is replaced by the nearest name in its folder.

    Args:
        path: The path that is not there.
        base: The folder of the experiment's file; a path below it is named relative to it.
        fits: Whether a path is what the key takes.
    """
    found = path.anchor and type(path)(path.anchor)
    if not found:
        return None
    for part in path.parts[1:]:
        here = found / part
        if not here.exists():
            names = _names(found)
            near = nearest(part, names)
            if near is None:
                return None
            here = found / near
        found = here
    if found == path or not fits(found):
        return None
    name = found.relative_to(base) if found.is_relative_to(base) else found
    return f"did you mean {shown(str(name), 500)}?"


def _names(folder: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []
    return names if len(names) <= _MOST_ENTRIES else []
