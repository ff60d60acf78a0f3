"""Saved views of the runs: a filter, columns, an order and groups under a name. `armada ps --view` reads them, too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from armada.errors import NotFound, UsageError
from armada.foundation.atomic_write import write_atomically
from armada.foundation.locks import locked
from armada.tui.remembered import open_linked

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths

LONGEST_NAME = 60
MOST = 100
_LONGEST_TEXT = 4000
_MOST_COLUMNS = 30
_LARGEST_BYTES = 2_000_000


class SavedView(NamedTuple):
    """What a list of runs shows; empty columns are the usual ones."""

    filter: str = ""
    columns: tuple[str, ...] = ()
    sort: str = "urgency"
    reverse: bool = False
    group: str = "nothing"

    @property
    def words(self) -> str:
        """Describe it in one line; the text is the user's."""
        parts = [self.filter or "all runs", f"by {self.sort}{' reversed' if self.reverse else ''}"]
        parts += [f"grouped by {self.group}"] if self.group != "nothing" else []
        parts += [f"columns {','.join(self.columns)}"] if self.columns else []
        return " · ".join(parts)


def load(home: HomePaths) -> dict[str, SavedView]:
    """Return all saved views, by name. What cannot be read is left out."""
    try:
        found = _read(home)
    except UsageError:
        return {}
    named = {name: _view(each) for name, each in found.items() if name_problem(name) is None}
    return {name: view for name, view in sorted(named.items()) if view is not None}


def find(home: HomePaths, name: str) -> SavedView:
    """Return the view with this name.

    Raises:
        NotFound: There is none.
    """
    views = load(home)
    if name not in views:
        from difflib import get_close_matches

        near = get_close_matches(name, views, 1)
        known = f"known: {', '.join(views)}" if views else "V on the dashboard's Runs saves one"
        raise NotFound(f"no view is called {name!r}", hint=f"did you mean {near[0]!r}? {known}" if near else known)
    return views[name]


def save(home: HomePaths, name: str, view: SavedView) -> None:
    """Keep a view; one of the same name is replaced.

    Raises:
        UsageError: The name cannot be one, there are too many views, or their file is damaged.
        OSError: Home cannot be written.
    """
    if (problem := name_problem(name)) is not None:
        raise UsageError(f"a view cannot be called so: {problem}")
    with locked(home.lock("views")):
        entries = _read(home)
        if name not in entries and len(entries) >= MOST:
            raise UsageError(f"there are {MOST} views already", hint="delete one: v, then Ctrl-D")
        _write(home, {**entries, name: view._asdict()})


def delete(home: HomePaths, name: str) -> None:
    """Delete a view, if there is one with this name.

    Raises:
        UsageError: The file of views is damaged.
        OSError: Home cannot be written.
    """
    with locked(home.lock("views")):
        _write(home, {other: view for other, view in _read(home).items() if other != name})


def name_problem(name: str) -> str | None:
    """Return why a text is not a name; None if it is one."""
    if not name.strip() or name != name.strip():
        return "it is empty, or has blanks around it"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters; the most is {LONGEST_NAME}"
    return None if name.isprintable() else "it has characters that cannot be shown"


def _file(home: HomePaths) -> Path:
    return home.state / "dashboard" / "views.json"


def _read(home: HomePaths) -> dict[str, object]:
    """Return the entries as they are stored.

    Raises:
        UsageError: The file is none of ours, or damaged.
    """
    try:
        with open_linked(_file(home)) as stream:
            found = json.loads(stream.read(_LARGEST_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{_file(home)} cannot be read: {error}", hint="mend it, or move it away") from error
    if not isinstance(found, dict):
        raise UsageError(f"{_file(home)} has no views", hint="mend it, or move it away")
    return found


def _write(home: HomePaths, entries: dict[str, object]) -> None:
    _file(home).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(_file(home), json.dumps(entries), durable=False)


def _view(found: object) -> SavedView | None:
    """Read one entry; None if it is not one. What a newer armada added is ignored."""
    if not isinstance(found, dict):
        return None
    text, columns = found.get("filter", ""), found.get("columns", [])
    sort, group = found.get("sort", "urgency"), found.get("group", "nothing")
    if not all(isinstance(each, str) and len(each) <= _LONGEST_TEXT for each in (text, sort, group)):
        return None
    if not isinstance(columns, list) or not all(isinstance(each, str) and len(each) <= 200 for each in columns):
        return None
    return SavedView(text, tuple(columns[:_MOST_COLUMNS]), sort, found.get("reverse") is True, group)
