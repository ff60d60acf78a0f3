"""Keep the dashboard's settings, such as theme and order, for the next start."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from armada.foundation.atomic_write import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths


def _file(home: HomePaths) -> Path:
    return home.state / "dashboard" / "chosen.json"


def theme(home: HomePaths) -> str | None:
    """Return the theme that was chosen last; None if none was chosen, or the file cannot be read."""
    try:
        found = json.loads(_file(home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    name = found.get("theme") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def keep_theme(home: HomePaths, name: str) -> None:
    """Remember the theme; if the disk is not writable, it lasts only for this session."""
    file = _file(home)
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"theme": name}), durable=False)
