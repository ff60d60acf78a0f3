"""Add and remove entries of hosts.yaml line by line, so that the rest of the file stays as it is."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node

from armada.config.documents import Document, Place, build, compose, read_text, yaml_text
from armada.config.hosts import Host, hosts_of
from armada.errors import Conflict, NotFound
from armada.foundation.atomic_write import write_atomically
from armada.foundation.locks import locked
from armada.paths import HomePaths


def add_host(home: HomePaths, host: Host) -> None:
    """Write a host into the user's hosts.yaml.

    Raises:
        Conflict: One of that name is there.
        ConfigError: The file was wrong already.
    """

    def add(text: str, hosts: dict[str, Host]) -> str:
        if host.name in hosts:
            raise Conflict(
                f"there is already a host {host.name} already", hint=f"armada hosts rm {host.name}, or another name"
            )
        return _with_entry(text, host)

    _edit(home.hosts_file, add, lambda hosts: {**hosts, host.name: host})


def remove_host(home: HomePaths, name: str) -> None:
    """Remove a host from the user's hosts.yaml.

    Raises:
        NotFound: It does not stand there.
        ConfigError: The file was wrong already.
    """

    def remove(text: str, hosts: dict[str, Host]) -> str:
        if name not in hosts:
            raise NotFound(f"no host {name!r} in {home.hosts_file}", hint=f"known hosts: {', '.join(hosts) or 'none'}")
        return _without_entry(text, name)

    _edit(home.hosts_file, remove, lambda hosts: {known: host for known, host in hosts.items() if known != name})


def _edit(
    file: Path,
    change: Callable[[str, dict[str, Host]], str],
    expected: Callable[[dict[str, Host]], dict[str, Host]],
) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(file.with_name(".hosts.yaml.lock")):
        before = read_text(file) if file.exists() else ""
        hosts = _hosts_in(before, file)
        after = change(before, hosts)
        if not _same(_hosts_in(after, file), expected(hosts)):
            raise Conflict(f"{file} has a layout that armada cannot edit safely", hint="edit it by hand")
        write_atomically(file.resolve(), after)  # a link to somebody's dotfiles stays a link


def _hosts_in(text: str, file: Path) -> dict[str, Host]:
    document = Document(file, {})
    node = compose(text, lambda line: Place(file, line))
    if node is not None:
        value = build(node, document, lambda line: Place(file, line), ())
        if not isinstance(value, dict):
            raise Place(file, 1).error("the file must contain a mapping, `hosts:` first")
        document.data = value
    return hosts_of(document)


def _same(found: dict[str, Host], expected: dict[str, Host]) -> bool:
    def plain(hosts: dict[str, Host]) -> dict[str, object]:
        return {name: host.model_dump() for name, host in hosts.items()}

    return plain(found) == plain(expected)


def _with_entry(text: str, host: Host) -> str:
    hosts = _hosts_node(text)
    if hosts is None and "hosts" not in _top_keys(text):
        head = text if not text or text.endswith("\n") else text + "\n"
        return head + "hosts:\n" + _entry(host, indent=2)
    if not isinstance(hosts, MappingNode) or hosts.flow_style or not hosts.value:
        return _rewritten(text, host)
    indent = hosts.value[0][0].start_mark.column
    lines = _lines(text)
    end = _last_line(lines, _start(hosts.value[-1][0]), _end_of_hosts(text, len(lines)))
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    return "".join([*lines[:end], _entry(host, indent=indent), *lines[end:]])


def _without_entry(text: str, name: str) -> str:
    hosts = _hosts_node(text)
    if not isinstance(hosts, MappingNode) or hosts.flow_style:
        return _rewritten(text, name)
    lines = _lines(text)
    starts = [(key.value, _start(key)) for key, _ in hosts.value]
    position = next(index for index, (key, _) in enumerate(starts) if key == name)
    begin = starts[position][1]
    limit = starts[position + 1][1] if position + 1 < len(starts) else _end_of_hosts(text, len(lines))
    return "".join([*lines[:begin], *lines[_last_line(lines, begin, limit) :]])


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


def _rewritten(text: str, change: Host | str) -> str:
    """For `hosts: {…}` on one line or with nothing in it, through ruamel: it keeps comments, not every space."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    document = yaml.load(text)
    hosts = document["hosts"]
    if isinstance(change, str):
        del hosts[change]
    elif hosts:
        hosts[change.name] = _fields(change)
    else:
        document["hosts"] = {change.name: _fields(change)}
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


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


def _end_of_hosts(text: str, line_count: int) -> int:
    after = [_start(key) for key, _ in _top(text)]
    hosts = next(_start(key) for key, _ in _top(text) if key.value == "hosts")
    return min((line for line in after if line > hosts), default=line_count)


def _start(node: Node) -> int:
    return int(node.start_mark.line)
