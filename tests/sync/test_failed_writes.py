"""A write that home's disk refuses later, in the background: those bytes are in the kernel's cache and on no disk.

Linux tells such an error to one fsync of those who open the file later, and the cache goes on to show the right bytes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from armada.sync.checkpoints.repair import repair
from armada.sync.checkpoints.verify import look_over
from armada.sync.transfer import block_writer
from armada.sync.transfer.block_writer import BlockWriter
from armada.sync.transfer.interface import File
from tests.sync.conftest import Place, both_ways
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a descriptor's name is read from Linux's /proc")
NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


class ThinDisk:
    """A disk that has no place for the first of the files with these names, and says so to the first who asks."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._lost: list[int] = []
        self._fsync = os.fsync

    def fsync(self, descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if name in self.names and not self._is_lost(os.fstat(descriptor)):
            self.names.remove(name)
            self._lost.append(os.dup(descriptor))  # so that its inode is not another file's later
            raise NO_SPACE
        self._fsync(descriptor)

    def lacks(self, path: Path) -> bool:
        """Whether the bytes of a file are in the cache alone."""
        return self._is_lost(path.stat())

    def _is_lost(self, found: os.stat_result) -> bool:
        return any(os.path.samestat(found, os.fstat(lost)) for lost in self._lost)

    def close(self) -> None:
        for descriptor in self._lost:
            os.close(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThinDisk]:
    with contextlib.closing(ThinDisk()) as disk:
        monkeypatch.setattr(os, "fsync", disk.fsync)
        yield disk


@both_ways
def test_a_checkpoint_that_is_not_on_the_disk_is_fetched_again(place: Place, disk: ThinDisk) -> None:
    place.create()
    place.save(1, {"tok": b"tokenizer", "w": b"weights"})
    disk.names = {"w"}
    outcome = place.sync(insist=True)
    assert [trouble.cause for trouble in outcome.troubles] == ["disk_home"]
    assert place.home_steps() == []
    assert not place.sync(insist=True).troubles
    assert place.home_steps() == [1]
    assert not disk.lacks(place.published / "checkpoint-1" / "w")


def test_a_folder_that_is_not_on_the_disk_is_fetched_again(place: Place, disk: ThinDisk) -> None:
    place.create()
    place.save(1, {"inner/w": b"weights"})
    disk.names = {"inner"}
    assert place.sync(insist=True).troubles
    assert not place.sync(insist=True).troubles
    assert not disk.lacks(place.published / "checkpoint-1" / "inner")


def test_a_repair_that_is_not_on_the_disk_is_made_again(place: Place, disk: ThinDisk) -> None:
    place.create()
    place.save(1, {"tok": b"tokenizer", "w": b"weights"})
    place.sync()
    weights = place.published / "checkpoint-1" / "w"
    weights.unlink()
    (finding,) = look_over(place.database, place.run_id, read_data=True, told=lambda _: None)
    disk.names = {"w"}
    with pytest.raises(OSError, match="No space"):
        repair(place.context, finding, lambda _: None)
    assert not weights.exists()
    assert repair(place.context, finding, lambda _: None).good
    assert not disk.lacks(weights)


def test_an_output_that_is_not_on_the_disk_is_fetched_again(place: Place, disk: ThinDisk) -> None:
    place.create()
    (place.remote / "output.log").write_text("step 1\n")
    disk.names = {"output.log"}
    assert [trouble.cause for trouble in place.sync(insist=True).troubles] == ["disk_home"]
    assert not place.sync(insist=True).troubles
    assert (place.outputs / "output.log").read_text() == "step 1\n"
    assert not disk.lacks(place.outputs / "output.log")


def _two(folder: Path) -> tuple[BlockWriter, tuple[File, File]]:
    """Two files of three bytes that are to come."""
    first, second = (File(name, 3, hashlib.sha256(name.encode()).hexdigest()) for name in ("one", "two"))
    return BlockWriter(folder / "staging", folder / "staging.blocks", [first, second]), (first, second)


def _bring(writer: BlockWriter, index: int) -> None:
    writer.write(index, 0, writer.files[index].path.encode())
    writer.finish_block(index, 0)


def _end(writer: BlockWriter) -> list[File]:
    _bring(writer, 1)
    return writer.wrong()


def _is_hashing() -> bool:
    return any(thread.name == "hashing what arrives" for thread in threading.enumerate())


def test_an_error_of_an_early_flush_ends_the_download_and_its_file_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [NO_SPACE]

    def flush(_: int) -> None:
        if refused:
            raise refused.pop()

    monkeypatch.setattr(block_writer, "_FLUSH_EVERY_BYTES", 1)
    monkeypatch.setattr(block_writer, "_sync_data", flush)
    writer, _ = _two(tmp_path)
    with contextlib.closing(writer):
        _bring(writer, 0)
        eventually(lambda: not (tmp_path / "staging" / "one").exists(), "the file that the disk refused is deleted")
        with pytest.raises(OSError, match=r"No space left on device.*one"):
            _end(writer)
    writer, _ = _two(tmp_path)
    with contextlib.closing(writer):
        assert (0, 0) in writer.missing


def test_a_download_ends_only_once_its_early_flush_has_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def flush(_: int) -> None:
        asked.set()
        answer.wait()
        raise NO_SPACE

    monkeypatch.setattr(block_writer, "_FLUSH_EVERY_BYTES", 1)
    monkeypatch.setattr(block_writer, "_sync_data", flush)
    writer, _ = _two(tmp_path)
    with contextlib.closing(writer), ThreadPoolExecutor(1) as pool:
        _bring(writer, 0)
        asked.wait()
        _bring(writer, 1)
        wrong = pool.submit(writer.wrong)
        eventually(lambda: not _is_hashing(), "everything is hashed")
        answer.set()
        with pytest.raises(OSError, match="No space"):
            wrong.result()
