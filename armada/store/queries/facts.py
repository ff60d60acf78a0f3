"""Settings and metrics of many runs at once, for filters and columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from armada.foundation.metric_goals import BestBy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from armada.store.database import Database

Scalar = str | int | float
Value = Scalar | tuple[Scalar, ...] | None
SAMPLED = 2000
"""So many of the newest runs are asked which settings there are."""
_LONGEST = 300
"""Longer texts, such as scripts in an argument, are no settings that a person filters by."""
_MOST_PARAMETERS = 90
_MOST_SETTINGS = 5000
_PATH = r"\$(?:\.(?:\w+|\"[^\"\\]*\")|\[\d+\])+"
"""Paths that SQLite reads as it wrote them: a key with a quotation mark in it is none."""
_PLACE = r"\[\d+\]"
_ROOT = len("$.experiment.")


def setting_paths(database: Database) -> dict[str, tuple[str, ...]]:
    """Return the settings of the newest runs: by dotted key (`data.train.path`), the JSON paths where its values stand."""
    query = """SELECT DISTINCT t.fullkey FROM (SELECT spec FROM runs ORDER BY created_at DESC LIMIT ?) r,
               json_tree(CASE WHEN json_valid(r.spec) THEN r.spec ELSE '{}' END, '$.experiment') t
               WHERE t.atom IS NOT NULL AND length(t.fullkey) < ? LIMIT ?"""
    found: dict[str, list[str]] = {}
    for (path,) in database.connection.execute(query, (SAMPLED, _LONGEST, _MOST_SETTINGS)):
        if not re.fullmatch(_PATH, path):
            continue
        key = re.sub(_PLACE, "", path[_ROOT:]).replace('"', "")
        if key:
            found.setdefault(key, []).append(path)
    return {key: tuple(paths[:_MOST_PARAMETERS]) for key, paths in found.items()}


def read_settings(
    database: Database, paths: Mapping[str, Sequence[str]], run_ids: Iterable[str] | None = None
) -> dict[str, dict[str, tuple[Scalar, ...]]]:
    """Return settings by run and key; a run that lacks a setting lacks the key.

    Args:
        database: The store.
        paths: The wanted keys with their paths, from `setting_paths`.
        run_ids: Only of these runs; None for all.
    """
    found: dict[str, dict[str, tuple[Scalar, ...]]] = {}
    for key, places in paths.items():
        if not places:
            continue
        values = ", ".join(["json_extract(spec, ?)"] * len(places))
        query = f"SELECT run_id, {values} FROM runs WHERE json_valid(spec)"  # noqa: S608  # question marks only
        for named, *row in _rows(database, query, places, run_ids):
            run_id = str(named)
            some = tuple(value for value in row if isinstance(value, str | int | float) and not _is_container(value))
            if some:
                found.setdefault(run_id, {})[key] = some
    return found


def _is_container(value: Scalar) -> bool:
    """Whether it is an object or a list, which SQLite gives as its text, where other runs have one value."""
    return isinstance(value, str) and value.startswith(("{", "["))


def metric_names(database: Database) -> frozenset[str]:
    """Return the names of all curves."""
    return frozenset(name for (name,) in database.connection.execute("SELECT DISTINCT name FROM series"))


def read_metric(database: Database, name: str, which: str, run_ids: Iterable[str] | None = None) -> dict[str, float]:
    """Return the newest, lowest or highest value of a metric by run; runs without a finite one are left out.

    Reads every point: after a resume, the newest value is not that of the highest step (0.4 s for a million points).

    Args:
        database: The store.
        name: The metric.
        which: `last`, `min` or `max`.
        run_ids: Only of these runs; None for all.
    """
    if which not in ("last", "min", "max"):
        raise ValueError(which)
    if which == "last":
        value = "(SELECT p.value FROM points p WHERE p.series = series.id ORDER BY p.time DESC, p.step DESC LIMIT 1)"
    else:
        finite = "abs(p.value) <= 1.7976931348623157e308"
        value = f"(SELECT {which}(p.value) FROM points p WHERE p.series = series.id AND {finite})"  # noqa: S608  # one of two words
    query = f"SELECT run_id, {value} FROM series WHERE name = ?"  # noqa: S608  # one of three constants
    rows = _rows(database, query, (name,), run_ids)
    return {str(run_id): float(found) for run_id, found in rows if isinstance(found, int | float)}


class RunBest(NamedTuple):
    """How good a run is.

    Attributes:
        stated: What its sweep, or else its experiment, says that it is the best by; None if neither says so.
        value: The best value of that metric, or of the evaluation loss; None if there is none that is a number, and for
            the loss, whose newest value is in the run's row.
    """

    stated: BestBy | None
    value: float | None


def read_bests(database: Database, run_ids: Collection[str]) -> dict[str, RunBest]:
    """Return how good runs are, each by its own metric."""
    best = "CASE WHEN json_valid(spec) THEN json_extract(spec, '$.training.train.best_metric.{}') END"
    swept = "(SELECT json_extract(settings, '$.sweep.{}') FROM sweeps WHERE name = runs.sweep AND json_valid(settings))"
    parts = (*(swept.format(key) for key in ("metric", "goal")), *(best.format(key) for key in ("name", "goal")))
    query = f"SELECT run_id, {', '.join(parts)} FROM runs WHERE 1"  # noqa: S608  # constants
    stated: dict[str, BestBy | None] = {}
    for run_id, metric, goal, name, direction in _rows(database, query, (), run_ids):
        # A former release recorded no goal that was `min`, stated or not.
        by_sweep = _best_by(metric, goal or (direction if name == metric else None) or "min")
        stated[str(run_id)] = by_sweep if by_sweep is not None else _best_by(name, direction)
    by_metric: dict[BestBy, list[str]] = {}
    for run_id, by in stated.items():
        by_metric.setdefault(by or BestBy(), []).append(run_id)
    values: dict[str, float] = {}
    for by, ids in by_metric.items():
        if by.name != "loss":
            values |= read_metric(database, by.name, by.goal, ids)
    return {run_id: RunBest(by, values.get(run_id)) for run_id, by in stated.items()}


def _best_by(name: object, goal: object) -> BestBy | None:
    return BestBy(name, "max" if goal == "max" else "min") if isinstance(name, str) and goal in ("min", "max") else None


class FactKey(Protocol):
    """A key of a filter or column (`armada.filters.keys.Key`)."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def series(self) -> str: ...
    @property
    def of_series(self) -> str: ...


