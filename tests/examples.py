"""Values that fit a model: made from its JSON Schema, so that no test has to write an answer of every method."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_TEXTS = (
    (r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$", "run-1"),
    (r"^[0-9a-f]{64}$", "1" * 64),
    (r"^[0-9a-f]{40}$", "1" * 40),
    (r"^[0-9a-f]{32}$", "1" * 32),
    (r"^[0-9a-f]{16}$", "1" * 16),
    (r"^[^/].*$", "a/b"),
    (r"^\d+\.\d+\.\d+$", "3.11.2"),
    (r"^0[0-7]{3}$", "0022"),
)
"""What fits each pattern of a text; `a` fits the others."""


def example(model: type[BaseModel]) -> dict[str, Any]:
    """Return an object with every field of a model; lists have one entry."""
    schema = model.model_json_schema(mode="validation")
    made: dict[str, Any] = _value(schema, schema.get("$defs", {}), 0)
    return made


def _value(schema: dict[str, Any], defs: dict[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rpartition("/")[2]], defs, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return _value(schema[name][0], defs, depth)
    if "prefixItems" in schema:
        return [_value(each, defs, depth) for each in schema["prefixItems"]]
    kind = schema.get("type")
    if kind == "object":
        made = {name: _value(each, defs, depth) for name, each in schema.get("properties", {}).items() if depth < 12}
        if isinstance(schema.get("additionalProperties"), dict) and not made:
            key = _text(schema.get("propertyNames", {}).get("pattern"))
            made[key] = _value(schema["additionalProperties"], defs, depth)
        for pattern, each in schema.get("patternProperties", {}).items():
            made[_text(pattern)] = _value(each, defs, depth)
        return made
    if kind == "array":
        return [_value(schema.get("items", {"type": "string"}), defs, depth)]
    if kind == "string":
        return _text(schema.get("pattern"))
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), 1)
    return {"boolean": True, "null": None}.get(str(kind), {"text": "text"})


def _text(pattern: str | None) -> str:
    if pattern is None:
        return "text"
    return dict(_TEXTS).get(pattern, "a")
