"""Environments that arrive at an agent: whatever the list says, nothing outside of its folder is read or written."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.provision import packing, relocation

from tests import standalone_python
from tests.agent.conversation import Conversation, Host, Refused

KEY = "cpu-1"
MINOR = "python{}.{}".format(*sys.version_info[:2])
SHA = hashlib.sha256(b"content").hexdigest()
PYTHON = {
    "version": "{}.{}.{}".format(*sys.version_info[:3]),
    "implementation": "cpython",
    "abi": "",
    "prefix": "/there",
    "standalone": None,
}


def build(root: Path) -> Path:
    folder = root / "envs" / KEY
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(Path(sys.base_prefix).resolve() / "bin" / MINOR)
    (folder / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n")
    package = folder / "lib" / MINOR / "site-packages"
    (package / "tiny-1.0.dist-info").mkdir(parents=True)
    (package / "tiny-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (package / "tiny-1.0.dist-info/RECORD").write_text("tiny.py,,\n")
    (package / "tiny.py").write_text("")
    (folder / "requirements.txt").write_text("tiny\n")
    (folder / "bin/é ü").write_text(f"#!{folder}/bin/python -E\n")
    (folder / "READY").write_text(json.dumps({"key": KEY, "python": PYTHON["version"], "time": 1.0, "freeze": ""}))
    return folder


def list_of(**changes: Any) -> dict[str, Any]:
    listed = {"format": 1, "key": KEY, "hostname": "a", "folders": ["/there/envs/cpu-1"], "python": PYTHON}
    listed |= {"machine": "x86_64", "libc": "glibc", "glibc": None, "modules": [], "freeze": "", "notes": []}
    return {**listed, "files": [["env/a.txt", 7, SHA, 0o644]], "links": [], **changes}


def stage(host: Host, listed: dict[str, Any]) -> str:
    """Put a list, and the file that it usually names, where arriving ones are; return the list's digest."""
    staging = host.root / "envs" / f".new-{KEY}"
    (staging / "env").mkdir(parents=True)
    (staging / "env/a.txt").write_bytes(b"content")
    content = json.dumps(listed).encode()
    (staging / "packed.json").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def test_an_environment_passes_through_two_agents(
    python: str, converse: Callable[..., Conversation], agent: Path, tmp_path: Path
) -> None:
    host = Host(converse(python))
    folder = build(host.root)
    packed = host.call("environment.pack", key=KEY)
    content = (host.root / f"envs/.packed-{KEY}-{packed['digest']}.json").read_bytes()
    assert (len(content), packed["failed"]) == (packed["list_bytes"], {})
    listed = json.loads(content)
    assert listed["modules"] == ["tiny"]
    others = Conversation(python, agent, tmp_path / "there")
    members = {"packed.json": content}
    members |= {name: (folder / name.removeprefix("env/")).read_bytes() for name, _, _, _ in listed["files"]}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    number = others.ask("environment.receive", {"key": KEY})
    others.write_raw(stream.getvalue())
    assert others.answer(number) == {"files": len(members)}
    there = Host(Conversation(python, agent, tmp_path / "there"))
    placed = there.call("environment.place", key=KEY, digest=packed["digest"])
    assert placed == {"ready": False, "listed": True, "python": True, "missing": [], "missing_bytes": 0}
    built = there.call("environment.unpack", key=KEY, digest=packed["digest"])
    assert built["outcome"] == "built"
    assert (tmp_path / "there/envs" / KEY / "bin/é ü").read_text() == f"#!{built['path']}/bin/python -E\n"
    assert there.call("environment.unpack", key=KEY, digest=packed["digest"])["outcome"] == "ready"
    assert there.call("environment.place", key=KEY, digest=packed["digest"])["ready"]
    assert there.conversation.hang_up() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"files": [["env/../../../x", 7, SHA, 0o644]]},
        {"files": [["/etc/x", 7, SHA, 0o644]]},
        {"files": [["other/x", 7, SHA, 0o644]]},
        {"files": [["env", 7, SHA, 0o644]]},
        {"files": [["env/READY", 7, SHA, 0o644]]},
        {"files": [["env/\u001b[31m", 7, SHA, 0o644]]},
        {"files": [["env/a.txt", -1, SHA, 0o644]]},
        {"files": [["env/a.txt", True, SHA, 0o644]]},
        {"files": [["env/a.txt", 7, "0", 0o644]]},
        {"files": [["env/a.txt", 7, SHA, 0o4755]]},
        {"files": {"env/a.txt": 7}},
        {"links": [["env/out", "../../x"]]},
        {"links": [["env/out", "/etc"]]},
        {"links": [["env/out", "../python/x"]]},
        {"links": [["env/sub/out", "a\u0000b"]]},
        {"python": {**PYTHON, "version": "3"}},
        {"python": {**PYTHON, "standalone": "../../x"}},
        {"python": {**PYTHON, "standalone": "cpython-3.11.7-linux-x86_64-gnu/.."}},
        {"folders": ["/"]},
        {"folders": [7]},
        {"modules": ["tiny", None]},
        {"hostname": None},
    ],
)
def test_a_list_that_names_anything_else_is_refused_before_it_is_used(this_host: Host, changes: dict[str, Any]) -> None:
    digest = stage(this_host, list_of(**changes))
    for method in ("environment.place", "environment.unpack"):
        with pytest.raises(Refused) as refused:
            this_host.call(method, key=KEY, digest=digest)
        assert refused.value.kind == "bad_request"
    assert this_host.call("environment.status", keys=[KEY]) == {KEY: "absent"}
    assert not (this_host.root / "envs" / f".{KEY}.claim").exists()


