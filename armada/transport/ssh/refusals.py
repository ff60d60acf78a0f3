"""Explain in one sentence why a connection failed."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paramiko
from paramiko.ssh_exception import AuthenticationException, BadHostKeyException, ChannelException, SSHException

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.transport.ssh.authentication import OfferedKeys, explain_refusal
from armada.transport.ssh.host_keys import HostKey
from armada.transport.ssh.key_errors import key_changed, key_unpinned, where_of

if TYPE_CHECKING:
    from armada.transport.ssh.resolve import HostSpec


@dataclass(slots=True)
class Refusal(paramiko.MissingHostKeyPolicy):
    """One failed attempt and what was learned about it. As a Paramiko policy it rejects every key that is not pinned."""

    machine: HostSpec
    known: Sequence[HostKey]
    keys: OfferedKeys | None = None
    offered: HostKey | None = None
    error: Exception | None = None

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002  # Paramiko's signature
        self.offered = _host_key(self.machine, key)
        raise SSHException("no key is pinned")

    @property
    def is_busy(self) -> bool:
        """Whether sshd hung up before sending its version, as it does beyond MaxStartups."""
        if isinstance(self.error, EOFError | ConnectionResetError):
            return True
        no_greeting = isinstance(self.error, SSHException) and "banner" in str(self.error)
        return no_greeting and self.error is not None and not isinstance(self.error.__context__, TimeoutError)


def explain(refusal: Refusal, *, host: str) -> HostUnreachable:
    """Convert a refusal into the error for the user."""
    machine, error = refusal.machine, refusal.error
    where = where_of(machine, host)
    if isinstance(error, HostUnreachable):
        return error
    if isinstance(error, BadHostKeyException):
        refusal.offered = _host_key(machine, error.key)
    if refusal.offered is not None:
        return _key_error(refusal.known, refusal.offered, where, host=host)
    if isinstance(error, AuthenticationException) and refusal.keys is not None:
        missing = [path for path in machine.identity_files if not path.exists()]
        said, hint = explain_refusal(refusal.keys, missing=missing if machine.identities_only else [])
        return AuthenticationFailed(f"{where} refused the login: {said}", hint=hint, host=host)
    return HostUnreachable(f"{where} {_what_happened(error)}", hint=_hint(error), host=host)


def _key_error(known: Sequence[HostKey], offered: HostKey, where: str, *, host: str) -> HostKeyChanged:
    if known:
        return key_changed([key.fingerprint for key in known], offered.fingerprint, where, host=host)
    return key_unpinned(offered.fingerprint, where, host=host)


def _host_key(machine: HostSpec, key: paramiko.PKey) -> HostKey:
    return HostKey(alias=machine.alias, algorithm=key.get_name(), blob=key.get_base64())


def _what_happened(error: Exception | None) -> str:
    if isinstance(error, socket.gaierror):
        return "is not a host name or address that can be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections: nothing listens on that port"
    if _timed_out(error):
        return "did not answer in time"
    if isinstance(error, ChannelException):
        return f"cannot be reached from the hop before it: {sanitize_line(error.text)}"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be reached: {error.strerror}"
    if "banner" in str(error):
        return (
            "does not answer like an SSH server: there may be too many logins at once, or another service on that port"
        )
    return f"closed the connection: {sanitize_line(error)}" if str(error) else "closed the connection"


def _timed_out(error: Exception | None) -> bool:
    # Paramiko does not raise if a handshake exceeds its timeout: it continues, and finds no session.
    said = str(error)
    waited = error is not None and isinstance(error.__context__, TimeoutError)
    return waited or isinstance(error, TimeoutError) or "timed out" in said.lower() or "No existing session" in said


def _hint(error: Exception | None) -> str | None:
    if isinstance(error, socket.gaierror):
        return "check the spelling of the name, and that this machine is online"
    if isinstance(error, ConnectionRefusedError):
        return "check the port, and that the machine is up"
    if _timed_out(error):
        return "check that the machine is up, and that no firewall blocks it"
    return None
