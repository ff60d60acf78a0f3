"""Say where each value comes from: a line of a file, an option, or the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Value:
    """One value by its dotted key; `origin` is `file:line`, `--set a=b`, another option, `$VARIABLE`, a sentence or `DEFAULT`."""

    key: str
    value: Any
    origin: str


def trace(model: BaseModel, places: Mapping[str, str]) -> list[Value]:
    """Every value of a model with its origin.

    Args:
        model: What was read.
        places: Where each key was written, as `armada.config.validation.written_places` gives it.
    """
    return [Value(key, value, _origin(key, places)) for key, value in _leaves(model, "")]


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            if not info.exclude:
                yield from _leaves(getattr(value, name), f"{key}.{name}" if key else name)
    elif isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list | tuple) and any(isinstance(item, BaseModel) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{key}[{index}]")
    else:
        yield key, value


def _origin(key: str, places: Mapping[str, str]) -> str:
    if key in places:
        return places[key]
    above = key.rpartition(".")[0]
    while above:
        # `resume: [--resume, "{checkpoint}"]` is a list where a mapping stands in the end: its line says all of it.
        if f"{above}[0]" in places:
            return places[above]
        above = above.rpartition(".")[0]
    return DEFAULT
