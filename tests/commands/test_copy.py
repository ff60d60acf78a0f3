"""`armada cp` on this machine; tests/fleet/test_access.py has SSH hosts."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import armada_agent
import pytest
from armada_agent.runs import copying

from armada.cli.main import run
from armada.errors import ArmadaError, LinkLost
from armada.transport.copying_files import fetch, send
from armada.transport.terminal import LocalWay
from tests.conftest import Armada
from tests.waiting import eventually


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


def test_the_line_of_progress_is_gone_before_the_result_is_said(
    armada: Armada, work: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    run_id, folder = work
    (folder / "a").write_text("new")
    for name, value in armada.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(armada.folder)
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    assert run(["cp", f"{run_id}:a", "here"]) == 0
    assert "1 file" in capsys.readouterr().out
    assert " cp " in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


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
        fetch(Says(HEAD.replace("NAME", name)), {"path": name}, inside, lambda done, total: None)
    assert list(inside.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "tar"]


def test_a_host_that_leaves_is_said(tmp_path: Path) -> None:
    with pytest.raises(LinkLost, match=r"the copy broke off \(exit code 3\): bad day"):
        fetch(Says("echo bad day >&2; exit 3"), {}, tmp_path, lambda done, total: None)


@pytest.mark.parametrize("path", ["results.json", "out/../results.json", ".", "", "..", "~", "~me", "/"])
def test_a_host_cannot_choose_which_file_here_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "tar").write_bytes(archive((".bashrc", b"abc")))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / ".bashrc").write_text("mine")
    monkeypatch.chdir(tmp_path)
    for said in (HEAD, HEAD.replace("false", "true")):
        with pytest.raises(ArmadaError):
            fetch(Says(said.replace("NAME", ".bashrc")), {"path": path}, tmp_path / "here", lambda done, total: None)
    assert [each.read_text() for each in (tmp_path / "here").iterdir()] == ["mine"]


def test_an_interrupted_copy_leaves_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(4_000_000))
    there = tmp_path / "there"
    there.mkdir()
    (there / "big").write_text("old")

    def interrupt(done: int, total: int) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    asked = {"agent": str(Path(armada_agent.__file__).parents[1]), "root": "/", "run_id": None, "path": str(there)}
    with pytest.raises(KeyboardInterrupt):
        send(LocalWay(), asked, tmp_path / "big", interrupt)
    # The receiver deletes what it has so far when it notices that the sender is gone.
    eventually(lambda: [path.name for path in there.iterdir()] == ["big"])
    assert (there / "big").read_text() == "old"


def test_a_file_that_disappears_while_it_is_copied_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    gone = tmp_path / "out" / "gone"
    gone.write_text("a")
    opened = tarfile.open

    def delete_and_open(*words: Any, **named: Any) -> Any:
        gone.unlink()
        return opened(*words, **named)

    monkeypatch.setattr(tarfile, "open", delete_and_open)
    assert copying.send({"root": "/", "run_id": None, "path": str(tmp_path / "out"), "mark": "m"}) == 1
    assert capfd.readouterr().err == f"{gone} changed while it was copied: No such file or directory\n"


@pytest.mark.parametrize("said", ["[1]", "7", "{", '{"name": 7}', "null"])
def test_an_answer_that_is_none_is_said(tmp_path: Path, said: str) -> None:
    script = f"printf '@@ARMADA-CP %s %s\\n' $1 '{said}'"
    with pytest.raises(ArmadaError):
        fetch(Says(script), {"path": "x"}, tmp_path, lambda done, total: None)
    assert list(tmp_path.iterdir()) == []


def test_a_private_file_stays_private(armada: Armada, work: tuple[str, Path]) -> None:
    run_id, folder = work
    (folder / "keys").mkdir(mode=0o700)
    (folder / "keys" / "key").write_text("k")
    (folder / "keys" / "key").chmod(0o600)
    assert armada.run("cp", f"{run_id}:keys", ".").returncode == 0
    assert armada.run("cp", "keys", f"{run_id}:copy").returncode == 0
    for top in (armada.folder / "keys", folder / "copy"):
        assert [path.stat().st_mode & 0o777 for path in (top, top / "key")] == [0o700, 0o600]


def test_a_pipe_or_device_is_neither_read_nor_replaced(armada: Armada, work: tuple[str, Path]) -> None:
    run_id, folder = work
    for place in (folder, armada.folder):
        os.mkfifo(place / "pipe")
        (place / "file").write_text("x")
    for words in [
        ("file", f"{run_id}:pipe"),
        (f"{run_id}:file", "pipe"),
        (f"{run_id}:pipe", "new"),
        ("pipe", f"{run_id}:new"),
    ]:
        done = armada.run("cp", *words)
        assert done.returncode != 0
        assert "pipe is neither a file nor a folder" in done.stderr.replace(" on this host", "")
    assert (folder / "pipe").is_fifo()
    assert (armada.folder / "pipe").is_fifo()


def test_a_link_is_replaced_and_what_it_leads_to_stays(armada: Armada, work: tuple[str, Path]) -> None:
    run_id, folder = work
    for place in (folder, armada.folder):
        (place / "kept").write_text("kept")
        (place / "link").symlink_to("kept")
        (place / "new").write_text("new")
    assert armada.run("cp", "new", f"{run_id}:link").returncode == 0
    assert armada.run("cp", f"{run_id}:new", "link").returncode == 0
    for place in (folder, armada.folder):
        assert ((place / "kept").read_text(), (place / "link").read_text()) == ("kept", "new")
