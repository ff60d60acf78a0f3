"""Flatten nested settings into lines, and compare two of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.foundation.secrets import without_secret_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LIMIT = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not equal in all plans.

    Attributes:
        key: `train.learning_rate`; in brackets what armada derived from the settings.
        values: One for each plan, as written there; None where it is missing.
    """

    key: str
    values: tuple[Any, ...]

    @property
    def masked(self) -> tuple[Any, ...]:
        """The values without secrets. What armada derived has none, but hashes that look like them."""
        if self.key.startswith("("):
            return self.values
        return tuple(without_secret_settings(value, self.key) for value in self.values)

    @property
    def texts(self) -> list[str]:
        """The values as a person reads them, sanitized, without secrets; empty where one is missing."""
        return ["" if value is None else text_of(value) for value in self.masked]


def differences(specs: Sequence[Mapping[str, Any]], *, everything: bool = False) -> list[Difference]:
    """List settings with their types, ordered by name, followed by the values that armada derived from them.

    A list of mappings is compared item by item (`data.train[0].path`). `1` equals `1.0`, but neither `true` nor `"1"`.
    An empty setting equals a missing one.

    Args:
        specs: The plans.
        everything: Also list settings that are equal in all.
    """
    parts = [_chosen(spec) for spec in specs], [_derived(spec) for spec in specs]
    return [each for tables in parts for each in unequal(tables, everything=everything)]


def unequal(tables: Sequence[Mapping[str, Any]], *, everything: bool = False) -> list[Difference]:
    """List the values of nested tables that are not equal in all of them, ordered by name; see `differences`."""
    leaves = [dict(_leaves(table)) for table in tables]
    found = []
    for name in sorted({name for table in leaves for name in table}):
        values = tuple(None if _is_nothing(table.get(name)) else table.get(name) for table in leaves)
        if everything or len({_comparable(value) for value in values}) > 1:
            found.append(Difference(sanitize_line(name, 120), values))
    return found


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{prefix}[{place}]")
    elif prefix:
        yield prefix, value


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _comparable(value: Any) -> str:
    """Return a text that two values share if they are equal and of the same type."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        value = int(value)
    return json.dumps(value, sort_keys=True, default=str)


def text_of(value: Any) -> str:
    """Format one value of a setting on one line, sanitized."""
    return sanitize_line(value if isinstance(value, str) else _plain(value), LIMIT)


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (`train.learning_rate`, `5e-05`), sanitized, without secrets, in their original order."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield sanitize_line(prefix, 120), text_of(without_secret_settings(value, prefix))


def _plain(value: Any) -> str:
    """Format a number without digits that only its binary form causes: 0.0003, not 0.00030000000000000003."""
    return f"{value:.15g}" if isinstance(value, float) else json.dumps(value, default=str)


def settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what the user chose: the experiment as resolved, or the whole spec without one."""
    return dict(flat(_chosen(spec)))


def _chosen(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment under the name of the run, which `--name` gives."""
    chosen = spec.get("experiment")
    if not isinstance(chosen, dict) or not chosen:
        return dict(spec)
    name = spec.get("name")
    return chosen | {"name": name} if isinstance(name, str) and name else chosen


def _derived(spec: Mapping[str, Any]) -> dict[str, Any]:
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
    return {f"({name})": value for name, value in made.items() if value is not None}


def _environment(environment: Mapping[str, Any]) -> Any:
    """Its key; one that the user made is known by its path."""
    return environment.get("path" if environment.get("existing") is True else "key")


def differing(specs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """List settings that are not equal in all as a person reads them, without secrets; see `differences`."""
    return [(each.key, each.texts) for each in differences(specs)]
