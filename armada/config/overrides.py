"""`--set train.seed=7`: replace one value of a document from the command line."""

from __future__ import annotations

from typing import Any

from ruamel.yaml.nodes import CollectionNode, Node

from armada.config.documents import Document, Location, Place, build, compose


def apply_override(document: Document, text: str) -> None:
    """Put `a.b=value` into a document; the value is YAML on one line: `7`, `off`, `"7"`, `null`, `[a, b]`, `{path: x}`.

    Mappings on the way that are absent or null are made; a list is entered by index (`data.train.0.weight=2`).

    Raises:
        ConfigError: Naming the override's text.
    """
    place = Place(None, None, override=text)
    name, equals, value_text = text.partition("=")
    parts = name.strip().split(".")
    if not equals or not all(parts):
        raise place.error("an override is written `key=value` or `key.key=value`", "for example: --set train.seed=7")
    location = _enter(document, parts, place)
    source = Document(document.path, {})
    node = compose(value_text, lambda _: place)
    if node is not None:
        _refuse_leftovers(node, value_text, place)
    value = None if node is None else build(node, source, lambda _: place, location)
    for length in range(1, len(location) + 1):
        source.keys[location[:length]] = place
    source.values[location] = place
    document.put(location, value, source)


def _refuse_leftovers(node: Node, text: str, place: Place) -> None:
    """`name=a # b` would lose its end, and `name=a: b` would become a mapping."""
    unread = text[node.end_mark.index :].strip()
    block = isinstance(node, CollectionNode) and not node.flow_style
    if unread or block:
        raise place.error(
            "the value is read as YAML, where `#` begins a comment and `: ` or `- ` a block",
            "put quotes around text and braces around a mapping: --set 'name=\"a # b\"'",
        )


def _enter(document: Document, parts: list[str], place: Place) -> Location:
    """Walk to the container of the last part, making mappings on the way."""
    container: Any = document.data
    location: Location = ()
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        key = _index(container, part, place) if isinstance(container, list) else part
        if not isinstance(container, dict | list):
            above = ".".join(parts[:position])
            raise place.error(
                f"`{above}` is a single value there, not a mapping", f"--set '{above}={{{part}: …}}' replaces it"
            )
        location = (*location, key)
        if last:
            break
        if isinstance(container, dict) and container.get(part) is None:
            container[part] = {}
            document.keys.setdefault(location, place)
            document.values[location] = place
        container = container[key]
    return location


def _index(items: list[Any], part: str, place: Place) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise place.error(
            f"{part!r} is not an index of a list of {len(items)}", f"0 to {len(items) - 1}" if items else None
        )
    return int(part)
