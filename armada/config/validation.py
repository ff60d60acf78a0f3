"""Turn pydantic's errors into sentences with file, line, key and the closest valid key."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from armada.config.documents import Document, Location, Place, shown
from armada.config.settings import PROBLEM, Settings
from armada.errors import ConfigError

_SHOWN_AT_ONCE = 10

Model = TypeVar("Model", bound=BaseModel)

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def validate(
    document: Document,
    model: type[Model],
    *,
    at: Location = (),
    given: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> Model:
    """Make a model of a part of a document.

    Args:
        document: What was read.
        model: What it has to be.
        at: The part; the whole document by default.
        given: Fields that do not stand in the file, such as the name by which it is known; writing them is an unknown key.
        context: For the model's validators.

    Raises:
        ConfigError: With the line of the first thing wrong; the message goes on with the others.
    """
    found = _made(document, model, at, dict(given or {}), dict(context or {}))
    if isinstance(found, list):
        raise _error(found)
    return found


def problems_of(
    document: Document, model: type[BaseModel], *, given: Mapping[str, Any], context: Mapping[str, Any]
) -> list[Problem]:
    """List everything for which `validate` would refuse a document; empty if it would not."""
    found = _made(document, model, (), dict(given), dict(context))
    return _in_order(found) if isinstance(found, list) else []


def _made(
    document: Document, model: type[Model], at: Location, given: dict[str, Any], context: dict[str, Any]
) -> Model | list[Problem]:
    value: Any = document.data
    for part in at:
        value = value[part]
    problems: list[Problem] = []
    if isinstance(value, dict):
        problems = [_unknown(document, model, (*at, key), len(at), given) for key in value if key in given]
        value = {**value, **given}
    try:
        made = model.model_validate(value, context=context)
    except ValidationError as failure:
        return [*problems, *_problems(failure, document, model, at, given)]
    return problems or made


def nearest(name: str, known: typing.Iterable[str]) -> str | None:
    """Return the closest known name."""
    # `packing_strategy` is meant to be about `packing`, although `learning_rate` has more letters in common with it.
    listed = list(known)
    if misspelt := difflib.get_close_matches(name, listed, n=1, cutoff=0.9):
        return misspelt[0]  # `price_per_hours` is about `price_per_hour`, and not about `price`
    if begun := [each for each in listed if name.startswith(f"{each}_")]:
        return max(begun, key=len)
    found = difflib.get_close_matches(name, listed, n=1, cutoff=0.6)
    return found[0] if found else None


def written_places(document: Document) -> dict[str, str]:
    """Say where each value stands: `file:line`, or the override, by its dotted key."""
    return {dotted(location): str(place) for location, place in document.values.items() if location}


def dotted(location: Location) -> str:
    """`data.train[0].path`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `kind` is `unknown` for an unknown key, `missing` for one that has to be there, else `value`."""

    location: Location
    place: Place
    message: str
    hint: str | None
    kind: str


def _in_order(problems: list[Problem]) -> list[Problem]:
    meant = {problem.hint for problem in problems if problem.kind == "unknown"}
    # `trian:` is one mistake, not an unknown key and a missing one.
    kept = [p for p in problems if p.kind != "missing" or f"did you mean `{dotted(p.location)}`?" not in meant]
    return sorted(kept, key=lambda p: (p.kind == "missing", p.place.override is None, p.place.line or 0))


def _error(problems: list[Problem]) -> ConfigError:
    kept = _in_order(problems)
    first, *others = kept
    if not others:
        return first.place.error(first.message, first.hint)
    # Each with its own hint: a hint after the last one would be read as the remedy of that.
    message = first.message + (f" ({first.hint})" if first.hint else "")
    for other in others[: _SHOWN_AT_ONCE - 1]:
        message += f"\n{other.place}: {other.message}" + (f" ({other.hint})" if other.hint else "")
    if len(kept) > _SHOWN_AT_ONCE:
        message += f"\nand {len(kept) - _SHOWN_AT_ONCE} more"
    return first.place.error(message)


def _problems(
    failure: ValidationError, document: Document, model: type[BaseModel], at: Location, given: Mapping[str, Any]
) -> list[Problem]:
    by_location: dict[Location, list[ErrorDetails]] = {}
    for error in failure.errors(include_url=False):
        location = (
            at
            if error["loc"] and error["loc"][0] in given
            else _locate(document.data, (*at, *error["loc"]), error["type"])
        )
        by_location.setdefault(location, []).append(error)
    for location in list(by_location):
        # What is wrong inside a list or mapping explains why it is no right list, or no right member of a union.
        if any(len(other) > len(location) and other[: len(location)] == location for other in by_location):
            by_location[location] = [e for e in by_location[location] if e["type"] in {PROBLEM, "value_error"}]
    return [
        _one_problem(document, model, location, len(at), errors, given)
        for location, errors in by_location.items()
        if errors
    ]


def _locate(data: Any, parts: Location, kind: str) -> Location:
    """The location in the document: pydantic mixes the names of a union's members and of validators into it."""
    found: list[str | int] = []
    for position, part in enumerate(parts):
        if (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        ):
            data = data[part]  # type: ignore[index]  # a mapping's key or a list's index, as just seen
            found.append(part)
        elif kind == "missing" and position == len(parts) - 1:
            found.append(part)
    return tuple(found)


