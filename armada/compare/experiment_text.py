"""Write a recorded experiment as YAML."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def experiment_text(experiment: Mapping[str, Any]) -> str:
    """Return an experiment as YAML, without keys that say nothing, such as `null` and empty lists."""
    from ruamel.yaml import YAML

    stream = io.StringIO()
    writer = YAML()
    writer.default_flow_style = False
    writer.width = 120
    writer.dump(_without_nothing(experiment), stream)
    return stream.getvalue()


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_nothing(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, "", [], {})}
    return [_without_nothing(inner) for inner in value] if isinstance(value, list) else value
