"""Carry the files of an environment from one host to another through home, which keeps none of them.

The source's bytes go into a tar stream for the target. After a broken link, on either side, the target says what it has.
"""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
import time
from contextlib import closing
from typing import IO, TYPE_CHECKING, cast

from armada.errors import ArmadaError, HostUnreachable, ProvisionFailed
from armada.foundation.progress import TransferProgress
from armada.protocol.message import parse
from armada.protocol.packing import PackingList, PlaceEnvironment, ReadEnvironment, ReceiveEnvironment
from armada.provision.tar_stream import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from armada.protocol.packing import MissingFiles, PackedEnvironment
    from armada.rpc.byte_stream import Stream
    from armada.rpc.session import HostSession

LIST = "packed.json"
PLACE_S = 600.0
_OFFSET = "ARMADA.offset"
_PIECE_BYTES = 10_240 * 25
"""A multiple of tar's records: a reader of whole records then never waits for missing bytes."""
_BATCH_BYTES = 64_000_000
_BATCH_FILES = 2000
_LONGEST_LIST_BYTES = 256_000_000

Part = tuple[str, int, int]
"""Of a file: its path, an offset in bytes, and a length in bytes."""


def read_list(source: HostSession, key: str, packed: PackedEnvironment) -> tuple[bytes, PackingList]:
    """Fetch the list of an environment from the host that has it.

    Raises:
        ProvisionFailed: It is too long, or another one than was announced.
        UnexpectedAnswer: It is not a list of an environment.
        HostUnreachable: The link stayed down.
    """
    name = source.host.name
    if packed.list_bytes > _LONGEST_LIST_BYTES:
        raise ProvisionFailed(f"its list of environment {key} has {packed.list_bytes:,} bytes", host=name)

    def fetch() -> bytes:
        with closing(source.open_stream()) as stream:
            _ask(stream, ReadEnvironment(key=key, digest=packed.digest, files=((LIST, 0, packed.list_bytes),)), name)
            return _take(stream, packed.list_bytes)

    content = source.persist(fetch)
    if hashlib.sha256(content).hexdigest() != packed.digest:
        raise ProvisionFailed(
            f"the list of environment {key} did not arrive as announced", hint="run it again", host=name
        )
    listed = parse(PackingList, _as_json(content), host=name, method="environment.pack")
    if listed.key != key:
        raise ProvisionFailed(f"it sent the list of environment {listed.key}, not of {key}", host=name)
    return content, listed


def carry(
    source: HostSession,
    target: HostSession,
    key: str,
    packed: PackedEnvironment,
    content: bytes,
    listed: PackingList,
    progress: Callable[[TransferProgress], None],
) -> None:
    """Send what the target lacks of an environment; nothing if it is ready there by now.

    Args:
        source: The host that has the environment.
        target: The host that gets it.
        key: Its name there.
        packed: The source's description of it.
        content: Its list, as it was fetched.
        listed: The same, parsed.
        progress: Receives the progress.

    Raises:
        NoPythonThere: The target has no Python for it.
        ProvisionFailed: The target has no space.
        HostUnreachable: A link stayed down; what has arrived stays.
    """

    def place() -> MissingFiles:
        return target.call(PlaceEnvironment(key=key, digest=packed.digest), timeout_s=PLACE_S)

    def send() -> None:
        asked = place()
        if not asked.ready and not asked.listed:
            _pour(target, key, lambda tar: _add(tar, LIST, 0, len(content), _Bytes(content)))
            asked = place()
        if not asked.python:
            raise NoPythonThere(
                f"it has no Python {listed.python.version.rpartition('.')[0]} ({listed.python.abi}), which the "
                f"environment from {source.host.name} needs",
                hint="install it there",
                host=target.host.name,
            )
        if asked.ready or not asked.missing:
            return
        parts = list(_parts(listed, asked, target.host.name))
        report = _Report(sum(length for _, _, length in parts), progress)
        try:
            source.persist(lambda: relay(report))
        except _TargetLost as lost:
            raise lost.error from None

    def relay(report: _Report) -> None:
        try:
            _relay(source, target, key, packed.digest, place, listed, report)
        except HostUnreachable as error:
            # A link of the source is opened again by its own session. This one is the target's.
            if error.host == target.host.name:
                raise _TargetLost(error) from error
            raise

    target.persist(send)


class NoPythonThere(ProvisionFailed):
    """A host has no Python for an environment, and none comes with it."""


class _SourceLost(Exception):  # named by what happened; no LinkLost, after which the target would be asked why
    def __init__(self, error: ArmadaError) -> None:
        super().__init__(error.message)
        self.error = error


