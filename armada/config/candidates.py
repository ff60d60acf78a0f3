"""List what `--set` can change: an experiment's keys, and the values of keys that have few."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from armada.config.settings import Settings
from armada.config.tasks.registry import models

if TYPE_CHECKING:
    from collections.abc import Iterator


def settings(word: str) -> Iterator[str]:
    """List completions of `--set`, for any task: `train.seed=`, or, where `word` has its `=` already, `train.compile=true`."""
    wanted, equals, _ = word.partition("=")
    of_all = [pair for model in models().values() for pair in _keys(model, "")]
    if not equals:
        yield from dict.fromkeys(f"{key}=" for key, _ in of_all)
    else:
        yield from dict.fromkeys(f"{key}={value}" for key, kind in of_all if key == wanted for value in _values(kind))


def _keys(model: type[Settings], above: str) -> Iterator[tuple[str, Any]]:
    for name, info in model.model_fields.items():
        if info.exclude or name in model.from_elsewhere:
            continue
        parts = list(_parts(info.annotation))
        below = [part for part in parts if isinstance(part, type) and issubclass(part, Settings)]
        if len(below) < sum(part is not type(None) for part in parts):
            yield above + name, info.annotation
        for part in below:
            yield from _keys(part, f"{above}{name}.")


def _values(kind: Any) -> Iterator[str]:
    for part in _parts(kind):
        if part is bool:
            yield from ("true", "false")
        elif get_origin(part) is Literal:
            for value in get_args(part):
                yield str(value).lower() if isinstance(value, bool) else str(value)
        elif part is type(None):
            yield "null"


def _parts(kind: Any) -> Iterator[Any]:
    """Take a union apart, and the types out of their annotations."""
    if get_origin(kind) is Annotated:
        yield from _parts(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _parts(each)
    else:
        yield kind
