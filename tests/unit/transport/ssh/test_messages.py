"""What OpenSSH 9.2 said when it could not connect, as recorded, and the sentence that Fabric's failures get too."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable
from armada.paths import HomePaths
from armada.transport.ssh.host_keys import HostKey
from armada.transport.ssh.messages import read_refusal
from armada.transport.ssh.refusals import explain
from armada.transport.ssh.resolve import HostSpec

OFFERED = "SHA256:HPxfuoc3EreIg4CgLPeycEW7l24DTSfU4A7vHf0AMLM"
HOPS = (HostSpec("box+hop1", "10.0.0.1", 22, "ops"), HostSpec("box+hop2", "10.0.0.2", 22, "carol"))
NO_PARTNER = "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535\n"
NO_WAY_ON = "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed\n"
CHANGED = f"""@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
The fingerprint for the ED25519 key sent by the remote host is
{OFFERED}.
Host key for armada-box+hop1 has changed and you have requested strict checking.
Host key verification failed.
"""


def spec(hops: int) -> HostSpec:
    return HostSpec("box", "10.0.0.3", 22, "root", hops=HOPS[:hops], identities_only=True, identity_agent="none",
                    shared=True, reuse_only=True)  # fmt: skip


@pytest.mark.parametrize(
    ("hops", "said", "kind", "sentence"),
    [
        (0, "ssh: connect to host 10.0.0.3 port 22: Connection refused", HostUnreachable, "root@10.0.0.3:22 refuses"),
        (0, "ssh: connect to host 10.0.0.3 port 22: No route to host", HostUnreachable, "reached: No route to host"),
        (0, "ssh: connect to host 10.0.0.3 port 22: Connection timed out", HostUnreachable, "did not answer in time"),
        (0, "Connection timed out during banner exchange", HostUnreachable, "did not answer in time"),
        (0, "ssh: Could not resolve hostname x: Name or service not known", HostUnreachable, "not a host name"),
        (0, "kex_exchange_identification: Connection closed by remote host", HostUnreachable, "does not answer like an SSH server"),
        (0, "root@10.0.0.3: Permission denied (publickey).", AuthenticationFailed, "root@10.0.0.3:22 refused the login"),
        (0, "Received disconnect: Too many authentication failures", AuthenticationFailed, "refused the login"),
        (0, "Unable to negotiate: no matching host key type found", HostUnreachable, "no matching host key type"),
        (0, "No ED25519 host key is known for armada-box and", HostKeyChanged, "key is pinned for root@10.0.0.3"),
        (0, "muxserver_listen bind(): Operation not permitted", HostUnreachable, "cannot keep a shared connection open"),
        (0, "", HostUnreachable, "closed the connection"),
        (1, NO_WAY_ON + NO_PARTNER, HostUnreachable, "^root@10.0.0.3:22 cannot be reached from the hop before it: Conn"),
        (2, NO_WAY_ON + 2 * NO_PARTNER, HostUnreachable, "^jump host carol@10.0.0.2:22 cannot be reached from the hop"),
        (2, "ssh: connect to host 10.0.0.1 port 22: Connection refused\n" + 2 * NO_PARTNER, HostUnreachable,
         "^jump host ops@10.0.0.1:22 refuses"),
        (2, "carol@10.0.0.2: Permission denied (publickey).\n" + NO_PARTNER, AuthenticationFailed,
         "^jump host carol@10.0.0.2:22 refused the login"),
        (2, "root@10.0.0.3: Permission denied (publickey).\n", AuthenticationFailed, "^root@10.0.0.3:22 refused the login"),
        (2, CHANGED + 2 * NO_PARTNER, HostKeyChanged, f"^the key of jump host ops@10.0.0.1:22 changed.*{OFFERED}"),
    ],
)  # fmt: skip
def test_each_refusal_names_the_machine_and_says_what_fabric_s_would(
    hops: int, said: str, kind: type[HostUnreachable], sentence: str, tmp_path: Path
) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    pinned = {"armada-box+hop1": [HostKey("armada-box+hop1", "ssh-ed25519", "AAAA")]}
    error = explain(read_refusal(said, spec(hops), home, pinned, in_time=True), host="box")
    assert type(error) is kind
    with pytest.raises(kind, match=sentence):
        raise type(error)(error.message)


def test_only_a_server_too_busy_to_greet_is_worth_another_try(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    busy = {
        "kex_exchange_identification: read: Connection reset by peer": True,
        "ssh: connect to host 10.0.0.3 port 22: Connection reset by peer": True,
        "ssh: connect to host 10.0.0.3 port 22: Connection refused": False,
        "root@10.0.0.3: Permission denied (publickey).": False,
    }
    assert {said: read_refusal(said, spec(0), home, {}, in_time=True).is_busy for said in busy} == busy


def test_time_that_is_up_is_said_whatever_ssh_said(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    refusal = read_refusal("", spec(0), home, {}, in_time=False)
    assert explain(refusal, host="box").message == "root@10.0.0.3:22 did not answer in time"
    assert not refusal.is_busy
