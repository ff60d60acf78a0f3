"""What the user wrote about runs: groups, tags, notes, stars, archive. Home alone knows them; hosts never do.

A copy of a run's labels is in a file beside its checkpoints at home, from which `armada recover` restores them.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from typing import TYPE_CHECKING, Any

from armada.config.labels import MOST_TAGS, group_problem, plain_note, tag_problem
from armada.errors import Conflict, UsageError
from armada.foundation.atomic_write import write_atomically
from armada.paths import RUN_ID
from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from armada.paths import HomePaths
    from armada.store.database import Database
    from armada.store.runs import Run

_LARGEST_FILE_BYTES = 1 << 20
_KEPT = ("group", "tags", "note", "noted_at", "starred_at", "archived_at", "follows")


def set_group(database: Database, run_id: str, group: str | None) -> Run:
    """Put a run into a group, or take it out of its group."""
    return _update(database, run_id, {"group": group})


def change_tags(
    database: Database, run_id: str, *, add: Iterable[str] = (), remove: Iterable[str] = (), clear: bool = False
) -> Run:
    """Change a run's tags; those that stay keep their order.

    Raises:
        UsageError: The run would have too many.
    """
    with database.transaction():
        unwanted = set(remove)
        before = () if clear else runs.find(database, run_id).tags
        tags = list(dict.fromkeys([*(tag for tag in before if tag not in unwanted), *add]))
        if len(tags) > MOST_TAGS:
            raise UsageError(f"{run_id} would have {len(tags)} tags; the most is {MOST_TAGS}")
        return _update(database, run_id, {"tags": json.dumps(tags, ensure_ascii=False)})


def set_note(database: Database, run_id: str, note: str | None) -> Run:
    """Replace a run's note; None or an empty text removes it."""
    return _update(database, run_id, {"note": note or None, "noted_at": time.time() if note else None})


def star(database: Database, run_id: str, *, on: bool = True) -> Run:
    """Star a run, or take its star away. A run that has a star keeps the time of it."""
    return _mark(database, run_id, "starred_at", on=on)


def archive(database: Database, run_id: str, *, on: bool = True) -> Run:
    """Hide a run from lists, or show it again. Its files, its syncs and the release of its host are not concerned.

    Raises:
        Conflict: It has not ended.
    """
    with database.transaction():
        run = runs.find(database, run_id)
        if on and not run.ended:
            raise Conflict(
                f"{run_id} is {run.state}; only runs that have ended can be archived", hint=f"armada stop {run_id}"
            )
        return _mark(database, run_id, "archived_at", on=on)


def set_follows(database: Database, run_id: str, follows: str) -> Run:
    """Record that a run follows another one, of which it was launched again."""
    return _update(database, run_id, {"follows": follows})


def keep(home: HomePaths, run: Run) -> None:
    """Copy a run's labels into its folder at home, unless the copy there is the same.

    The store has them too, so a full disk is no reason to fail.
    """
    path = home.labels(run.run_id)
    told = {name: getattr(run, name) for name in _KEPT}
    with contextlib.suppress(OSError):
        if any(told.values()):
            text = json.dumps(told, ensure_ascii=False)
            with contextlib.suppress(OSError, ValueError):
                if path.read_text(encoding="utf-8") == text:
                    return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, text, durable=False)
        else:
            path.unlink()
            path.parent.rmdir()  # fails, and stays, if it holds anything else


def restore(database: Database, home: HomePaths, run: Run) -> bool:
    """Give a run without any labels those of its file at home; return whether there were any."""
    if run.group or run.tags or run.note or run.starred_at or run.archived_at:
        return False
    try:
        with home.labels(run.run_id).open("rb") as stream:
            found = json.loads(stream.read(_LARGEST_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    columns = _readable(found) if isinstance(found, dict) else {}
    if columns:
        _update(database, run.run_id, columns)
    return bool(columns)


def _readable(found: Mapping[str, object]) -> dict[str, Any]:
    """What of a file can be labels: a person may have edited it, or a disk damaged it."""
    columns: dict[str, Any] = {}
    group, tags, note = (found.get(name) for name in ("group", "tags", "note"))
    if isinstance(group, str) and group_problem(group) is None:
        columns["group"] = group
    if isinstance(tags, list):
        good = [tag for tag in tags if isinstance(tag, str) and tag_problem(tag) is None]
        columns |= {"tags": json.dumps(good[:MOST_TAGS], ensure_ascii=False)} if good else {}
    if isinstance(note, str):
        with contextlib.suppress(ValueError):
            columns |= {"note": plain} if (plain := plain_note(note)) else {}
    follows = found.get("follows")
    if isinstance(follows, str) and RUN_ID.fullmatch(follows):
        columns["follows"] = follows
    for name in ("noted_at", "starred_at", "archived_at"):
        moment = found.get(name)
        if isinstance(moment, int | float) and not isinstance(moment, bool) and math.isfinite(moment) and moment > 0:
            columns[name] = float(moment)
    return columns


def _mark(database: Database, run_id: str, column: str, *, on: bool) -> Run:
    with database.transaction():
        before = getattr(runs.find(database, run_id), column)
        return _update(database, run_id, {column: (before or time.time()) if on else None})


def _update(database: Database, run_id: str, columns: Mapping[str, Any]) -> Run:
    """Set columns of a run.

    Raises:
        NotFound: It was just removed.
    """
    with database.transaction() as connection:
        runs.require(database, run_id)
        names = ", ".join(f'"{name}" = ?' for name in columns)
        connection.execute(f"UPDATE runs SET {names} WHERE run_id = ?", (*columns.values(), run_id))  # noqa: S608  # our own names
        return runs.find(database, run_id)
