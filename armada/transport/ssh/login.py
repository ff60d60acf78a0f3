"""Log in with one round trip: send the service request and the signed authentication request together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import paramiko
from paramiko.auth_handler import AuthHandler
from paramiko.common import MSG_SERVICE_ACCEPT
from paramiko.message import Message
from paramiko.ssh_exception import SSHException

_FASTEST_CIPHER = "aes128-gcm@openssh.com"

# Not part of paramiko's public interface: if a release lacks them, a login takes one more round trip.
_CAN_GO_AHEAD = all(
    hasattr(AuthHandler, name) for name in ("_request_auth", "_parse_service_accept", "_client_handler_table")
)


class Login(paramiko.Transport):
    """Paramiko's transport, with one round trip less for each key.

    RFC 4253 lets a client continue before its service request is accepted, and servers answer in order. Paramiko's
    ServiceRequestingTransport also waits, and may miss an answer that arrives quickly.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        security = self.get_security_options()
        # Paramiko prefers AES-CTR with an HMAC, which takes more than twice the time.
        security.ciphers = sorted(security.ciphers, key=lambda name: name != _FASTEST_CIPHER)

    def auth_publickey(self, username: str, key: paramiko.PKey, event: threading.Event | None = None) -> list[str]:
        # The RSA signature algorithms are in a message that servers send just before they accept the service request.
        if event is not None or "rsa" in key.get_name() or not _CAN_GO_AHEAD:
            return super().auth_publickey(username, key, event)
        if not self.is_active() or not self.initial_kex_done:
            raise SSHException("No existing session")
        answered = threading.Event()
        handler = self.auth_handler = _Unasked(self)
        handler.auth_publickey(username, key, answered)
        return handler.wait_for_response(answered)


class _Unasked(AuthHandler):
    """Sends the signed request right after the service request."""

    def _request_auth(self) -> None:
        super()._request_auth()  # type: ignore[misc]  # typeshed omits names that begin with _
        consent = Message()
        consent.add_string("ssh-userauth")
        consent.rewind()
        super()._parse_service_accept(consent)  # type: ignore[misc]  # as above

    @property
    def _client_handler_table(self) -> dict[int, Callable[[Message], Any]]:
        table: dict[int, Callable[[Message], Any]] = super()._client_handler_table  # type: ignore[misc]  # as above
        return {**table, MSG_SERVICE_ACCEPT: lambda _: None}
