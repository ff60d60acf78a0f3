"""Whose key is shown."""

from __future__ import annotations

import argparse
import base64
import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from armada.cli import trust
from armada.cli.host_add import add_new
from armada.cli.trust import ShownKeys, show
from armada.config.hosts import Host
from armada.errors import Conflict
from armada.paths import HomePaths
from armada.store.database import Database
from armada.transport.ssh.host_keys import HostKey, pinned_keys


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


def test_a_host_whose_name_was_taken_meanwhile_pins_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    first, second = key("armada-box", b"first"), key("armada-box", b"second")
    database = Database(tmp_path / "store.db")
    options, context = argparse.Namespace(yes=True, expect=None), SimpleNamespace(home=home, database=database)

    def add(shown: HostKey, target: str) -> None:
        monkeypatch.setattr(trust, "ask_keys", lambda *_: ShownKeys([shown], [], {"armada-box": "box"}))
        add_new(context, Host(name="box", ssh=target), options, io.StringIO())  # type: ignore[arg-type]  # only these of it

    add(first, "me@one")
    with database, pytest.raises(Conflict, match="there is a host box already"):
        add(second, "me@two")
    assert pinned_keys(home) == {"armada-box": [first]}
