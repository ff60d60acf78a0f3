"""What carries checkpoints home, by what is known of both ends and the link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armada.sync.transfer.method import choose_transfer, trouble_here, trouble_there


@pytest.mark.parametrize(
    ("setting", "known", "method", "reason"),
    [
        ("auto", {"round_trip_s": 0.0004}, "rsync", "one connection fills the link"),
        ("auto", {"round_trip_s": 0.0104}, "rsync", "10.4 ms"),
        ("auto", {"round_trip_s": 0.0106}, "stream", "several connections carry more"),
        ("auto", {"round_trip_s": 0.1}, "stream", "100 ms"),
        ("auto", {"trouble": "the host has no rsync"}, "stream", "the host has no rsync"),
        ("auto", {"is_local": True}, "stream", "this machine"),
        ("auto", {"streams": 4}, "stream", "sync.streams: 4"),
        ("auto", {"shares_limit": True}, "stream", "bwlimit in hosts.yaml"),
        ("rsync", {"round_trip_s": 0.3}, "rsync", "set by sync.transfer"),
        ("rsync", {"trouble": "the host has no rsync"}, "rsync", "set by sync.transfer"),  # and says so
        ("rsync", {"is_local": True}, "rsync", "set by sync.transfer"),
        (
            "rsync",
            {"shares_limit": True},
            "stream",
            "bwlimit in hosts.yaml",
        ),  # a limit is kept whatever else is asked for
        ("stream", {}, "stream", "set by sync.transfer"),
    ],
)
def test_rsync_carries_where_one_connection_is_enough_and_the_stream_elsewhere(
    setting: Any, known: dict[str, Any], method: str, reason: str
) -> None:
    choice = choose_transfer(setting, **{"round_trip_s": 0.001, **known})
    assert choice.method == method
    assert reason in choice.reason


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (None, None),
        ({}, None),
        ({"tools": 7}, None),
        ({"tools": {"git": "2.39"}}, None),
        ({"tools": {"rsync": "3.2.7"}}, None),
        ({"tools": {"rsync": "3.10.1"}}, None),
        ({"tools": {"rsync": "/usr/bin/rsync"}}, None),  # one that does not say its version is tried
        ({"tools": {"rsync": None}}, "the host has no rsync"),
        ({"tools": {"rsync": "3.0.9"}}, "the host's rsync 3.0.9 is older than 3.1"),
        ({"tools": {"rsync": "2.6\x1b[2J"}}, "is older than 3.1"),
    ],
)
def test_what_a_host_said_of_its_rsync_rules_it_out_or_does_not(facts: Any, says: str | None) -> None:
    said = trouble_there(facts)
    assert (said is None) if says is None else (said is not None and says in said)
    assert "\x1b" not in (said or "")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'rsync  version 3.1.0  protocol version 31'", None),
        ("echo 'rsync  version 3.0.9  protocol version 30'", "armada cannot use this machine's rsync"),
        ("echo 'openrsync: protocol version 29'", "armada cannot use this machine's rsync"),
        (None, "no rsync on this machine"),
    ],
)
def test_this_machines_rsync_is_looked_at_before_it_is_used(
    script: str | None, says: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        (tmp_path / "rsync").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "rsync").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = trouble_here()
    assert (said is None) if says is None else (said is not None and says in said)