def test_a_python_that_is_not_here_is_named(this_host: Host) -> None:
    digest = stage(this_host, list_of(python={**PYTHON, "version": "3.99.1"}))
    assert this_host.call("environment.place", key=KEY, digest=digest)["python"] is False
    with pytest.raises(Refused, match=r"this host has no Python 3\.99") as refused:
        this_host.call("environment.unpack", key=KEY, digest=digest)
    assert refused.value.kind == "environment"
    assert "install Python 3.99 here" in (refused.value.hint or "")


def test_without_its_list_nothing_is_unpacked(this_host: Host) -> None:
    stage(this_host, list_of())
    with pytest.raises(Refused, match="no list of files has arrived"):
        this_host.call("environment.unpack", key=KEY, digest="0" * 64)
    placed = this_host.call("environment.place", key=KEY, digest="0" * 64)
    assert (placed["listed"], placed["missing"]) == (False, [])


def test_more_than_the_disk_holds_is_refused_before_it_is_sent(this_host: Host) -> None:
    digest = stage(this_host, list_of(python=base_of(this_host), files=[["env/large.bin", 2**53 - 1, SHA, 0o644]]))
    with pytest.raises(Refused, match="bytes free") as refused:
        this_host.call("environment.place", key=KEY, digest=digest)
    assert refused.value.kind == "disk_full"


def base_of(host: Host) -> dict[str, Any]:
    """What this machine's Python says of itself."""
    build(host.root)
    digest = host.call("environment.pack", key=KEY)["digest"]
    listed = json.loads((host.root / f"envs/.packed-{KEY}-{digest}.json").read_text())
    (host.root / "envs" / KEY / "READY").unlink()
    python: dict[str, Any] = listed["python"]
    return python


@pytest.mark.parametrize(
    "files",
    [
        [["env/../../x", 0, 1]],
        [["python/bin/python", 0, 1]],
        [["env/READY", 0, 1]],
        [["/etc/passwd", 0, 1]],
        [["env/a", -1, 1]],
        [["env/a", 0, True]],
        [["env/a", 0]],
        [],
        [["env/a", 0, 1]] * 4001,
    ],
)
def test_only_files_of_an_environment_are_read(this_host: Host, files: list[Any]) -> None:
    build(this_host.root)
    with pytest.raises(Refused) as refused:
        this_host.call("environment.read", key=KEY, digest="0" * 64, files=files)
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize("ready", [True, False])
def test_an_environment_that_is_not_ready_is_not_packed(this_host: Host, ready: bool) -> None:
    if ready:
        (build(this_host.root) / "READY").unlink()
    with pytest.raises(Refused, match="environment cpu-1 is not ready"):
        this_host.call("environment.pack", key=KEY)


