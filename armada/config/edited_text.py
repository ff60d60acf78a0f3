"""Put `--set` overrides into the text of an experiment file: every other line and comment stays as it is."""

from __future__ import annotations

import difflib
import io
import json
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from armada.config.documents import Place, compose, parse_document
from armada.config.overrides import UNSET, apply_override
from armada.errors import ArmadaError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_INDENT = 2


def with_overrides(text: str, path: Path, overrides: Sequence[str]) -> str:
    """Return the text of an experiment file with overrides in it.

    Each result is read again: it must say exactly what the file and the override say together.

    Args:
        text: The file.
        path: Its name, for errors.
        overrides: `train.seed=7`; later ones win.

    Raises:
        ConfigError: The file or an override is wrong, or the text cannot be edited, as where an alias stands.
    """
    if text.count("\r\n") == text.count("\n") > 0:
        return with_overrides(text.replace("\r\n", "\n"), path, overrides).replace("\n", "\r\n")
    for override in overrides:
        document = parse_document(text, path)
        line = document.key_place(tuple(override.partition("=")[0].strip().split("."))).line
        apply_override(document, override)
        keys, value = override.partition("=")[0].strip().split("."), override.partition("=")[2].strip() or "null"
        texts = _without(text, path, keys) if value == UNSET else _candidates(text, path, keys, value, document.data)
        for candidate in texts:
            if _says(candidate, path, document.data):
                text = candidate
                break
        else:
            raise ConfigError(
                f"`{'.'.join(keys)}` cannot be changed without changing more of the file",
                path=path,
                line=line,
                hint="edit the file by hand; anchors and aliases are shared by several settings",
            )
    return text


def difference(before: str, after: str, old: Path, new: Path) -> list[str]:
    """Return the lines of a unified diff; empty if nothing differs."""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), str(old), str(new), n=2, lineterm=""))


def _candidates(text: str, path: Path, keys: Sequence[str], value: str, data: Any) -> Iterator[str]:
    """Yield texts to try: the value as it was written, then in JSON, then through ruamel, which moves some spaces."""
    target = data
    for key in keys:
        target = target[int(key) if isinstance(target, list) else key]
    for written in (value, json.dumps(target, ensure_ascii=False)):
        edited = _in_place(text, path, keys, written)
        if edited is not None:
            yield edited
    try:
        yield _round_trip(text, keys, lambda container, key: container.__setitem__(key, target))
    except (YAMLError, LookupError, TypeError, ValueError):
        return


def _says(text: str, path: Path, data: object) -> bool:
    try:
        # As text: NaN is not equal to itself, and 1 is equal to 1.0.
        return repr(parse_document(text, path).data) == repr(data)
    except ArmadaError:
        return False


def _in_place(text: str, path: Path, keys: Sequence[str], written: str) -> str | None:
    """Change the lines of one setting; None where they are not found."""
    node = compose(text, lambda line: Place(path, line))
    if node is None:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{_nested(keys, written, 0)}"
    for position, key in enumerate(keys):
        if isinstance(node, SequenceNode) and key.isdecimal() and int(key) < len(node.value):
            below: Node = node.value[int(key)]
        elif isinstance(node, MappingNode):
            found = next((each for name, each in node.value if name.value == key), None)
            if found is None:
                return _added(text, node, keys[position:], written)
            below = found
        else:  # `train:` with nothing behind it
            return _replaced(text, node, _flow(keys[position:], written))
        node = below
    return _replaced(text, node, written)