def _one_problem(
    document: Document,
    model: type[BaseModel],
    location: Location,
    depth: int,
    errors: list[ErrorDetails],
    given: Mapping[str, Any],
) -> Problem:
    # Of a union's members, the one that says in its own words what is wrong took the value for its own.
    first = next((error for error in errors if error["type"] == PROBLEM), errors[0])
    name = f"`{dotted(location)}`" if location else "it"
    match first["type"]:
        case "extra_forbidden":
            return _unknown(document, model, location, depth, given)
        case "missing":
            return _missing(document, model, location, depth)
        case kind if kind in {PROBLEM, "value_error"}:
            return _ours(document, location, first)
    if any(error["type"] in _BOUNDS for error in errors):  # it has a type that fits: it is not meant to be text
        errors = [error for error in errors if error["type"] != "string_type"]
    wanted = " or ".join(dict.fromkeys(_wanted(error) for error in errors))
    return Problem(
        location,
        document.value_place(location),
        f"{name} must be {wanted}, not {_private_kind(first['input']) if document.is_private else shown(first['input'])}",
        _quoting_hint(location, errors, document.value_place(location), is_private=document.is_private),
        "value",
    )


def _private_kind(value: object) -> str:
    """Name a value that must not be shown."""
    if isinstance(value, str):
        return "this text"
    kinds = {dict: "this mapping", list: "this list", type(None): "nothing", bool: "true or false"}
    return kinds.get(type(value), "this number")


def _missing(document: Document, model: type[BaseModel], location: Location, depth: int) -> Problem:
    owners = [m for m in _models_at(model, location[depth:-1]) if issubclass(m, Settings)]
    why = next((m.if_missing[key] for m in owners if (key := str(location[-1])) in m.if_missing), None)
    message = f"`{dotted(location)}` is missing" + (f"; {why}" if why else "")
    return Problem(location, document.key_place(location[:-1]), message, None, "missing")


def _ours(document: Document, location: Location, error: ErrorDetails) -> Problem:
    context = error.get("ctx", {})
    message = str(context.get("message") or context.get("error") or error["msg"])
    key = context.get("key")
    below = (*location, *key.split(".")) if key else location
    place = document.key_place(below) if key else document.value_place(location)
    text = f"`{dotted(below)}` {message}" if below else message
    return Problem(below, place, text, context.get("hint"), "value")