class _TargetLost(Exception):  # named by what happened
    def __init__(self, error: HostUnreachable) -> None:
        super().__init__(error.message)
        self.error = error


def _relay(
    source: HostSession,
    target: HostSession,
    key: str,
    digest: str,
    place: Callable[[], MissingFiles],
    listed: PackingList,
    report: _Report,
) -> None:
    asked = place()
    parts = list(_parts(listed, asked, target.host.name))
    if asked.ready or not parts:
        return
    report.left(sum(length for _, _, length in parts))
    with closing(source.open_stream()) as stream:

        def fill(tar: tarfile.TarFile) -> None:
            for batch in _batches(parts):
                with _of_source():
                    _ask(stream, ReadEnvironment(key=listed.key, digest=digest, files=tuple(batch)), source.host.name)
                for path, offset, length in batch:
                    _add(tar, path, offset, length, _Arriving(stream, report))

        try:
            _pour(target, key, fill)
        except _SourceLost as lost:
            raise lost.error from None


@contextlib.contextmanager
def _of_source() -> Iterator[None]:
    try:
        yield
    except ArmadaError as error:
        raise _SourceLost(error) from error


def _pour(target: HostSession, key: str, fill: Callable[[tarfile.TarFile], None]) -> None:
    def write_all(write: Callable[[bytes], None]) -> None:
        with tarfile.open(
            fileobj=cast("IO[bytes]", Sink(write)),
            mode="w|",
            format=tarfile.PAX_FORMAT,
            bufsize=_PIECE_BYTES,
            encoding="utf-8",
        ) as tar:
            tar.copybufsize = _PIECE_BYTES  # type: ignore[attr-defined]  # of tarfile's, without a place in typeshed
            fill(tar)

    with closing(target.open_stream()) as stream:
        stream.pour(ReceiveEnvironment(key=key), write_all)


def _add(tar: tarfile.TarFile, path: str, offset: int, length: int, content: _Bytes | _Arriving) -> None:
    member = tarfile.TarInfo(path)
    member.size = length
    member.mode = 0o600
    if offset:
        member.pax_headers = {_OFFSET: str(offset)}
    tar.addfile(member, cast("IO[bytes]", content))


def _parts(listed: PackingList, asked: MissingFiles, host: str) -> Iterator[Part]:
    """Yield what is missing of each file.

    Raises:
        ProvisionFailed: The target names files that are not in the list.
    """
    for first, end, offset in asked.missing:
        if not first < end <= len(listed.files) or offset > listed.files[first][1]:
            raise ProvisionFailed("it asks for files that the environment has not", host=host)
        for number in range(first, end):
            path, size, _, _ = listed.files[number]
            begin = offset if number == first else 0
            yield path, begin, size - begin


def _batches(parts: Sequence[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    size = 0
    for part in parts:
        if batch and (size + part[2] > _BATCH_BYTES or len(batch) == _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part[2]
    if batch:
        yield batch


def _ask(stream: Stream, request: ReadEnvironment, host: str) -> None:
    size, wanted = stream.request(request).size_bytes, sum(length for _, _, length in request.files)
    if size != wanted:
        raise ProvisionFailed(f"it sends {size} bytes of an environment, where {wanted} were asked for", host=host)


def _take(stream: Stream, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        content += stream.read(size - len(content))
    return bytes(content)


def _as_json(content: bytes) -> object:
    import json

    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


class _Report:
    def __init__(self, total_bytes: int, progress: Callable[[TransferProgress], None]) -> None:
        self._total_bytes = total_bytes
        self._done_bytes = self._sent_bytes = 0
        self._progress = progress
        self._began = time.monotonic()

    def left(self, size_bytes: int) -> None:
        """Say how much is still to come: after a broken link, what was sent before has arrived or not."""
        self._done_bytes = self._total_bytes - size_bytes

    def add(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        self._sent_bytes += size_bytes
        elapsed_s = time.monotonic() - self._began
        rate = self._sent_bytes / elapsed_s if elapsed_s > 0 else None
        self._progress(TransferProgress(self._done_bytes, self._total_bytes, rate))


class _Bytes:
    """A file object that tarfile reads bytes from."""

    def __init__(self, content: bytes) -> None:
        self._left = memoryview(content)

    def read(self, size: int) -> bytes:
        part, self._left = self._left[:size], self._left[size:]
        return bytes(part)


class _Arriving:
    """A file object that tarfile reads a file from while it arrives. The tar header says how long it is."""

    def __init__(self, stream: Stream, report: _Report) -> None:
        self._stream = stream
        self._report = report

    def read(self, size: int) -> bytes:
        with _of_source():
            data = _take(self._stream, size)
        self._report.add(size)
        return data
