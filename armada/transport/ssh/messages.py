"""Convert the messages of OpenSSH's client into the exceptions that Paramiko would raise.

So refusals.py explains both in one place.
"""

from __future__ import annotations

import errno
import re
import socket
from typing import TYPE_CHECKING

from paramiko.ssh_exception import AuthenticationException, ChannelException, SSHException

from armada.errors import HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.transport.ssh.authentication import OfferedKeys
from armada.transport.ssh.key_errors import key_changed, key_unpinned, where_of
from armada.transport.ssh.refusals import Refusal

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.transport.ssh.host_keys import PinnedKeys
    from armada.transport.ssh.resolve import HostSpec

_CHANGED = re.compile(r"Host key for (\S+) has changed")
_UNKNOWN = re.compile(r"No \S+ host key is known for (\S+) and")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_NO_SOCKET = re.compile(r"(?:muxserver_listen|unix_listener|ControlPath|ControlSocket).*")
_NOT_LET_IN = re.compile(r"Permission denied \(|Too many authentication failures|No more authentication methods")
_NO_WAY_ON = re.compile(r"channel \d+: open failed: [^:]+: (.*)")
_CONNECT = re.compile(r"connect to host \S+ port \d+: (.*)")
_TIMED_OUT = re.compile(r"timed out", re.IGNORECASE)
_HUNG_UP = re.compile(r"(?:kex_exchange_identification|banner exchange|Connection (?:closed|reset) by)")
_THROUGH_A_HOP = "UNKNOWN port 65535"
_ERRNOS = {"Connection refused": errno.ECONNREFUSED, "Connection reset by peer": errno.ECONNRESET}


def read_refusal(said: str, spec: HostSpec, home: HomePaths, pinned: PinnedKeys, *, in_time: bool) -> Refusal:
    """Find out from ssh's messages why it did not connect.

    Args:
        said: Everything that it and the ssh of its hops wrote.
        spec: The destination.
        home: Used to fetch the host's key if none is pinned and armada may connect without the user.
        pinned: The pinned keys.
        in_time: False if ssh was killed at the deadline.
    """
    machine = _machine(said, spec)
    refusal = Refusal(machine, pinned.get(machine.alias, ()))
    refusal.error = _key_trouble(said, spec, home, pinned) or _other_trouble(said, in_time=in_time)
    if isinstance(refusal.error, AuthenticationException):
        refusal.keys = _offered(machine, said)
    return refusal


def _machine(said: str, spec: HostSpec) -> HostSpec:
    """Find the machine that failed: each ssh nearer to us than that one reports a closed connection."""
    chain = (*spec.hops, spec)
    place = len(spec.hops) - said.count(_THROUGH_A_HOP) + (1 if _NO_WAY_ON.search(said) else 0)
    return chain[min(max(place, 0), len(spec.hops))]


def _key_trouble(said: str, spec: HostSpec, home: HomePaths, pinned: PinnedKeys) -> HostUnreachable | None:
    machines = {machine.alias: machine for machine in (*spec.hops, spec)}
    changed, unknown = _CHANGED.search(said), _UNKNOWN.search(said)
    if changed and changed[1] in machines:
        offered = _FINGERPRINT.search(said)
        known = [key.fingerprint for key in pinned.get(changed[1], ())]
        where = where_of(machines[changed[1]], spec.name)
        return key_changed(known, offered[0] if offered else "another", where, host=spec.name)
    if unknown and unknown[1] in machines:
        # A key of another type than the pinned ones is a changed key too, as with Paramiko.
        known = [key.fingerprint for key in pinned.get(unknown[1], ())]
        where, shown = where_of(machines[unknown[1]], spec.name), _shown(unknown[1], spec, home)
        if known:
            return key_changed(known, shown or "another", where, host=spec.name)
        return key_unpinned(shown, where, host=spec.name)
    return None


def _shown(alias: str, spec: HostSpec, home: HomePaths) -> str | None:
    """Fetch the fingerprint that a machine shows, which ssh does not print; None if that might use up a one-time code."""
    if spec.reuse_only:
        return None
    from armada.transport.ssh.handshake import scan

    try:
        return next((key.fingerprint for key in scan(spec, home) if key.alias == alias), None)
    except HostUnreachable:  # report the refusal without the fingerprint
        return None


def _other_trouble(said: str, *, in_time: bool) -> Exception:
    if found := _NO_SOCKET.search(said):
        return HostUnreachable(f"ssh cannot keep a shared connection open on this machine: {sanitize_line(found[0])}")
    if _NOT_LET_IN.search(said):
        return AuthenticationException(said)
    if "Could not resolve hostname" in said:
        return socket.gaierror()
    if found := _NO_WAY_ON.search(said):
        return ChannelException(0, found[1])
    if not in_time or _TIMED_OUT.search(said):
        return TimeoutError()
    if found := _CONNECT.search(said):
        words = found[1].strip()
        return OSError(_ERRNOS.get(words, errno.EHOSTUNREACH), words)  # OSError picks its subclass by the number
    if _HUNG_UP.search(said):
        return SSHException("no banner")
    lines = [line for line in said.splitlines() if line.strip() and _THROUGH_A_HOP not in line]
    return SSHException(lines[-1] if lines else "")


def _offered(machine: HostSpec, said: str) -> OfferedKeys:
    """Return the keys that ssh offered: it reads the same files and uses the same agent."""
    keys = OfferedKeys(machine)
    try:
        for _ in keys.get_sources():
            pass
    finally:
        keys.close()
    # ssh supports types of keys that Paramiko cannot read, such as FIDO's.
    keys.unusable = [entry for entry in keys.unusable if f'Load key "{entry.rpartition(" (")[0]}"' in said]
    return keys
