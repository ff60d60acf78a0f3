"""Private keys that OpenSSH would refuse are refused by armada in the same way, with the command that mends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from paramiko import ECDSAKey

from armada.transport.ssh.authentication import OfferedKeys, explain_refusal
from armada.transport.ssh.resolve import HostSpec

if TYPE_CHECKING:
    from pathlib import Path


def offered(path: Path) -> OfferedKeys:
    spec = HostSpec("box", "10.0.0.3", 22, "root", identity_files=(path,), identities_only=True, identity_agent="none")
    keys = OfferedKeys(spec)
    list(keys.get_sources())
    keys.close()
    return keys


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "my key"
    ECDSAKey.generate().write_private_key_file(str(path))
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_of_ones_own_is_offered(key: Path, mode: int) -> None:
    key.chmod(mode)
    assert (offered(key).tried, offered(key).exposed) == ([str(key)], [])


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_not_offered_and_said_to_be(key: Path, mode: int) -> None:
    key.chmod(mode)
    keys = offered(key)
    assert (keys.tried, keys.exposed) == ([], [key])
    said, hint = explain_refusal(keys, missing=[])
    assert f"{key} is a private key that others can read (mode {mode:04o})" in said
    assert hint == f"chmod 600 '{key}'"
