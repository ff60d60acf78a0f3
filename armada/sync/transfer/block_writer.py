"""Write files that arrive in blocks, in any order, over several streams, and hash them meanwhile.

Each byte is hashed after it was written, so a correct hash confirms what lies in the file. A journal beside the staging
folder records which blocks are complete: a transfer that was killed at any point continues with the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.sync.transfer.interface import File

BLOCK_BYTES = 4 << 20
_FLUSH_EVERY_BYTES = 128 << 20
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class BlockWriter:
    """The state of some files of one staging folder while they are fetched.

    Args:
        staging: The folder; created if missing, in one that is there.
        journal: The file that records complete blocks.
        files: The files that should be there in the end.
    """

    def __init__(self, staging: Path, journal: Path, files: Sequence[File]) -> None:
        self.files = list(files)
        self._staging = staging
        self._condition = threading.Condition()
        self._error: BaseException | None = None
        self._verdicts: dict[int, bool] = {}
        self._descriptors: list[int] = []
        staging.mkdir(mode=0o700, exist_ok=True)
        self._journal = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        kept = read_journal(self._journal)
        self._whole = [self._prepare(file, kept.get(file.path, set())) for file in self.files]
        self.missing = deque(
            (index, block)
            for index, file in enumerate(self.files)
            for block in range(blocks_in(file.size))
            if block not in self._whole[index]
        )
        self._unflushed_bytes = 0
        # A reused buffer of a whole block: for each piece the hasher waits for the GIL, which many threads want.
        self._buffer = bytearray(BLOCK_BYTES)
        self._hasher = threading.Thread(target=self._hash_all, name="hashing what arrives", daemon=True)
        self._flusher = threading.Thread(target=self._flush, name="writing what arrived to disk", daemon=True)
        self._hasher.start()
        self._flusher.start()

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def length(self, index: int, block: int) -> int:
        return min(BLOCK_BYTES, self.files[index].size - block * BLOCK_BYTES)

    def write(self, index: int, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at their place. Raises OSError, such as ENOSPC."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptors[index], view, offset)
            offset += written
            view = view[written:]

    def finish_block(self, index: int, block: int) -> None:
        """Record that every byte of a block was written. Raises OSError if the disk has refused some bytes since."""
        if self._error is not None:
            raise self._error
        os.write(self._journal, f"{block} {self.files[index].path}\n".encode())
        with self._condition:
            self._whole[index].add(block)
            self._unflushed_bytes += self.length(index, block)
            self._condition.notify_all()

    def wrong(self) -> list[File]:
        """Wait until everything is hashed; delete wrong files from staging and return them.

        Raises:
            ValueError: Some bytes have not arrived yet.
            OSError: The disk refused some bytes; their file is deleted from staging.
        """
        if any(len(whole) < blocks_in(file.size) for whole, file in zip(self._whole, self.files, strict=True)):
            raise ValueError("not everything has arrived")
        self._hasher.join()
        with self._condition:
            self._condition.notify_all()
        self._flusher.join()  # it may be waiting for the disk's answer
        if self._error is not None:
            raise self._error
        found = [self.files[index] for index, right in self._verdicts.items() if not right]
        for file in found:
            self._delete(file)
        return found

    def close(self) -> None:
        """Stop hashing and close the files; the received bytes stay."""
        with self._condition:
            self._error = self._error or InterruptedError("the download was abandoned")
            self._condition.notify_all()
        for thread in (self._hasher, self._flusher):
            thread.join()
        # Their numbers may be those of other files as soon as they are closed: nobody must find them here.
        descriptors, self._descriptors, self._journal = [*self._descriptors, self._journal], [], -1
        for descriptor in descriptors:
            os.close(descriptor)

    def _delete(self, file: File) -> None:
        """Delete a file from staging: it is fetched again, into other places of the disk."""
        os.write(self._journal, f"- {file.path}\n".encode())
        (self._staging / file.path).unlink(missing_ok=True)

    def _prepare(self, file: File, kept: set[int]) -> set[int]:
        """Open a file of the right size; return the blocks of it that are complete already."""
        path = self._staging / file.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            # A hard link into a published checkpoint must never be written through, nor anything but a regular file.
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size != file.size:
                path.unlink()
                kept = set()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._descriptors.append(descriptor)
        if os.fstat(descriptor).st_size != file.size:
            kept = set()
            os.ftruncate(descriptor, file.size)
        return {block for block in kept if block < blocks_in(file.size)}

    def _hash_all(self) -> None:
        try:
            for index, file in enumerate(self.files):
                self._verdicts[index] = self._hash(index) == file.sha256
        except BaseException as error:
            with self._condition:
                self._error = self._error or error

    def _hash(self, index: int) -> str:
        digest = hashlib.sha256()
        stream = io.FileIO(
            self._descriptors[index], closefd=False
        )  # its file position is not shared: the others give an offset
        for block in range(blocks_in(self.files[index].size)):
            with self._condition:
                self._condition.wait_for(lambda: block in self._whole[index] or self._error)  # noqa: B023  # waited for here
                if self._error:
                    raise self._error
            left = memoryview(self._buffer)[: self.length(index, block)]
            stream.seek(block * BLOCK_BYTES)
            while left:
                try:
                    size = stream.readinto(left)
                except OSError:
                    return ""  # a bad sector: what is fetched again gets other ones
                if not size:
                    return ""  # somebody truncated the file meanwhile
                digest.update(left[:size])
                left = left[size:]
        return digest.hexdigest()

    def _flush(self) -> None:
        """Write received bytes to the disk early, so that the last fsync has little left to wait for.

        The kernel tells an error once: the last fsync would not hear of it, and the cache would still show the right bytes.
        """
        while True:
            with self._condition:
                self._condition.wait_for(
                    lambda: self._error or self._unflushed_bytes >= _FLUSH_EVERY_BYTES or not self._hasher.is_alive(),
                    1.0,
                )
                if self._error or not self._hasher.is_alive():
                    return
                if self._unflushed_bytes < _FLUSH_EVERY_BYTES:
                    continue
                self._unflushed_bytes = 0
            for file, descriptor in zip(self.files, self._descriptors, strict=True):
                try:
                    _sync_data(descriptor)
                except OSError as error:
                    self._give_up(file, error)
                    return

    def _give_up(self, file: File, error: OSError) -> None:
        """Delete a file that the disk refused, and end the download with the reason."""
        try:
            self._delete(file)
        except OSError as another:
            error = another
        with self._condition:
            self._error = self._error or OSError(error.errno, error.strerror, str(self._staging / file.path))
            self._condition.notify_all()


def blocks_in(size: int) -> int:
    """Return the number of blocks of a file with so many bytes."""
    return -(-size // BLOCK_BYTES)


def read_journal(descriptor: int) -> dict[str, set[int]]:
    """Return the complete blocks by file; a line cut off by a kill is ignored."""
    with open(descriptor, "rb", closefd=False) as stream:
        stream.seek(0)
        content = stream.read().decode("utf-8", "replace")
    kept: dict[str, set[int]] = {}
    for line in content.split("\n")[:-1]:
        word, _, path = line.partition(" ")
        if word == "-":
            kept.pop(path, None)
        elif word.isdecimal():
            kept.setdefault(path, set()).add(int(word))
    if content and not content.endswith("\n"):
        os.write(descriptor, b"\n")
    return kept
