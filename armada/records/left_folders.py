"""Find runs at home that the store does not have: it was deleted, or replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.paths import HomePaths

FINDS_AGAIN = "armada recover finds them again"


def left_folders(home: HomePaths) -> str | None:
    """Say that folders of runs are at home, for a store that has no runs. None if there are none."""
    places = (home.state / "runs", home.local_root / "runs")
    names = {folder.name for place in places if place.is_dir() for folder in place.iterdir() if folder.is_dir()}
    if not names:
        return None
    lie = "folder of a run is" if len(names) == 1 else "folders of runs are"
    return (
        f"The store has no runs, but {len(names)} {lie} at home: `armada rm` left them, or {home.store} was "
        "deleted or replaced"
    )
