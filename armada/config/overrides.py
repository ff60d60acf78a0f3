"""`--set train.seed=7`: replace one value of a document from the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ruamel.yaml.nodes import CollectionNode, Node

from armada.config.documents import Document, Location, Place, build, compose
from armada.foundation.secrets import LEFT_OUT, may_be_given_secret

UNSET = "!unset"
"""The value that takes a key out of the document. No YAML value is written so: tags are refused."""
ANY_WORDS = ("env", "arguments", "command")
"""Settings whose values may be anything."""


def apply_override(document: Document, text: str) -> None:
    """Put `a.b=value` into a document; the value is YAML on one line: `7`, `off`, `"7"`, `null`, `[a, b]`, `{path: x}`.

    Mappings on the way that are absent or null are made; a list is entered by index (`data.train.0.weight=2`). The value
    `!unset` takes the key out of the document.

    Raises:
        ConfigError: Naming the override's text; the value may be a secret.
    """
    place = Place(None, None, override=text)
    name, equals, value_text = text.partition("=")
    parts = name.strip().split(".")
    if not equals or not all(parts):
        raise place.error("an override is written `key=value` or `key.key=value`", "for example: --set train.seed=7")
    if value_text.strip() == UNSET:
        document.remove(_existing(document, parts, place))
        return
    location = _enter(document, parts, place)
    source = Document(document.path, {})
    node = compose(value_text, lambda _: place)
    if node is not None:
        _refuse_leftovers(node, value_text, place)
    value = None if node is None else build(node, source, lambda _: place, location)
    _refuse_secret(name.strip(), value, place)
    for length in range(1, len(location) + 1):
        source.keys[location[:length]] = place
    source.values[location] = place
    document.put(location, value, source)


def apply_choices(document: Document, text: str, option: str, above: Location) -> None:
    """Put `a.b=1,2` of `--grid` or `--space` into a mapping of a document, under the key `a.b` as a whole.

    Args:
        document: The experiment.
        text: The option's value. Values are YAML on one line, separated by commas; a mapping is taken as it is.
        option: Its name, for errors.
        above: The mapping, which is made if it is not there.

    Raises:
        ConfigError: Naming the option.
    """
    place = Place(None, None, override=text, option=option)
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise place.error("write KEY=VALUE,VALUE", f"for example: {option} train.learning_rate=1e-5,3e-5")
    is_whole = values.strip()[0] in "[{"
    listed = values if is_whole else f"[{values}]"
    node = compose(listed, lambda _: place)
    if node is None:
        raise place.error("there are no values", None)
    _refuse_leftovers(node, listed, place)
    source = Document(document.path, {})
    _enter(document, [*map(str, above), "-"], place)
    location = (*above, name.strip())
    value = build(node, source, lambda _: place, location)
    source.keys[location] = place
    document.put(location, value, source)


def put_value(document: Document, key: str, value: Any, place: Place) -> None:
    """Put a value into a document under a dotted key.

    Args:
        document: The experiment.
        key: `train.learning_rate`.
        value: Plain values.
        place: Where the value was written, for errors.

    Raises:
        ConfigError: The key does not lead anywhere.
    """
    location = _enter(document, key.split("."), place)
    source = Document(document.path, {})
    for length in range(1, len(location) + 1):
        source.keys[location[:length]] = place
    source.values[location] = place
    document.put(location, value, source)


def _refuse_secret(key: str, value: Any, place: Place) -> None:
    """Refuse what may be a secret, or stands for one in a recorded command: overrides are in the plan and on the host."""
    if key.partition(".")[0] in ANY_WORDS and (value == LEFT_OUT or may_be_given_secret(key, value)):
        name = key.removeprefix("env.")
        named = name if key.startswith("env.") and name.isidentifier() else "HF_TOKEN"
        raise replace(place, override=f"{key}={LEFT_OUT}").error(
            f"`{key}` may be a secret, and what is set so is in the plan, on the host and in recorded commands",
            f"export {named} in your shell, and name it under `secrets`: --set 'secrets=[{named}]'",
        )


def _refuse_leftovers(node: Node, text: str, place: Place) -> None:
    """`name=a # b` would lose its end, and `name=a: b` would become a mapping."""
    unread = text[node.end_mark.index :].strip()
    block = isinstance(node, CollectionNode) and not node.flow_style
    if unread or block:
        raise place.error(
            "the value is read as YAML, where `#` begins a comment and `: ` or `- ` a block",
            "put quotes around text and braces around a mapping: --set 'name=\"a # b\"'",
        )


def _existing(document: Document, parts: list[str], place: Place) -> Location:
    """Walk to a key that is in the document."""
    container: Any = document.data
    location: Location = ()
    for position, part in enumerate(parts):
        is_item = isinstance(container, list) and position < len(parts) - 1
        key = _index(container, part, place) if is_item else part
        if not is_item and not (isinstance(container, dict) and part in container):
            raise place.error(f"`{'.'.join(parts)}` is not in the file, so it cannot be taken out")
        container, location = container[key], (*location, key)
    return location


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