def test_a_build_of_its_own_removes_what_arrived_before(converse: Callable[..., Conversation], tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PIP_NO_INDEX": "1"}
    host = Host(converse(environment=given))
    stage(host, list_of())
    params: dict[str, Any] = {"key": KEY, "requirements": "", "python": sys.base_prefix + "/bin/python3"}
    assert host.call("environment.ensure", **params)["outcome"] == "built"
    assert not (host.root / "envs" / f".new-{KEY}").exists()


def test_an_environment_for_other_hosts_is_built_with_uvs_own_python_alone(
    converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    given = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    given |= {"PIP_NO_INDEX": "1", "UV_PYTHON_DOWNLOADS": "never"}
    host = Host(converse(environment=given))
    params: dict[str, Any] = {"key": KEY, "requirements": "", "python": ">=3.11", "uvs_python": True}
    with pytest.raises(Refused, match=r"No interpreter found for Python >=3\.11 in managed installations"):
        host.call("environment.ensure", **params)
    own = host.root / "tools/python" / standalone_python.NAME
    standalone_python.copy(own)
    assert host.call("environment.ensure", **params)["outcome"] == "built"
    assert (host.root / "envs" / KEY / "bin/python").resolve() == own / "bin" / MINOR


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#!/old/env/bin/python", "#!{new}/bin/python"),
        ("#! /old/env/bin/python -E", "#!{new}/bin/python -E"),
        ("#!/usr/bin/env python", "#!/usr/bin/env python"),
        ("#!/old/env-2/bin/python", "#!/old/env-2/bin/python"),
        ("X=/old/env", "X={new}"),
    ],
)
def test_scripts_name_their_new_folder(tmp_path: Path, line: str, expected: str) -> None:
    script = tmp_path / "bin"
    script.write_text(line + "\nexec '/old/env/bin/python' /old/envious\n")
    relocation.relocate(str(tmp_path), ["bin"], ["/old/env"], "/n")
    assert script.read_text() == expected.format(new="/n") + "\nexec '/n/bin/python' /old/envious\n"


@pytest.mark.parametrize("new", ["/with a blank/env", "/" + "l" * 150])
def test_a_first_line_that_the_kernel_does_not_take_becomes_one_of_sh(tmp_path: Path, new: str) -> None:
    script = tmp_path / "bin"
    script.write_text("#!/old/env/bin/python -E\nprint()\n")
    relocation.relocate(str(tmp_path), ["bin"], ["/old/env"], new)
    first, second, third, rest = script.read_text().split("\n", 3)
    quoted = f"'{new}/bin/python'" if " " in new else f"{new}/bin/python"
    assert (first, second, third) == ("#!/bin/sh", f"'''exec' {quoted} -E \"$0\" \"$@\"", "' '''")
    assert rest == "print()\n"


def test_programs_are_left_alone_and_shared_files_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\x7fELF\0/old/env/bin")
    (tmp_path / "shared").write_text("/old/env/x")
    (tmp_path / "text").hardlink_to(tmp_path / "shared")
    assert relocation.relocate(str(tmp_path), ["bin", "text"], ["/old/env"], "/n") == ["text"]
    assert (tmp_path / "shared").read_text() == "/old/env/x"


@pytest.mark.parametrize(
    ("tags", "needed"),
    [
        (["cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"], "2.17"),
        (["cp311-cp311-manylinux_2_34_x86_64", "cp311-cp311-manylinux_2_28_x86_64"], "2.28"),
        (["cp36-abi3-manylinux1_x86_64"], "2.5"),
        (["py3-none-any"], None),
        (["nonsense", "cp311-cp311-linux_x86_64"], None),
    ],
)
def test_the_tags_of_wheels_say_which_c_library_they_need(tmp_path: Path, tags: list[str], needed: str | None) -> None:
    info = tmp_path / "lib/python3.11/site-packages/a-1.dist-info"
    info.mkdir(parents=True)
    (info / "WHEEL").write_text("".join(f"Tag: {tag}\n" for tag in tags))
    assert packing.needed_glibc(str(tmp_path)) == needed
