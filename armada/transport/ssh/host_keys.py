"""Pinned host keys: shown once, pinned, then compared at every connection.

One file in OpenSSH's known_hosts format serves both Fabric and rsync's ssh. Its lines are named by alias, not by
address.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from armada.foundation.atomic_write import write_if_changed
from armada.foundation.locks import locked
from armada.paths import HomePaths


@dataclass(frozen=True, slots=True)
class HostKey:
    """The public key of one machine: a host, or a hop on the way to it."""

    alias: str
    algorithm: str
    blob: str

    @property
    def fingerprint(self) -> str:
        """The fingerprint in OpenSSH's format."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


PinnedKeys = Mapping[str, Sequence[HostKey]]


def pinned_keys(home: HomePaths) -> PinnedKeys:
    """Read the pinned keys, by alias."""
    keys: dict[str, list[HostKey]] = {}
    for key in _read(home):
        keys.setdefault(key.alias, []).append(key)
    return keys


def pin(home: HomePaths, name: str, keys: Sequence[HostKey]) -> None:
    """Pin these keys for host `name` and the hops on the way to it, replacing all former ones."""
    with locked(home.known_hosts.with_suffix(".lock")):
        _write(home, [*(key for key in _read(home) if not _belongs(key, name)), *keys])


def unpin(home: HomePaths, name: str) -> None:
    """Remove the pinned keys of host `name` and of the hops on the way to it."""
    pin(home, name, ())


def _belongs(key: HostKey, name: str) -> bool:
    return key.alias == f"armada-{name}" or key.alias.startswith(f"armada-{name}+hop")


def _read(home: HomePaths) -> list[HostKey]:
    try:
        text = home.known_hosts.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    keys = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and not line.startswith(("#", "@", "|")) and _is_base64(fields[2]):
            keys.append(HostKey(alias=fields[0], algorithm=fields[1], blob=fields[2]))
    return keys


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except binascii.Error:
        return False


def _write(home: HomePaths, keys: Sequence[HostKey]) -> None:
    write_if_changed(home.known_hosts, "".join(f"{key.alias} {key.algorithm} {key.blob}\n" for key in keys))