def _wanted(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        words, limit = _BOUNDS[kind]
        return f"{words} {context[limit]}"
    if kind == "literal_error":
        return str(context["expected"]).replace("True", "true").replace("False", "false")
    if kind in {"too_short", "string_too_short"}:
        return "filled"
    return _KINDS.get(kind) or f"something else ({error['msg']})"


def _quoting_hint(location: Location, errors: list[ErrorDetails], place: Place, *, is_private: bool) -> str | None:
    """Most wrong types in YAML are a matter of quotes."""
    value = errors[0]["input"]
    wants = {error["type"] for error in errors}
    key = next((part for part in reversed(location) if isinstance(part, str)), "")
    if "string_type" in wants and isinstance(value, bool | int | float):
        if place.override is not None:  # a shell takes away a single pair, and so does the dashboard
            return f"""put quotes around it, and around all: {place.option} '{_key_of(place)}="{shown(value)}"'"""
        return "put quotes around it" if is_private else f'put quotes around it: "{shown(value)}"'
    if isinstance(value, str) and wants & {"int_type", "float_type", "bool_type"} and _reads_as_number(value):
        if is_private:
            return "leave the quotes out"
        return (
            f"leave the quotes out: {f'{_key_of(place)}={value}' if place.override is not None else f'{key}: {value}'}"
        )
    expected = str(errors[0].get("ctx", {}).get("expected", ""))
    if value is False and "'off'" in expected:
        return f"{key}: off"
    if wants == {"literal_error"} and isinstance(value, str):
        near = nearest(value, [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")])
        return f"did you mean {near}?" if near else None
    return None


def _key_of(place: Place) -> str:
    """The key of an option on the command line."""
    return (place.override or "").partition("=")[0]


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in {"true", "false"}
    return True


def _unknown(
    document: Document, model: type[BaseModel], location: Location, depth: int, given: Mapping[str, Any]
) -> Problem:
    inside, key = location[:-1], str(location[-1])
    here = [m for m in _models_at(model, location[depth:-1]) if m.model_fields]
    for owner in here:
        if issubclass(owner, Settings) and (said := owner.refusal(key)) is not None:
            message, hint = said
            return Problem(location, document.key_place(location), f"`{dotted(location)}` {message}", hint, "value")
    allowed = [name for m in here for name in m.model_fields if name not in given or inside[depth:]]
    meant = next((_other_names(m)[key] for m in here if key in _other_names(m)), None) or nearest(key, allowed)
    if meant is not None:
        hint = f"did you mean `{dotted((*inside, meant))}`?"
    elif elsewhere := _elsewhere(key, model, given):
        hint = f"did you mean `{dotted((*location[:depth], *elsewhere))}`?"
    else:
        hint = f"known here: {', '.join(allowed)}"
    is_shown = meant is not None or not document.is_private
    message = f"unknown key `{dotted(location)}`" if is_shown else "unknown key (not shown: it may be a password)"
    return Problem(location, document.key_place(location), message, hint, "unknown")


def _elsewhere(key: str, model: type[BaseModel], given: Mapping[str, Any]) -> Location | None:
    """Where else in the model a key of that name belongs."""
    for location, owner in _keys_below(model):
        if location[0] in given:
            continue
        if location[-1] == key or _other_names(owner).get(key) == location[-1]:
            return location
    return None


def _keys_below(model: type[BaseModel], above: Location = ()) -> Iterator[tuple[Location, type[BaseModel]]]:
    for name, info in model.model_fields.items():
        yield (*above, name), model
        for inner in _models_in(info.annotation):
            yield from _keys_below(inner, (*above, name))


def _models_at(model: type[BaseModel], location: Location) -> list[type[BaseModel]]:
    models, in_mapping = [model], False
    for part in location:
        if not isinstance(part, str):
            continue
        fields = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        if in_mapping and not fields:  # a name of the user's own, such as that of an evaluation set
            in_mapping = False
            continue
        models = [inner for annotation in fields for inner in _models_in(annotation)]
        in_mapping = any(_has_mapping(annotation) for annotation in fields)
    return models


def _has_mapping(annotation: object) -> bool:
    return typing.get_origin(annotation) is dict or any(_has_mapping(inner) for inner in typing.get_args(annotation))


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]


def _other_names(model: type[BaseModel]) -> dict[str, str]:
    return model.other_names if issubclass(model, Settings) else {}
