"""Whose key is shown."""

from __future__ import annotations

import base64
import io

from armada.cli.trust import ShownKeys, show
from armada.transport.ssh.host_keys import HostKey


def key(alias: str, text: bytes) -> HostKey:
    return HostKey(alias=alias, algorithm="ssh-ed25519", blob=base64.b64encode(text).decode())


def test_each_key_stands_under_the_machine_that_shows_it() -> None:
    hop, host, former = key("armada-box+hop1", b"hop"), key("armada-box", b"host"), key("armada-box", b"former")
    whose = {"armada-box": "box (box.example)", "armada-box+hop1": "jump host me@gate:22, on the way to box"}
    said = io.StringIO()
    show(ShownKeys([hop, host], [hop, former], whose), said)
    assert said.getvalue().splitlines() == [
        "jump host me@gate:22, on the way to box shows this key:",
        f"  ssh-ed25519 {hop.fingerprint}  (pinned already)",
        "box (box.example) shows this key:",
        f"  ssh-ed25519 {host.fingerprint}",
        f"  ssh-ed25519 {former.fingerprint}  (pinned before)",
    ]
