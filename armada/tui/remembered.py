"""Keep the dashboard's settings, such as the theme, for the next start; `armada ps` shares the columns."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from armada.foundation.atomic_write import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths

_LARGEST_BYTES = 100_000
_LONGEST_WORD = 200


def _file(home: HomePaths) -> Path:
    return home.state / "dashboard" / "chosen.json"


def _read(home: HomePaths) -> dict[str, object]:
    try:
        with _file(home).open("rb") as stream:
            found = json.loads(stream.read(_LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(home: HomePaths, name: str, value: object) -> None:
    """Remember one setting; if the disk is not writable, it lasts only for this session."""
    file = _file(home)
    kept = {**_read(home), name: value}
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, json.dumps({key: each for key, each in kept.items() if each is not None}), durable=False)


def theme(home: HomePaths) -> str | None:
    """Return the theme that was chosen last; None if none was chosen, or the file cannot be read."""
    name = _read(home).get("theme")
    return name if isinstance(name, str) else None


def keep_theme(home: HomePaths, name: str) -> None:
    """Remember the theme."""
    _keep(home, "theme", name)


def columns(home: HomePaths) -> list[str]:
    """Return the keys of the columns that were chosen for the table of runs; empty for the usual columns."""
    found = _read(home).get("columns")
    words = found if isinstance(found, list) else []
    return [word for word in words if isinstance(word, str) and 0 < len(word) <= _LONGEST_WORD]


def keep_columns(home: HomePaths, words: list[str]) -> None:
    """Remember the columns of the table of runs; none means the usual columns."""
    _keep(home, "columns", words or None)
