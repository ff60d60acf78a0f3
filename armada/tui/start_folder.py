"""The folder in which the dashboard was started, which somebody may delete while it is open."""

from __future__ import annotations

from pathlib import Path


def start_folder() -> Path | None:
    """Return the current folder; None if it is deleted already."""
    try:
        return Path.cwd()
    except OSError:
        return None
