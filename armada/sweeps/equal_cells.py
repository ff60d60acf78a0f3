"""Find cells that are the same although they are written differently, such as 1 and 1.0."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from armada.config.tasks.experiment import Experiment


def identity(values: Mapping[str, Any]) -> str:
    """A text that two cells share if they are written alike."""
    return json.dumps(values, sort_keys=True, default=str)


def loose(value: Any) -> str:
    """A text that values share which may mean the same: 1, 1.0 and "1"."""
    if isinstance(value, dict):
        return json.dumps({str(key): loose(inner) for key, inner in value.items()}, sort_keys=True)
    if isinstance(value, list | tuple):
        return json.dumps([loose(inner) for inner in value])
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return repr(float(value))
    return str(value).strip().lower()


class DistinctCells:
    """Takes each cell once.

    Whether two cells that may mean the same do so is what their experiments decide. They are made only then: of 10,000
    cells that differ, none.

    Args:
        make: Makes the experiment of a cell's values; None if one does not fit, which is said where cells are made.
    """

    def __init__(self, make: Callable[[Mapping[str, Any]], Experiment | None]) -> None:
        self._make = make
        self._seen: dict[str, dict[str, Mapping[str, Any]]] = {}

    def take(self, values: Mapping[str, Any]) -> bool:
        """Return whether a cell is a new one, and remember it."""
        alike = self._seen.setdefault(loose(dict(values)), {})
        own = identity(values)
        if own in alike or (alike and self._is_equal_to_one(values, alike)):
            return False
        alike[own] = values
        return True

    def _is_equal_to_one(self, values: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> bool:
        made = self._text(values)
        return made is not None and any(self._text(other) == made for other in others.values())

    def _text(self, values: Mapping[str, Any]) -> str | None:
        experiment = self._make(values)
        return identity(experiment.model_dump(mode="json")) if experiment is not None else None
