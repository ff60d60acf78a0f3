"""Add, change and remove entries of hosts.yaml; the rest of the file stays as it is."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from armada.config.documents import Document, Place, build, compose, read_text
from armada.config.hosts import LOCAL, Host, hosts_of
from armada.config.hosts_text import with_entry, with_settings, without_entry
from armada.errors import ConfigError, Conflict, NotFound
from armada.foundation.atomic_write import rewrite_atomically
from armada.foundation.locks import locked
from armada.paths import HomePaths


@dataclass(frozen=True, slots=True)
class HostChange:
    """What a change makes of an entry, and of the file."""

    file: Path
    before: Host
    after: Host
    text_before: str
    text_after: str

    @property
    def keys(self) -> list[str]:
        """The keys whose values change, in the order of the model."""
        before, after = self.before.model_dump(), self.after.model_dump()
        return [key for key in after if before[key] != after[key]]

    @property
    def diff(self) -> str:
        """The lines of the file that change, as `diff -u` shows them."""
        name = str(self.file)
        before, after = (text.splitlines(keepends=True) for text in (self.text_before, self.text_after))
        return "".join(difflib.unified_diff(before, after, name, name, n=1))


def _nothing() -> None:
    pass


def add_host(home: HomePaths, host: Host, *, first: Callable[[], None] = _nothing) -> None:
    """Write a host into the user's hosts.yaml.

    Args:
        home: Whose file.
        host: The host.
        first: What else is kept of a host by its name, such as its keys. It is called right before the file is written,
            under the file's lock, and only if no other host has the name.

    Raises:
        Conflict: One of that name is there.
        ConfigError: The file was wrong already.
    """

    def add(text: str, hosts: dict[str, Host]) -> str:
        if host.name in hosts:
            raise Conflict(f"there is a host {host.name} already", hint=f"armada hosts rm {host.name}, or another name")
        return with_entry(text, host)

    _edit(home.hosts_file, add, lambda hosts: {**hosts, host.name: host}, first=first)


def changed_host(host: Host, settings: Mapping[str, object]) -> Host:
    """Return a host with other settings; None stands for the default of a setting.

    Raises:
        ValidationError: They do not fit together.
    """
    fields = {key: getattr(host, key) for key in Host.model_fields if key != "origin"} | dict(settings)
    kept = {key: value for key, value in fields.items() if value is not None}
    return Host(**kept, origin=host.origin)


def foresee_change(home: HomePaths, name: str, settings: Mapping[str, object]) -> HostChange:
    """Return what `change_host` would do. Changes nothing.

    Raises:
        NotFound: The host does not stand in the file.
        ConfigError: The file was wrong already.
        Conflict: Its layout cannot be edited safely.
    """
    file = home.hosts_file
    return _change(file, read_text(file) if file.exists() else "", name, settings)


def change_host(home: HomePaths, name: str, settings: Mapping[str, object]) -> HostChange:
    """Change settings of a host in the user's hosts.yaml, and leave every other character as it is.

    Args:
        home: Whose file.
        name: The host's. `local`, which needs no entry, gets one.
        settings: By key, as `Host` has them. None removes the key, and so means the default.

    Raises:
        NotFound: The host does not stand there.
        ConfigError: The file was wrong already.
        Conflict: Its layout cannot be edited safely.
        ValidationError: The settings do not fit together.
    """
    file = home.hosts_file
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(file.with_name(".hosts.yaml.lock")):
        change = foresee_change(home, name, settings)
        if change.text_after != change.text_before:
            rewrite_atomically(file.resolve(), change.text_after)
    return change


def _change(file: Path, text: str, name: str, settings: Mapping[str, object]) -> HostChange:
    hosts = _hosts_in(text, file)
    if name not in hosts and name != LOCAL:
        raise NotFound(f"no host {name!r} in {file}", hint=f"known hosts: {', '.join(hosts) or 'none'}")
    before = hosts.get(name, Host(name=LOCAL, local=True))
    after = changed_host(before, settings)
    plain, old = after.model_dump(mode="json"), before.model_dump(mode="json")
    written = {key: None if settings[key] is None else plain[key] for key in settings if plain[key] != old[key]}
    if not written:
        return HostChange(file, before, after, text, text)
    edited = with_settings(text, name, written) if name in hosts else with_entry(text, after)
    _compare(edited, file, {**hosts, name: after})
    return HostChange(file, before, after, text, edited)


def remove_host(home: HomePaths, name: str) -> None:
    """Remove a host from the user's hosts.yaml.

    Raises:
        NotFound: It does not stand there.
        ConfigError: The file was wrong already.
    """

    def remove(text: str, hosts: dict[str, Host]) -> str:
        if name not in hosts:
            raise NotFound(f"no host {name!r} in {home.hosts_file}", hint=f"known hosts: {', '.join(hosts) or 'none'}")
        return without_entry(text, name)

    _edit(home.hosts_file, remove, lambda hosts: {known: host for known, host in hosts.items() if known != name})


def _edit(
    file: Path,
    change: Callable[[str, dict[str, Host]], str],
    expected: Callable[[dict[str, Host]], dict[str, Host]],
    *,
    first: Callable[[], None] = _nothing,
) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(file.with_name(".hosts.yaml.lock")):
        before = read_text(file) if file.exists() else ""
        hosts = _hosts_in(before, file)
        after = change(before, hosts)
        _compare(after, file, expected(hosts))
        first()
        rewrite_atomically(file.resolve(), after)  # a link to somebody's dotfiles stays a link


def _compare(text: str, file: Path, expected: dict[str, Host]) -> None:
    """Refuse an edited text that does not say exactly what it should.

    Raises:
        Conflict: It does not.
    """
    try:
        is_right = _same(_hosts_in(text, file), expected)
    except ConfigError:
        is_right = False
    if not is_right:
        raise Conflict(f"{file} has a layout that armada cannot edit safely", hint="edit it by hand")


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
