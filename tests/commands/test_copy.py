"""`armada cp` on this machine; tests/fleet/test_access.py has SSH hosts."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from armada.errors import ArmadaError, LinkLost
from armada.transport.copying_files import fetch
from tests.conftest import Armada


@pytest.fixture
def work(armada: Armada) -> tuple[str, Path]:
    """A run that has ended, and its work folder."""
    run_id = str(armada.json("launch", "--host", "local", armada.command("true"))["run_id"])
    armada.await_end(run_id)
    return run_id, armada.local_runs / run_id / "work"


def test_files_and_folders_travel_both_ways(armada: Armada, work: tuple[str, Path]) -> None:
    run_id, folder = work
    (folder / "out" / "deep").mkdir(parents=True)
    (folder / "out" / "deep" / "größe 1.txt").write_text("1")
    (folder / "out" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "out" / "run.sh").chmod(0o755)
    (folder / "out" / "link.txt").symlink_to("deep/größe 1.txt")
    (folder / "out" / "loop").symlink_to(".")
    os.mkfifo(folder / "out" / "pipe")
    done = armada.run("cp", f"{run_id}:out", ".")
    assert done.returncode == 0, done.stderr
    here = armada.folder / "out"
    assert (here / "deep" / "größe 1.txt").read_text() == "1"
    assert (here / "link.txt").read_text() == "1"
    assert not (here / "link.txt").is_symlink()
    assert os.access(here / "run.sh", os.X_OK)
    assert not os.path.lexists(here / "loop")
    assert "3 files" in done.stdout
    assert "loop" in done.stderr
    assert "pipe" in done.stderr
    back = armada.json("cp", "out", f"{run_id}:copy")
    assert (back["files"], back["host"], back["left"]) == (3, "local", [])
    assert (folder / "copy" / "deep" / "größe 1.txt").read_text() == "1"
    assert not [path for path in folder.rglob("*") if "armada-" in path.name]


def test_a_file_is_replaced_and_a_folder_is_not(armada: Armada, work: tuple[str, Path]) -> None:
    run_id, folder = work
    (folder / "a").write_text("new")
    armada.write("a", "old")
    assert armada.run("cp", f"{run_id}:a", ".").returncode == 0
    assert (armada.folder / "a").read_text() == "new"
    armada.write("a", "newer")
    assert armada.run("cp", "a", f"{run_id}:").returncode == 0
    assert (folder / "a").read_text() == "newer"
    (folder / "d").mkdir()
    (folder / "d" / "x").write_text("x")
    (armada.folder / "d").mkdir()
    refused = armada.run("cp", f"{run_id}:d", ".")
    assert (refused.returncode, "is there already" in refused.stderr) == (8, True)
    (armada.folder / "d" / "x").write_text("here")
    refused = armada.run("cp", "d", f"{run_id}:")
    assert (refused.returncode, "is there already" in refused.stderr) == (8, True)
    assert (folder / "d" / "x").read_text() == "x"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("a", "b"), 2, "neither side is on a host"),
        (("local:a", "local:b"), 2, "both sides are on a host"),
        (("local:/no/such", "."), 7, "there is no /no/such on this host"),
        (("local:/etc/hostname", "no/such/folder/"), 2, "there is no folder no/such/folder/ here"),
        (("local:/etc/hostname", "no/such/name"), 7, "there is no folder no/such here"),
        (("missing", "local:"), 7, "there is no missing here"),
        (("exp.yaml", "local:/no/such/"), 7, "there is no folder /no/such on this host"),
        (("nowhere:a", "."), 7, "no host and no run is called 'nowhere'"),
    ],
)
def test_what_cannot_be_copied_is_said(armada: Armada, words: tuple[str, str], code: int, said: str) -> None:
    armada.command("true")
    done = armada.run("cp", *words)
    assert said in done.stderr
    assert done.returncode == code
    failed = armada.run("cp", *words, "--json")
    assert said in json.loads(failed.stdout)["error"]["message"]


class Says:
    """A way to a host whose program is a lie: it prints what a test wants."""

    folder = None

    def __init__(self, script: str) -> None:
        self._script = script

    def arguments(self, program: str | None, options: object = ()) -> list[str]:
        assert program is not None
        mark = json.loads(
            bytes.fromhex(program).decode().partition("asked = json.loads(")[2].partition(")\n")[0][1:-1]
        )["mark"]
        return ["sh", "-c", self._script, "sh", mark]


def archive(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(content), kind, "/etc/passwd"
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


HEAD = 'echo noise; echo "@@ARMADA-CP $1 {\\"name\\": \\"NAME\\", \\"is_folder\\": false, \\"files\\": 1, \\"size_bytes\\": 3}"; cat tar'


@pytest.mark.parametrize(
    ("name", "tar"),
    [
        ("../up", archive(("up", b"abc"))),
        ("x", archive(("../x", b"abc"))),
        ("x", archive(("/tmp/x", b"abc"))),
        ("x", archive(("x", b""), kind=tarfile.SYMTYPE)),
        ("x", archive(("x", b""), kind=tarfile.CHRTYPE)),
        ("x", archive(("x", b"abc"))[:700]),
        ("x", archive()),
        ("x", b"not a tar at all" * 100),
        ("x", archive(("y", b"abc"))),
    ],
)
def test_a_host_that_lies_writes_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tar: bytes
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "tar").write_bytes(tar)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ArmadaError, OSError)):
        fetch(Says(HEAD.replace("NAME", name)), {}, inside, lambda done, total: None)
    assert list(inside.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "tar"]


def test_a_host_that_leaves_is_said(tmp_path: Path) -> None:
    with pytest.raises(LinkLost, match=r"the copy broke off \(exit code 3\): bad day"):
        fetch(Says("echo bad day >&2; exit 3"), {}, tmp_path, lambda done, total: None)