def _replaced(text: str, node: Node, written: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, ScalarNode) and not node.value and node.style is None:  # nothing stands there
        at = len(text[:start].rstrip(" \n"))
        colon = text.rfind(":", 0, start) + 1
        at = colon if not text[colon:at].strip() or "#" in text[colon:at] else at
        return f"{text[:at]} {written}{text[at:]}"
    is_block = isinstance(node, CollectionNode) and not node.flow_style
    if is_block or (isinstance(node, ScalarNode) and node.style in ("|", ">")):
        # The end of a block is where the next thing begins: what stands between them stays.
        lines = text[start:end].splitlines(keepends=True)
        while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            lines.pop()
        end = start + len("".join(lines).rstrip())
        begin = text.rfind(":", 0, start) + 1
        if is_block and not text[begin:start].strip():
            return f"{text[:begin]} {written}{text[end:]}"
    return f"{text[:start]}{written}{text[end:]}"


def _added(text: str, node: MappingNode, keys: Sequence[str], written: str) -> str | None:
    if node.flow_style:
        close = node.end_mark.index - 1
        inside = text[:close].rstrip()
        comma = "" if inside.endswith(("{", ",")) else ","
        gap = "" if inside.endswith("{") else " "
        return f"{inside}{comma}{gap}{keys[0]}: {_flow(keys[1:], written)}{text[len(inside) :]}"
    if not node.value:
        return None
    column, at = node.value[0][0].start_mark.column, _end_of(text, *node.value[-1])
    head = text[:at] if text[:at].endswith("\n") else f"{text[:at]}\n"
    return f"{head}{_nested(keys, written, column)}{text[at:]}"


def _end_of(text: str, name: Node, value: Node) -> int:
    """Return where the line after a setting in block style begins; comments below it belong to what follows."""
    begin = name.start_mark.index
    lines = text[begin : max(value.end_mark.index, begin)].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    line_end = text.find("\n", begin + len("".join(lines).rstrip("\n")))
    return len(text) if line_end < 0 else line_end + 1


def _without(text: str, path: Path, keys: Sequence[str]) -> Iterator[str]:
    """Yield texts to try without a setting: its lines taken out, then through ruamel, which moves some spaces."""
    node, above = compose(text, lambda line: Place(path, line)), None
    for key in keys:
        above = node
        if isinstance(node, SequenceNode):
            node = node.value[int(key)]
        elif isinstance(node, MappingNode):
            node = next((each for name, each in node.value if name.value == key), None)
    if isinstance(above, MappingNode):
        yield _taken_out(text, above, keys[-1])
    try:
        yield _round_trip(text, keys, lambda container, key: container.__delitem__(key))
    except (YAMLError, LookupError, TypeError, ValueError):
        return


def _taken_out(text: str, node: MappingNode, key: str) -> str:
    place = next(place for place, (name, _) in enumerate(node.value) if name.value == key)
    (name, value), following = node.value[place], node.value[place + 1 :]
    if len(node.value) == 1:
        return _replaced(text, node, "{}")
    start = name.start_mark.index
    if node.flow_style:
        if following:
            return text[:start] + text[following[0][0].start_mark.index :]
        return text[:start].rstrip(" \n,") + text[max(value.end_mark.index, name.end_mark.index) :]
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip() and following:  # the first one of an item of a list, behind its dash
        return text[:start] + text[following[0][0].start_mark.index :]
    return text[:line] + text[_end_of(text, name, value) :]


def _nested(keys: Sequence[str], written: str, column: int) -> str:
    """Return the lines of a setting that the file does not have."""
    lines = [f"{' ' * (column + _INDENT * depth)}{key}:" for depth, key in enumerate(keys)]
    return "\n".join(lines) + f" {written}\n"


def _flow(keys: Sequence[str], written: str) -> str:
    for key in reversed(keys):
        written = f"{{{key}: {written}}}"
    return written


def _round_trip(text: str, keys: Sequence[str], change: Callable[[Any, str | int], None]) -> str:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    document = yaml.load(text)
    container = document
    for key in keys[:-1]:
        if not isinstance(container, list) and container.get(key) is None:
            container[key] = {}
        container = container[int(key) if isinstance(container, list) else key]
    change(container, int(keys[-1]) if isinstance(container, list) else keys[-1])
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()
