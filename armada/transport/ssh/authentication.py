"""Choose the keys to offer to a host, in OpenSSH's order, and record the result of each."""

from __future__ import annotations

import base64
import binascii
import os
import shlex
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paramiko import AgentKey, PKey
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey
from paramiko.config import SSHConfig
from paramiko.message import Message
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import PasswordRequiredException, SSHException, UnableToAuthenticate

if TYPE_CHECKING:
    from pathlib import Path

    from armada.transport.ssh.resolve import HostSpec

_AGENT_TIMEOUT_S = 10.0
_PRIVATE_HEAD, _PRIVATE_MAGIC = "-----BEGIN OPENSSH PRIVATE KEY-----", b"openssh-key-v1\0"


class OfferedKeys(AuthStrategy):
    """The keys of one HostSpec; `tried`, `locked`, `exposed` and `unusable` record the results.

    A key file is not read if the SSH agent holds its key: agents hold keys that a passphrase protects.
    """

    def __init__(self, spec: HostSpec) -> None:
        super().__init__(ssh_config=SSHConfig())
        self._spec = spec
        self._agent = _Agent(spec.identity_agent)
        self.tried: list[str] = []
        self.locked: list[Path] = []
        self.exposed: list[Path] = []
        self.unusable: list[str] = []

    def __call__(self, **_: Any) -> OfferedKeys:
        """Stand in for the class that Fabric's configuration expects and would instantiate."""
        return self

    def get_sources(self) -> Iterator[AuthSource]:
        held = {key.asbytes(): key for key in self._agent.get_keys()}
        for path in self._spec.identity_files:
            if (blob := _public_blob(path)) in held:
                yield self._source(held.pop(blob), f"{path} (agent)")
            elif (key := self._load(path)) is not None:
                held.pop(key.asbytes(), None)
                yield self._source(key, str(path))
        if not self._spec.identities_only:
            for agent_key in held.values():
                yield self._source(agent_key, f"{agent_key.comment or agent_key.fingerprint} (agent)")

    def close(self) -> None:
        self._agent.close()

    def _source(self, key: PKey, label: str) -> AuthSource:
        self.tried.append(label)
        return InMemoryPrivateKey(self._spec.user, key)

    def _load(self, path: Path) -> PKey | None:
        if not path.exists():
            return None
        if is_exposed(path):
            self.exposed.append(path)
            return None
        try:
            key = PKey.from_path(path)
            for certificate in self._spec.certificate_files:
                if certificate.exists() and certificate.name.startswith(path.name):
                    key.load_certificate(str(certificate))
        except (PasswordRequiredException, TypeError):  # cryptography raises TypeError if a passphrase is missing
            self.locked.append(path)
        except (OSError, ValueError, SSHException, UnknownKeyType) as error:
            self.unusable.append(f"{path} ({_reason(error)})")
        else:
            return key
        return None


def is_exposed(path: Path) -> bool:
    """Whether OpenSSH, and so rsync's ssh, would reject a private key file because others can read it (`sshkey_perm_ok`)."""
    try:
        with path.open("rb") as file:
            found, head = os.fstat(file.fileno()), file.readline(200)
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mode & 0o077 != 0 and b"PRIVATE KEY" in head


def exposed_words(path: Path) -> str:
    return (
        f"{path} is a private key that others can read (mode {path.stat().st_mode & 0o777:04o}), which ssh does not use"
    )


class _Agent(AgentSSH):
    """The SSH agent at a given socket; Paramiko's own class supports only SSH_AUTH_SOCK."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        path = os.environ.get("SSH_AUTH_SOCK") if path is None else path
        if not path or path == "none":
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_AGENT_TIMEOUT_S)
        try:
            connection.connect(os.path.expanduser(path))  # noqa: PTH111  # a socket's address is a string
            self._connect(connection)  # type: ignore[attr-defined]  # typeshed omits names that begin with _
        except (OSError, SSHException):
            connection.close()  # SSH_AUTH_SOCK often outlives its agent

    def get_keys(self) -> tuple[AgentKey, ...]:
        return tuple(super().get_keys())

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]  # as above


def _public_blob(path: Path) -> bytes | None:
    """Return the public half of a key: from the `.pub` beside it, or from the file itself, where it is never encrypted."""
    for file in (path.with_name(f"{path.name}.pub"), path):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        if (blob := _blob_in(text)) is not None:
            return blob
    return None


def _blob_in(text: str) -> bytes | None:
    """Return the public key in a `.pub`, or in a private file in OpenSSH's format (PROTOCOL.key); None in other files."""
    try:
        if not text.startswith(_PRIVATE_HEAD):
            return base64.b64decode(text.split()[1], validate=True)
        message = Message(base64.b64decode("".join(text.split("-----")[2].split()), validate=True))
    except (ValueError, IndexError, binascii.Error):
        return None
    if message.get_bytes(len(_PRIVATE_MAGIC)) != _PRIVATE_MAGIC:
        return None
    for _ in ("cipher", "derivation", "its options"):
        message.get_string()
    return message.get_string() if message.get_int() == 1 else None


def _reason(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "not readable"
    return "not a private key that Paramiko can read"


def explain_refusal(keys: OfferedKeys, *, missing: list[Path]) -> tuple[str, str]:
    """Return a sentence naming every key that was tried, and what to do next."""
    said = [f"it refused {', '.join(keys.tried)}" if keys.tried else "there was no key to offer"]
    if keys.locked:
        said.append(f"{', '.join(map(str, keys.locked))} is protected by a passphrase and is not in an SSH agent")
    said += [exposed_words(path) for path in keys.exposed]
    if keys.unusable:
        said.append(f"unusable: {', '.join(keys.unusable)}")
    if missing:
        said.append(f"not there: {', '.join(map(str, missing))}")
    if keys.exposed:
        return "; ".join(said), f"chmod 600 {shlex.quote(str(keys.exposed[0]))}"
    if keys.locked:
        return "; ".join(said), f"ssh-add {keys.locked[0]}"
    return "; ".join(said), "check the user name, and that your public key is in the host's ~/.ssh/authorized_keys"


__all__ = ["OfferedKeys", "UnableToAuthenticate", "explain_refusal"]
