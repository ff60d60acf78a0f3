"""Flatten nested settings into lines, and compare two of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LIMIT = 2000

_NOTHING = frozenset({"", "null", "[]"})
"""Earlier versions wrote the settings of every task into each experiment, with empty values."""


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (`train.learning_rate`, `5e-05`), sanitized, in their original order."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield (
            sanitize_line(prefix, 120),
            sanitize_line(value if isinstance(value, str) else _plain(value), LIMIT),
        )


def _plain(value: Any) -> str:
    """Format a number without digits that only its binary form causes: 0.0003, not 0.00030000000000000003."""
    return f"{value:.15g}" if isinstance(value, float) else json.dumps(value, default=str)


def settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what the user chose: the experiment as resolved, or the whole spec without one."""
    chosen = spec.get("experiment")
    return dict(flat(chosen if isinstance(chosen, dict) and chosen else dict(spec)))


def resolved(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings as resolved on the host, as far as they affect the result."""
    training, environment, container = spec.get("training"), spec.get("environment"), spec.get("container")
    made = {
        "host": spec.get("host"),
        "profile": spec.get("profile"),
        "gpus": spec.get("gpus"),
        "environment": _environment(environment) if isinstance(environment, dict) else None,
        "container": (container.get("digest") or container.get("id")) if isinstance(container, dict) else None,
        "batch": training.get("batch") if isinstance(training, dict) else None,
        "project": spec.get("project"),
    }
    return dict(flat({f"({name})": value for name, value in made.items() if value is not None}))


def _environment(environment: Mapping[str, Any]) -> Any:
    """Its key; one that the user made is known by its path."""
    return environment.get("path" if environment.get("existing") is True else "key")


def differing(specs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """List settings that are not equal in all, ordered by name, followed by the values that armada derived from them.

    An empty setting equals a missing one.
    """
    rows = []
    for tables in ([settings(spec) for spec in specs], [resolved(spec) for spec in specs]):
        names = sorted({name for table in tables for name in table})
        rows += [(name, [table.get(name, "") for table in tables]) for name in names]
    return [(name, values) for name, values in rows if len({"" if v in _NOTHING else v for v in values}) > 1]
