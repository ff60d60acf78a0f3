"""What a host says about itself, also when it has next to nothing."""

from __future__ import annotations

import getpass
import os
import socket
from typing import TYPE_CHECKING

import pytest
from armada_agent.host import limits
from armada_agent.host.telemetry import parse_meminfo

from tests.agent.conversation import Conversation, Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_facts_are_those_of_this_machine(host: Host) -> None:
    told = host.call("host.facts")
    assert told["hostname"] == socket.gethostname()
    assert told["user"] == getpass.getuser()
    assert told["cpu_count"] == len(os.sched_getaffinity(0))
    assert told["disk"]["total_bytes"] > told["disk"]["free_bytes"] > 0
    assert told["memory_bytes"] > 2**28
    assert told["platform"] == "linux"


def test_a_bare_host_has_facts_too(converse: Callable[..., Conversation], some_python: str) -> None:
    host = Host(converse(some_python, environment={"PATH": "/nowhere", "HOME": "/nowhere"}))
    told = host.call("host.facts")
    assert set(told["tools"].values()) == {None}
    assert told["gpus"] == []


def test_a_tool_that_only_pretends_to_be_there_is_not(converse: Callable[..., Conversation], tmp_path: Path) -> None:
    for name, text in {
        "rsync": "echo rsync  version 3.2.7  protocol version 31",
        "git": "exit 127",
        "uv": "exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    host = Host(converse(environment={"PATH": f"{tmp_path}:/bin", "HOME": "/nowhere"}))
    tools = host.call("host.facts")["tools"]
    assert (tools["rsync"], tools["git"], tools["uv"]) == ("3.2.7", None, None)


def limit(mount: Path, path: str, name: str, text: str) -> None:
    folder = mount / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n")


@pytest.mark.parametrize(
    ("own", "places", "expected"),
    [
        ("0::/a/b\n", [("a/b", "memory.max", "max"), ("a", "memory.max", "4096")], 4096),
        ("0::/a/b\n", [("a/b", "memory.max", "1024"), ("a", "memory.max", "4096")], 1024),
        ("0::/not/mounted/here\n", [("", "memory.max", "8192")], 8192),
        ("0::/../../x\n", [("x", "memory.max", "512")], 512),
        ("5:memory:/job\n1:name=systemd:/x\n", [("memory/job", "memory.limit_in_bytes", "2048")], 2048),
        ("5:cpu,memory:/docker/1\n", [("memory", "memory.limit_in_bytes", "2048")], 2048),
        ("5:memory:/job\n", [("memory/job", "memory.limit_in_bytes", "9223372036854771712")], None),
        ("0::/\n", [], None),
    ],
)
def test_a_containers_limit_counts_when_it_is_lower(
    tmp_path: Path, own: str, places: list[tuple[str, str, str]], expected: int | None
) -> None:
    (tmp_path / "own").write_text(own)
    for path, name, text in places:
        limit(tmp_path / "fs", path, name, text)
    machine = limits.memory_bytes(str(tmp_path / "none"), str(tmp_path / "none"))
    assert limits.memory_bytes(str(tmp_path / "fs"), str(tmp_path / "own")) == (expected or machine)


def test_meminfo_is_in_bytes() -> None:
    assert parse_meminfo("MemTotal:  100 kB\nHugePages_Total: 0\n") == {"MemTotal": 102400}


def test_the_load_is_measured_without_asking_every_tool(host: Host) -> None:
    told = host.call("host.load")
    assert told["disk"]["total_bytes"] > told["disk"]["free_bytes"] > 0
    assert told["load1"] >= 0
    assert told["memory_used_bytes"] > 2**20
