"""What the agent says of a host to the doctor, and what it measures a link with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from armada_agent.host.examination import is_temporary, parse_logind, parse_sshd
from armada_agent.host.mounts import Mount, choose, is_shared, parse

from tests.agent.conversation import Conversation, Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:26 / /tmp rw,nosuid,noexec shared:5 - tmpfs tmpfs rw,size=1g
31 22 0:50 / /data\040of\040mine ro,relatime - nfs4 server:/export rw,vers=4.2
32 22 0:51 / /tmp rw - fuse.sshfs me@there:/ rw
damaged line
"""


def test_a_host_is_examined_on_every_python(python: str, converse: Callable[..., Conversation], root: Path) -> None:
    (root / "code" / ".new-old").mkdir(parents=True)
    (root / "code" / ".new-old" / "part").write_bytes(b"x" * 1000)
    (root / "data").mkdir()
    (root / "data" / ".new-young").mkdir()
    os.utime(root / "code" / ".new-old", (1, 1))
    environment = {**os.environ, "LD_PRELOAD": "", "CONDA_PREFIX": "/opt/conda", "PYTHONPATH": "/no/such"}
    found = Host(converse(python, environment=environment)).call("host.examine")
    assert found["leftovers"] == {"count": 1, "size_bytes": 1000, "names": ["code/.new-old"]}
    assert {"CONDA_PREFIX", "PYTHONPATH"} <= set(found["variables"])
    assert "LD_PRELOAD" not in found["variables"]
    assert (found["root"]["problem"], found["root"]["has_locks"]) == (None, True)
    assert sorted(path.name for path in root.iterdir()) == ["code", "data"]


def test_the_umask_of_the_login_is_seen_although_the_agent_has_its_own(
    converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text('#!/bin/sh\numask 027\nexec python3 "$@"\n')
    wrapper.chmod(0o755)
    assert Host(converse(str(wrapper))).call("host.examine")["umask"] == "0027"


def test_a_probe_says_what_came(this_host: Host) -> None:
    answer = this_host.call("host.probe", send_bytes=0, padding="x" * 70_000)
    assert (answer["received_bytes"], answer["size_bytes"]) == (70_000, 0)


def test_the_mount_of_a_folder_is_the_last_one_over_its_longest_point() -> None:
    mounts = parse(MOUNTS)
    assert choose(mounts, "/home/me") == Mount("/", "ext4", ["errors=remount-ro", "relatime", "rw"])
    assert (choose(mounts, "/tmp/x") or mounts[0]).kind == "fuse.sshfs"
    assert (choose(mounts, "/tmpfile") or mounts[1]).point == "/"
    nfs = choose(mounts, "/data of mine/runs")
    assert nfs is not None
    assert (nfs.kind, "ro" in nfs.options, is_shared(nfs)) == ("nfs4", True, True)
    assert not is_shared(mounts[0])
    assert is_shared(None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, None)),
        ("MaxSessions 2\nmaxsessions 9\nMaxStartups 5:30:60 # few", (2, "5:30:60")),
        ("Match User x\n  MaxSessions 1", (None, None)),
        ("MaxSessions many\nMaxStartups $(x)", (None, None)),
    ],
)
def test_limits_of_sshd_are_read_where_they_can_be(text: str, expected: tuple[int | None, str | None]) -> None:
    assert parse_sshd(text) == expected


def test_of_several_words_about_logout_the_last_counts() -> None:
    assert parse_logind("[Login]\nKillUserProcesses=yes\n")
    assert not parse_logind("#KillUserProcesses=yes\n")
    assert not parse_logind("KillUserProcesses=yes\nKillUserProcesses=no\n")


def test_names_of_leftovers() -> None:
    assert [
        n for n in (".new-x", ".part-3", ".trash-a", ".x.1-2.tmp", "a.part", "spec.json", "part") if is_temporary(n)
    ] == [
        *(".new-x", ".part-3", ".trash-a", ".x.1-2.tmp", "a.part"),
    ]
