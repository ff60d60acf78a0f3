"""What a run belongs to: the cell of a sweep, and the run that it follows, from whose weights it starts or which it merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.paths import RUN_ID

if TYPE_CHECKING:
    from armada.store.database import Database

_LONGEST = 200


def relations(database: Database, spec: dict[str, Any]) -> tuple[str | None, int | None, str | None]:
    """Return the sweep that a plan names, the number of its cell, and the run that it follows; a plan may come from a host."""
    return (*_cell(spec), followed(database, spec))


def _cell(spec: dict[str, Any]) -> tuple[str | None, int | None]:
    told = spec.get("sweep")
    if not isinstance(told, dict):
        return None, None
    sweep, cell = told.get("id"), told.get("cell")
    is_right = isinstance(sweep, str) and RUN_ID.fullmatch(sweep) is not None
    if not is_right or not isinstance(cell, int) or isinstance(cell, bool) or not 0 < cell < 2**31:
        return None, None
    return sweep, cell


def followed(database: Database, spec: dict[str, Any]) -> str | None:
    """Return the run that a plan names as its start, by its whole id where the store has one such run.

    Args:
        database: The store.
        spec: The plan of a run; it may come from a host. `start_from.run` may be the first characters of an id.

    Returns:
        None if the plan names no run.
    """
    experiment = spec.get("experiment")
    for section in ("start_from", "merge"):
        told = experiment.get(section) if isinstance(experiment, dict) else None
        word = told.get("run") if isinstance(told, dict) else None
        if isinstance(word, str) and 0 < len(word) <= _LONGEST:
            # Compared by its beginning and not by LIKE: the word may hold `%`.
            query = "SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ? ORDER BY run_id <> ?, run_id LIMIT 2"
            found = [row[0] for row in database.connection.execute(query, (len(word), word, word))]
            return found[0] if len(found) == 1 or word in found else word
    return None
