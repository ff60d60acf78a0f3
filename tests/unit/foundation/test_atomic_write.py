"""Files written whole or not at all: what is there after a success, a failure, a race."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from armada.foundation.atomic_write import replacing, rewrite_atomically, write_atomically, write_if_changed


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("content", ["text: ä\n", "text: ä\n".encode()])
@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_for_its_owner_alone(tmp_path: Path, content: str | bytes, durable: bool) -> None:
    write_atomically(tmp_path / "file", content, durable=durable)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "text: ä\n"
    assert mode(tmp_path / "file") == 0o600
    assert names(tmp_path) == ["file"]


def test_the_umask_is_taken_from_the_mode(tmp_path: Path) -> None:
    former = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "", mode=0o666)
    finally:
        os.umask(former)
    assert mode(tmp_path / "file") == 0o640


def test_a_durable_file_and_its_folder_are_forced_out_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: forced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    write_atomically(tmp_path / "file", "x", unique=False)
    assert forced == [".file.tmp", tmp_path.name]
    write_atomically(tmp_path / "file", "y", durable=False)
    assert len(forced) == 2


def test_a_disk_that_takes_nothing_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", "former")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "former"
    assert names(tmp_path) == ["file"]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing(tmp_path / "file") as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == []


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".file.tmp").write_text("half of something longer")
    write_atomically(tmp_path / "file", "whole", unique=False)
    assert (tmp_path / "file").read_text() == "whole"
    assert names(tmp_path) == ["file"]


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".file.tmp").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        write_atomically(tmp_path / "file", "x", unique=False)
    assert not (tmp_path / "elsewhere").exists()


def test_of_two_that_make_a_file_at_once_the_first_is_everybodys(tmp_path: Path) -> None:
    with replacing(tmp_path / "file", keep_first=True) as temporary:
        temporary.write_text("second")
        (tmp_path / "file").write_text("first")
    assert (tmp_path / "file").read_text() == "first"
    assert names(tmp_path) == ["file"]


def test_a_file_is_left_alone_that_is_right_already(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    write_if_changed(path, "text")
    first = path.stat().st_ino
    write_if_changed(path, "text")
    assert path.stat().st_ino == first
    path.chmod(0o644)
    write_if_changed(path, "text")
    assert mode(path) == 0o600


def test_a_file_that_is_shared_stays_shared(tmp_path: Path) -> None:
    shared = tmp_path / "file"
    rewrite_atomically(shared, "new")
    assert mode(shared) == 0o600
    shared.chmod(0o664)
    former = os.umask(0o077)
    try:
        rewrite_atomically(shared, "ä")
    finally:
        os.umask(former)
    assert (shared.read_text(encoding="utf-8"), mode(shared)) == ("ä", 0o664)
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_somebody_else_stays_theirs(tmp_path: Path) -> None:
    theirs = tmp_path / "file"
    theirs.write_text("old")
    os.chown(theirs, 1234, 2345)
    rewrite_atomically(theirs, "new")
    assert (theirs.stat().st_uid, theirs.stat().st_gid) == (1234, 2345)
