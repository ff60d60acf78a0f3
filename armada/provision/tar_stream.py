"""Send contents as a tar stream through the agent, for hosts without rsync. They are verified in the same way."""

from __future__ import annotations

import os
import stat
import tarfile
import time
from contextlib import closing
from typing import IO, TYPE_CHECKING, cast

from armada.errors import ProvisionFailed
from armada.foundation.progress import TransferProgress
from armada.protocol.content import ListStaged, ReceiveContent
from armada.transport.copying import regular_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.provision.content import Content
    from armada.rpc.session import HostSession

_OFFSET = "ARMADA.offset"
_PIECE_BYTES = 10_240 * 25
"""A multiple of tar's records: a reader of whole records then never waits for missing bytes."""


def pour(session: HostSession, content: Content, progress: Callable[[TransferProgress], None]) -> None:
    """Send the part of a content that is not staged on the host yet; an interrupted transfer resumes in the middle of its file.

    Raises:
        NotFound, ProvisionFailed: A file is gone, or changed during the transfer; the host has no space.
        HostUnreachable: The link stayed down.
    """
    regular_sizes(content.source, content.files, host=session.host.name)
    session.persist(lambda: _pour_once(session, content, progress))


def _pour_once(session: HostSession, content: Content, progress: Callable[[TransferProgress], None]) -> None:
    staged = dict(session.call(ListStaged(kind=content.kind, sha=content.sha)).files)
    sizes = {path: size for path, size, _, _ in content.manifest}
    # A file longer than expected is a different one: it is sent from its beginning.
    offsets = {path: staged[path] if staged.get(path, size + 1) <= size else 0 for path, size in sizes.items()}
    missing = [path for path, size in sizes.items() if path not in staged or offsets[path] < size]
    if not missing:
        return
    request = ReceiveContent(kind=content.kind, sha=content.sha)
    report = _Report(content.size_bytes, sum(offsets.values()), progress)
    with closing(session.open_stream()) as stream:
        stream.pour(request, lambda write: _fill(content, missing, offsets, sizes, write, report))


class _Report:
    def __init__(self, total_bytes: int, done_bytes: int, progress: Callable[[TransferProgress], None]) -> None:
        self._total_bytes = total_bytes
        self._before_bytes = self._done_bytes = done_bytes
        self._progress = progress
        self._began = time.monotonic()

    def add(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        elapsed_s = time.monotonic() - self._began
        rate = (self._done_bytes - self._before_bytes) / elapsed_s if elapsed_s > 0 else None
        self._progress(TransferProgress(self._done_bytes, self._total_bytes, rate))


class Sink:
    """The file object that tarfile writes to."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._send = write

    def write(self, data: bytes) -> int:
        self._send(data)
        return len(data)


class _Source:
    """Part of a file, exactly as long as its tar header says."""

    def __init__(self, path: str, descriptor: int, report: _Report) -> None:
        self._path = path
        self._descriptor = descriptor
        self._report = report

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = os.read(self._descriptor, size - len(data))
            if not piece:
                raise ProvisionFailed(f"{self._path} became shorter while it was sent", hint="run it again")
            data += piece
        self._report.add(len(data))
        return data


def _fill(
    content: Content,
    missing: list[str],
    offsets: dict[str, int],
    sizes: dict[str, int],
    write: Callable[[bytes], None],
    report: _Report,
) -> None:
    with tarfile.open(
        fileobj=cast("IO[bytes]", Sink(write)),
        mode="w|",
        format=tarfile.PAX_FORMAT,
        bufsize=_PIECE_BYTES,
        encoding="utf-8",
    ) as tar:
        for path in missing:
            descriptor = os.open(content.source / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ProvisionFailed(f"{content.source / path} is no longer a regular file", hint="run it again")
                os.lseek(descriptor, offsets[path], os.SEEK_SET)
                member = tarfile.TarInfo(path)
                member.size = sizes[path] - offsets[path]
                member.mode = 0o600
                if offsets[path]:
                    member.pax_headers = {_OFFSET: str(offsets[path])}
                tar.addfile(member, cast("IO[bytes]", _Source(path, descriptor, report)))
            finally:
                os.close(descriptor)
