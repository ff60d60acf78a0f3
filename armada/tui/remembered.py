"""Keep the dashboard's settings, such as the theme, for the next start; `armada ps` shares the columns."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from armada.foundation.atomic_write import write_atomically
from armada.foundation.regular_files import open_regular

if TYPE_CHECKING:
    from io import BufferedReader

    from armada.paths import HomePaths

_LARGEST_BYTES = 100_000
_LONGEST_WORD = 200
_LONGEST_FILTER = 2000
_COMMANDS_KEPT = 500
MOST_PINNED = 100
"""Runs at the top of the list."""
_COMMANDS_BYTES = 1_000_000


def open_linked(path: Path) -> BufferedReader:
    """Open a file of settings, which may be a link to one that is kept elsewhere.

    Raises:
        OSError: It is missing, or is a folder, a pipe or a device.
    """
    return open_regular(Path(os.path.realpath(path)))


def _file(home: HomePaths) -> Path:
    return home.state / "dashboard" / "chosen.json"


def _read(home: HomePaths) -> dict[str, object]:
    try:
        with open_linked(_file(home)) as stream:
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


def pinned(home: HomePaths) -> list[str]:
    """Return the ids of the runs that are pinned to the top of the list; they may have been removed meanwhile."""
    found = _read(home).get("pinned")
    words = found if isinstance(found, list) else []
    return [word for word in words if isinstance(word, str) and 0 < len(word) <= _LONGEST_WORD][:MOST_PINNED]


def keep_pinned(home: HomePaths, run_ids: list[str]) -> None:
    """Remember the pinned runs."""
    _keep(home, "pinned", run_ids or None)


class Listed(NamedTuple):
    """How Runs lists: the filter, the order, whether that is reversed, and what runs are grouped by."""

    words: str = ""
    sort: str = "urgency"
    reverse: bool = False
    group: str = "nothing"


USUAL = Listed()


def listing(home: HomePaths) -> Listed:
    """Return how Runs listed last; for what is not known, what a new home has."""
    found = _read(home).get("runs")
    known = found if isinstance(found, dict) else {}
    words = known.get("filter")
    if not (isinstance(words, str) and len(words) <= _LONGEST_FILTER and words.isprintable()):
        words = USUAL.words
    sort, group = (_word(known.get(name), getattr(USUAL, name)) for name in ("sort", "group"))
    return Listed(words, sort, known.get("reverse") is True, group)


def _word(found: object, usual: str) -> str:
    return found if isinstance(found, str) and 0 < len(found) <= _LONGEST_WORD else usual


def keep_listing(home: HomePaths, listed: Listed) -> None:
    """Remember how Runs lists."""
    kept = {"filter": listed.words, "sort": listed.sort, "reverse": listed.reverse, "group": listed.group}
    _keep(home, "runs", None if listed == USUAL else kept)


class Charted(NamedTuple):
    """How a screen shows charts: the horizontal axis, how many at once, the smoothing, and whether values are logarithmic."""

    against: str = "step"
    panels: int = 1
    smoothing: float = 0.0
    logarithmic: bool = False


def charting(home: HomePaths, screen: str) -> Charted:
    """Return how a screen, `run` or `compare`, showed charts last; the caller knows which values there are."""
    found = _read(home).get("charts")
    every = found if isinstance(found, dict) else {}
    found = every.get(screen)
    known = found if isinstance(found, dict) else {}
    panels, smoothing = (known.get(name) for name in ("panels", "smoothing"))
    usual = Charted()
    return Charted(
        _word(known.get("against"), usual.against),
        panels if isinstance(panels, int) and not isinstance(panels, bool) else usual.panels,
        smoothing if isinstance(smoothing, int | float) and not isinstance(smoothing, bool) else usual.smoothing,
        known.get("logarithmic") is True,
    )


def keep_charting(home: HomePaths, screen: str, charted: Charted) -> None:
    """Remember how a screen shows charts."""
    found = _read(home).get("charts")
    every = {**(found if isinstance(found, dict) else {}), screen: charted._asdict()}
    if charted == Charted():
        del every[screen]
    _keep(home, "charts", every or None)


def notified_until(home: HomePaths) -> int:
    """Return the id of the newest notification that was read; 0 if none was."""
    found = _read(home).get("notified_until")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def keep_notified_until(home: HomePaths, newest: int) -> None:
    """Remember the newest notification that was read."""
    _keep(home, "notified_until", newest)


def has_toured(home: HomePaths) -> bool:
    """Return whether the steps for newcomers were shown."""
    return _read(home).get("toured") is True


def keep_toured(home: HomePaths) -> None:
    """Remember that the steps for newcomers were shown."""
    _keep(home, "toured", True)


def commands(home: HomePaths) -> list[str]:
    """Return what was typed into the command line, oldest first."""
    try:
        with open_linked(home.state / "dashboard" / "commands.json") as stream:
            found = json.loads(stream.read(_COMMANDS_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    words = found if isinstance(found, list) else []
    return [word for word in words if isinstance(word, str) and word.isprintable()][-_COMMANDS_KEPT:]


def keep_command(home: HomePaths, text: str) -> None:
    """Remember a command; the same one is kept once, as the newest."""
    kept = [*(each for each in commands(home) if each != text), text][-_COMMANDS_KEPT:]
    while len(json.dumps(kept)) > _COMMANDS_BYTES:
        kept = kept[1:]
    file = home.state / "dashboard" / "commands.json"
    with contextlib.suppress(OSError, ValueError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, json.dumps(kept), durable=False)
