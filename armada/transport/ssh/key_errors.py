"""Errors about host keys, with the same text for Paramiko and OpenSSH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from armada.errors import HostKeyChanged

if TYPE_CHECKING:
    from armada.transport.ssh.resolve import HostSpec


def where_of(machine: HostSpec, host: str) -> str:
    """Describe a machine for a message: a hop on the way to `host`, or the host itself."""
    return machine.target if machine.name == host else f"jump host {machine.target}"


def key_changed(pinned: Sequence[str], offered: str, where: str, *, host: str) -> HostKeyChanged:
    """Return the error for a key that is not the pinned one."""
    return HostKeyChanged(
        f"the key of {where} changed: pinned {' and '.join(pinned)}, offered {offered}",
        hint=f"if that machine was reinstalled or replaced: armada hosts trust {host}; if not, somebody may be intercepting the connection",
        host=host,
    )


def key_unpinned(offered: str | None, where: str, *, host: str) -> HostKeyChanged:
    """Return the error for a machine without a pinned key."""
    shows = f"; it shows {offered}" if offered else ""
    return HostKeyChanged(f"no key is pinned for {where}{shows}", hint=f"armada hosts trust {host}", host=host)
