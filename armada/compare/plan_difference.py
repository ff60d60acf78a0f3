"""Compare the plan of a reproduced run with the run's own plan."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from armada.compare.reproduction import CODE
from armada.compare.settings import unequal
from armada.foundation.validation import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.compare.reproduction import Reproduction

_OF_EACH_LAUNCH = ("run_id", "created_at", "launch_key", "home", "project", "format", "sweep")


def compare_plans(
    found: Reproduction, now: Mapping[str, Any], folder: Path, *, other_host: bool = False
) -> list[tuple[str, Any, Any]]:
    """Return the keys in which a new plan differs from the run's, with both values.

    What differs between any two launches is left out: ids, times, and the folders of both experiments.

    Args:
        found: The reproduction.
        now: The new plan.
        folder: The folder that was written.
        other_host: The plan is for another host, whose name may differ.
    """
    code = mapping(found.spec.get("experiment")).get("code")
    origin = str(Path(found.run.experiment).parent) if found.run.experiment else None
    before = _plain(found.spec, {code: "CODE", origin: "HERE"})
    after = _plain(now, {str(folder / CODE): "CODE", str(folder): "HERE"})
    if other_host:
        before.pop("host", None), after.pop("host", None)
    told = []
    for each in unequal([before, after]):
        then, present = each.masked if _is_of_user(each.key) else each.values
        # Downloads and images get their names only when they are fetched.
        if present is not None or not each.key.startswith(("container.", "job.data[")):
            told.append((each.key, then, present))
    return told


def _is_of_user(key: str) -> bool:
    """Whether a user wrote the value, which may be a secret; other parts of a plan have hashes, which look like secrets."""
    return key.startswith(("experiment.", "job.argv")) or ".env." in key


def _plain(spec: Mapping[str, Any], folders: Mapping[Any, str]) -> dict[str, Any]:
    """Return a plan without what every launch has of its own."""
    names = {key: value for key, value in folders.items() if isinstance(key, str) and key}
    names |= {
        key: value
        for key, value in ((_root(spec), "ROOT"), (spec.get("run_id"), "RUN"))
        if isinstance(key, str) and key
    }
    ordered = sorted(names.items(), key=lambda item: -len(item[0]))

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        if isinstance(value, str):
            for name, sign in ordered:
                value = value.replace(name, sign)
        return value

    kept = {key: value for key, value in spec.items() if key not in _OF_EACH_LAUNCH}
    result: dict[str, Any] = plain(json.loads(json.dumps(kept)))
    mapping(result.get("experiment")).pop("code", None)
    return result


def _root(spec: Mapping[str, Any]) -> str | None:
    """Return the host's root folder, as far as the plan tells it."""
    code = mapping(spec.get("job")).get("code")
    environment = mapping(spec.get("environment"))
    path = code or (environment.get("path") if environment.get("existing") is not True else None)
    return str(PurePosixPath(path).parents[1]) if isinstance(path, str) and path.count("/") > 2 else None
