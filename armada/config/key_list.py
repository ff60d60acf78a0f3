"""List the keys of the files that people write, from their JSON Schemas: for `armada help` and docs/reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from armada.config.schema import schema_of, schema_of_task

Definition = dict[str, Any]
"""A JSON Schema of one value."""

_REFERENCE = "#/$defs/"
_PARTS = "list of parts"
"""A list whose items have keys of their own."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How kinds of values are written.

    Attributes:
        quote: Writes a word as it stands in the file.
        refer: Names a part that has keys of its own; an empty text leaves it out.
    """

    quote: Callable[[str], str]
    refer: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Key:
    """One key, as a terminal shows it.

    Attributes:
        name: With the keys above it: `train.max_steps`, `data.train[].path`.
        kind: What its value may be; empty if it only has keys below it.
        default: As the file would say it; None if there is none, or it is required.
        is_required: Whether the part that it belongs to needs it.
        meaning: What it does.
        choices: The only values that it may have; empty if there are others.
    """

    name: str
    kind: str
    default: str | None
    is_required: bool
    meaning: str
    choices: tuple[str, ...] = ()


PLAIN = Notation(quote=str, refer=lambda _name: "")


def keys_of_task(task: str) -> list[Key]:
    """Every key that an experiment of this task may have, each before those below it."""
    schema = schema_of_task(task)
    return list(_keys(schema, schema.get("$defs", {}), ""))


def keys_of_host() -> list[Key]:
    """Every key of a host in hosts.yaml."""
    definitions = schema_of("hosts")["$defs"]
    return list(_keys(definitions["Host"], definitions, ""))


def _keys(definition: Definition, definitions: dict[str, Definition], above: str) -> Iterator[Key]:
    required = definition.get("required", [])
    for name, value in definition["properties"].items():
        below = [each for each in _referred(value) if definitions[each].get("properties")]
        kind = type_of(value, PLAIN)
        if not (kind or below):
            continue  # another task's: it may only be empty
        default = None if name in required else default_of(value)
        yield Key(above + name, kind, default, name in required, meaning_of(value), choices_of(value))
        inner = f"{above}{name}{'[]' if kind == _PARTS else ''}."
        for each in below:
            yield from _keys(definitions[each], definitions, inner)


def _referred(value: Definition) -> list[str]:
    return list(dict.fromkeys(re.findall(rf"{re.escape(_REFERENCE)}(\w+)", repr(value))))


def meaning_of(value: Definition) -> str:
    """What the model says of a key, or the first of several models that say it apart."""
    said = (value.get("description"), *(meaning_of(each) for each in value.get("anyOf", []) if "$ref" not in each))
    return next(filter(None, said), "")


def default_of(value: Definition) -> str | None:
    """A key's default as a file would say it; None where it is nothing, or stands with the keys of a part."""
    default = value.get("default")
    if default is None or default in ([], "") or isinstance(default, dict):
        return None
    return _word(default)


def choices_of(value: Definition) -> tuple[str, ...]:
    """The values that a key may have, as a file would say them; empty if they are not all listed."""
    found: list[str] = []
    for each in value.get("anyOf") or value.get("oneOf") or [value]:
        if "enum" in each or "const" in each:
            found += map(_word, each.get("enum", [each.get("const")]))
        elif each.get("type") in ("boolean", "null"):
            found += ["true", "false"] if each["type"] == "boolean" else ["null"]
        else:
            return ()
    return tuple("null" if word == "None" else word for word in dict.fromkeys(found)) if found != ["null"] else ()


def type_of(value: Definition, notation: Notation) -> str:
    """What a value may be, in a few words; empty for nothing but null."""
    return " or ".join(dict.fromkeys(kind for kind in _kinds(value, notation) if kind not in ("null", "")))


def _kinds(value: Definition, notation: Notation) -> Iterator[str]:
    if several := value.get("anyOf") or value.get("allOf") or value.get("oneOf"):
        for each in several:
            yield from _kinds(each, notation)
    elif "$ref" in value:
        yield notation.refer(value["$ref"].removeprefix(_REFERENCE))
    elif "const" in value:
        yield notation.quote(_word(value["const"]))
    elif "enum" in value:
        yield ", ".join(notation.quote(_word(each)) for each in value["enum"])
    elif isinstance(value.get("type"), list):
        for kind in value["type"]:
            yield from _kinds({**value, "type": kind}, notation)
    else:
        yield _plain_kind(value, notation)


def _plain_kind(value: Definition, notation: Notation) -> str:
    kind = str(value.get("type", "any value"))
    if kind == "array":
        items = type_of(value.get("items", {}), notation)
        return f"list of {items}" if items else _PARTS
    if kind == "object":
        inner = value.get("additionalProperties") or next(iter(value.get("patternProperties", {}).values()), None)
        return f"mapping of names to {type_of(inner, notation)}" if isinstance(inner, dict) else "mapping"
    if kind == "boolean":
        return f"{notation.quote('true')} or {notation.quote('false')}"
    return "text" if kind == "string" else f"{kind}{_bounds(value)}"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bounds(value: Definition) -> str:
    """What a number may be; limits that only keep it inside 32 bits are left out."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    said = [f"{sign} {value[key]:g}" for key, sign in signs.items() if key in value and value[key] < 1 << 31]
    return f" {', '.join(said)}" if said else ""