def read_facts(
    database: Database,
    keys: Iterable[FactKey],
    paths: Mapping[str, Sequence[str]],
    run_ids: Collection[str] | None = None,
) -> dict[str, dict[str, Value]]:
    """Return the settings and metrics that keys name, by run.

    Args:
        database: The store.
        keys: Those of other sources are left out.
        paths: From `setting_paths`.
        run_ids: Only of these runs; None for all.
    """
    asked = list(keys)
    wanted = {key.name: paths.get(key.name, ()) for key in asked if key.source == "setting"}
    found: dict[str, dict[str, Value]] = {}
    for run_id, settings in read_settings(database, wanted, run_ids).items():
        found[run_id] = dict(settings)
    for series, which in {(key.series, key.of_series) for key in asked if key.source == "metric"}:
        for run_id, value in read_metric(database, series, which, run_ids).items():
            found.setdefault(run_id, {})[f"{which}({series})"] = value
    return found


def _rows(
    database: Database, query: str, values: Sequence[str], run_ids: Iterable[str] | None
) -> Iterable[Sequence[object]]:
    if run_ids is None:
        yield from database.connection.execute(query, tuple(values))
        return
    wanted = sorted(run_ids)
    for start in range(0, len(wanted), _MOST_PARAMETERS):
        some = wanted[start : start + _MOST_PARAMETERS]
        where = f" AND run_id IN ({', '.join('?' * len(some))})"
        yield from database.connection.execute(query + where, (*values, *some))
