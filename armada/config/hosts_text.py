"""Change the text of hosts.yaml line by line, so that the rest of the file stays as it is."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from armada.config.documents import Place, compose, yaml_text
from armada.config.hosts import Host

_FLOW_MARKS = frozenset(",[]{}#:&*!|>%@`\"'")


def with_entry(text: str, host: Host) -> str:
    """Add a host after the last one."""
    hosts = _hosts_node(text)
    if hosts is None and "hosts" not in _top_keys(text):
        head = text if not text or text.endswith("\n") else text + "\n"
        return head + "hosts:\n" + _entry(host, indent=2)
    if not isinstance(hosts, MappingNode) or hosts.flow_style or not hosts.value:
        return _round_trip(text, lambda document: _put(document, host))
    indent = hosts.value[0][0].start_mark.column
    lines = _lines(text)
    end = _last_line(lines, _start(hosts.value[-1][0]), _end_of_hosts(text, len(lines)))
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    return "".join([*lines[:end], _entry(host, indent=indent), *lines[end:]])


def without_entry(text: str, name: str) -> str:
    """Remove a host; comments after it belong to what follows."""
    hosts = _hosts_node(text)
    if not isinstance(hosts, MappingNode) or hosts.flow_style:
        return _round_trip(text, lambda document: document["hosts"].pop(name))
    lines = _lines(text)
    starts = [(key.value, _start(key)) for key, _ in hosts.value]
    position = next(index for index, (key, _) in enumerate(starts) if key == name)
    begin = starts[position][1]
    limit = starts[position + 1][1] if position + 1 < len(starts) else _end_of_hosts(text, len(lines))
    return "".join([*lines[:begin], *lines[_last_line(lines, begin, limit) :]])


def with_settings(text: str, name: str, settings: Mapping[str, object]) -> str:
    """Change settings of a host, each where it stands; new ones follow the others of the host.

    Args:
        text: The file.
        name: A host in it.
        settings: Plain values by key. None removes the key.
    """
    for key, value in settings.items():
        entry = _entry_node(text, name)
        there = isinstance(entry, MappingNode) and any(each.value == key for each, _ in entry.value)
        if value is None and not there:
            continue
        edited = _in_place(text, entry, name, key, value) if isinstance(entry, MappingNode) else None
        text = edited if edited is not None else _round_trip(text, lambda document: _set(document, name, key, value))  # noqa: B023  # called at once
    return text


def _in_place(text: str, entry: MappingNode, name: str, key: str, value: object) -> str | None:
    """Change one setting and no other character; None where that takes more than a look at the marks of the nodes."""
    position = next((index for index, (each, _) in enumerate(entry.value) if each.value == key), None)
    if position is None:
        return _appended(text, entry, name, key, value)
    node = entry.value[position][1]
    if value is None:
        return None if entry.flow_style else _without_lines(text, entry, name, position)
    start, end = node.start_mark, node.end_mark
    if (
        not isinstance(node, ScalarNode)
        or node.style not in (None, "'", '"')
        or start.line != end.line
        or not node.value
    ):
        return None
    return text[: start.index] + _scalar(value, flow=bool(entry.flow_style)) + text[end.index :]


def _appended(text: str, entry: MappingNode, name: str, key: str, value: object) -> str | None:
    if not entry.value:
        return None
    if entry.flow_style:
        close = entry.end_mark.index - 1
        last = entry.value[-1][1].end_mark.index
        between = text[last:close]
        if between.strip() not in ("", ","):
            return None
        written = f"{key}: {_scalar(value, flow=True)}"
        return f"{text[:last]}, {written}{between.replace(',', '')}{text[close:]}"
    lines = _lines(text)
    end = _last_line(lines, _start(entry.value[-1][0]), _end_of_entry(text, name, len(lines)))
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    written = f"{' ' * entry.value[0][0].start_mark.column}{key}: {_scalar(value, flow=False)}\n"
    return "".join([*lines[:end], written, *lines[end:]])


def _without_lines(text: str, entry: MappingNode, name: str, position: int) -> str:
    lines = _lines(text)
    begin = _start(entry.value[position][0])
    is_last = position + 1 == len(entry.value)
    limit = _end_of_entry(text, name, len(lines)) if is_last else _start(entry.value[position + 1][0])
    return "".join([*lines[:begin], *lines[_last_line(lines, begin, limit) :]])


def _set(document: Any, name: str, key: str, value: object) -> None:
    if document["hosts"][name] is None:
        document["hosts"][name] = {}
    if value is None:
        document["hosts"][name].pop(key, None)
    else:
        document["hosts"][name][key] = value


def _scalar(value: object, *, flow: bool) -> str:
    text = yaml_text({"k": value}).removeprefix("k: ").rstrip("\n")
    return json.dumps(value) if "\n" in text or (flow and _FLOW_MARKS & set(text)) else text


def _lines(text: str) -> list[str]:
    """Lines with their ends; str.splitlines would also end them at form feeds and the like."""
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rpartition("\n")[2]] if not text.endswith("\n") else []
    )


def _last_line(lines: list[str], begin: int, limit: int) -> int:
    """One past the last line of an entry: comments and blank lines after it belong to what follows."""
    while limit > begin + 1 and (not lines[limit - 1].strip() or lines[limit - 1].lstrip().startswith("#")):
        limit -= 1
    return limit


def _round_trip(text: str, change: Callable[[Any], object]) -> str:
    """For `hosts: {…}` on one line or with nothing in it, through ruamel: it keeps comments, not every space."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    document = yaml.load(text)
    change(document)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _put(document: Any, host: Host) -> None:
    if document["hosts"]:
        document["hosts"][host.name] = _fields(host)
    else:
        document["hosts"] = {host.name: _fields(host)}


def _fields(host: Host) -> dict[str, object]:
    return host.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)


def _entry(host: Host, indent: int) -> str:
    text = yaml_text({host.name: _fields(host)})
    return "".join(" " * indent + line for line in _lines(text))


def _top(text: str) -> list[tuple[Node, Node]]:
    node = compose(text, lambda line: Place(None, line))
    return node.value if isinstance(node, MappingNode) else []


def _top_keys(text: str) -> list[str]:
    return [str(key.value) for key, _ in _top(text)]


def _hosts_node(text: str) -> Node | None:
    return next((value for key, value in _top(text) if key.value == "hosts"), None)


def _entry_node(text: str, name: str) -> Node | None:
    hosts = _hosts_node(text)
    items = hosts.value if isinstance(hosts, MappingNode) else []
    return next((value for key, value in items if key.value == name), None)


def _end_of_entry(text: str, name: str, line_count: int) -> int:
    hosts = _hosts_node(text)
    starts = [(key.value, _start(key)) for key, _ in hosts.value] if isinstance(hosts, MappingNode) else []
    own = next(start for key, start in starts if key == name)
    return min((start for _, start in starts if start > own), default=_end_of_hosts(text, line_count))


def _end_of_hosts(text: str, line_count: int) -> int:
    after = [_start(key) for key, _ in _top(text)]
    hosts = next(_start(key) for key, _ in _top(text) if key.value == "hosts")
    return min((line for line in after if line > hosts), default=line_count)


def _start(node: Node) -> int:
    return int(node.start_mark.line)
