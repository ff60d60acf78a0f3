"""Fetch blocks of files over as many streams as the link needs."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.progress import TransferProgress
from armada.rpc.byte_stream import Block
from armada.sync.transfer.bandwidth import allowance_for
from armada.sync.transfer.block_writer import BLOCK_BYTES, BlockWriter
from armada.sync.transfer.retries import Retries
from armada.sync.transfer.staging import BLOCKS
from armada.sync.transfer.streams import (
    READY_ROUND_TRIPS,
    SHARE_BYTES,
    STREAMS_OF_ONE_CONNECTION,
    Streams,
    hang_up,
    streams_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    from armada.rpc.byte_stream import Stream
    from armada.rpc.session import HostSession
    from armada.sync.transfer.interface import File

AHEAD_BYTES = 8 << 20
AHEAD_COUNT = 32
"""Blocks requested but not received, per stream: four times what one can have in flight, or many small files."""
DIRECT_AHEAD_BYTES = 24 << 20
DIRECT_AHEAD_COUNT = 256
"""The same for the direct stream, which may have much more in flight."""
STALL_S = 45.0
"""Seconds. ssh itself gives up on a silent link after 20 s; this catches a process that lives but sends nothing."""
_REPORT_EVERY_S = 0.2


class Fetcher:
    """Fetches files of runs from one host; its streams stay open from one checkpoint to the next.

    Args:
        session: A session with the host.
        pool: Shared streams, which their owner closes; by default, own ones.
        streams: How many, or `auto`: by the round trip, which is measured once.
        bytes_per_s: The run's own limit for all of them together, in addition to those of the host and of home.

    Raises:
        ConfigError: hosts.yaml is invalid.
    """

    def __init__(
        self,
        session: HostSession,
        *,
        pool: Streams | None = None,
        streams: int | str = "auto",
        bytes_per_s: float | None = None,
    ) -> None:
        self._session = session
        self._wanted = streams
        self.allowance = allowance_for(session.home, session.host, bytes_per_s)
        self.pool = pool or Streams(session)
        self._owns_pool = pool is None

    @property
    def host(self) -> str:
        """The host's name."""
        return self._session.host.name

    def fetch(
        self, run_id: str, folder: str, writer: BlockWriter, progress: Callable[[TransferProgress], None]
    ) -> None:
        """Fetch everything that is missing.

        Args:
            run_id: The run.
            folder: The folder relative to the run's folder, with a trailing slash; or empty.
            writer: Writes the files.
            progress: Called about five times a second.

        Raises:
            HostUnreachable: Nothing arrived for the session's patience.
            NotFound: A file is no longer on the host.
            OSError: Home's disk cannot store them.
        """
        retries = Retries()
        if writer.missing:
            self.prepare()
        while writer.missing:
            before = len(writer.missing)
            attempt = _DownloadAttempt(self, run_id, folder, writer, progress)
            error = attempt.run()
            if not writer.missing and (error is None or isinstance(error, HostUnreachable)):
                return  # a stream broke after the others had received everything
            if error is None and attempt.spent:
                continue
            if error is None:
                raise ArmadaError("a fetch ended early without a reason", host=self._session.host.name)
            has_come = len(writer.missing) < before
            patience_s = self._session.patience_s
            retries.wait(error, patience_s=patience_s, has_come=has_come, failed=self._note_outage)

    def _note_outage(self, error: HostUnreachable) -> None:
        self._session.outage.failed(error, self._session.patience_s)

    def heard(self) -> None:
        """Note that bytes arrive."""
        self._session.outage.over()

    def prepare(self) -> None:
        """Start opening the stream for the first bytes, if it is likely that something will be fetched."""
        # A fixed number of streams is a number of connections. Under a limit, the bytes in flight already could exceed
        # it.
        if self._wanted == "auto" and not self.allowance.limits:
            self.pool.prepare()

    def count(self, size_bytes: int) -> int:
        """Return how many streams with a connection of their own so many bytes need, besides the direct one."""
        if isinstance(self._wanted, int):
            wanted = max(1, min(self._wanted, math.ceil(size_bytes / BLOCK_BYTES)))
        else:
            wanted = streams_for(self.pool.round_trip_s, size_bytes, has_direct=self.pool.direct() is not None)
        return min(wanted, STREAMS_OF_ONE_CONNECTION) if self._session.host.reuse_only else wanted

    def warm(self, size_bytes: int) -> None:
        """Start the handshakes of the streams that so many bytes need; ssh does them while home does other work."""
        self.prepare()
        self.pool.warm(self.count(size_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owns_pool:
            self.pool.close()


class StreamTransfer:
    """Blocks over as many connections as the link needs, hashed while they arrive.

    Args:
        fetcher: Fetches from the host.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def warm(self, size_bytes: int) -> None:
        self._fetcher.warm(size_bytes)

    def bring(
        self,
        run_id: str,
        source: str,
        staging: Path,
        files: Sequence[File],
        progress: Callable[[TransferProgress], None],
    ) -> list[File]:
        journal = staging.with_name(staging.name + BLOCKS)
        with contextlib.closing(BlockWriter(staging, journal, files)) as writer:
            self._fetcher.fetch(run_id, source, writer, progress)
            return writer.wrong()


class _DownloadAttempt:
    """One try with a set of streams. It ends when everything has arrived, or the last stream has broken.

    While a direct stream works, a stream whose ssh is still connecting gets no blocks: the direct one would fetch them
    sooner. A stream that finds nothing left to ask for stays until the others have received what they asked for, because one
    that breaks leaves it its blocks.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        run_id: str,
        folder: str,
        writer: BlockWriter,
        progress: Callable[[TransferProgress], None],
    ) -> None:
        self._fetcher = fetcher
        self._run_id = run_id
        self._folder = folder
        self._writer = writer
        self._progress = progress
        self._changed = threading.Condition()
        self._streams: dict[Stream, float] = {}
        self._alive = self._bringing = self._idle = 0
        self._error: BaseException | None = None
        self._stopped = self._over = False
        self._size = sum(writer.length(index, block) for index, block in writer.missing)
        self._came_bytes = 0
        self._first_at: float | None = None
        self.spent = False
        """Whether the direct stream has reached its limit of bytes."""

    def run(self) -> BaseException | None:
        """Fetch what is missing; return the error, if any."""
        writer, pool = self._writer, self._fetcher.pool
        direct = pool.direct()
        self._waits = direct is not None
        count = self._fetcher.count(self._size)
        if direct is not None:
            self._start(lambda: direct)
        for _ in range(count):
            self._start(pool.take)
        may_grow = self._waits and not count
        done_before = writer.size_bytes - self._size
        samples: deque[tuple[float, int]] = deque([(time.monotonic(), 0)], maxlen=25)
        try:
            while not self._is_done():
                samples.append((time.monotonic(), self._came_bytes))
                self._hang_up_on_silence()
                if self._came_bytes:
                    self._fetcher.heard()
                if may_grow and (more := self._more_wanted()):
                    may_grow = False
                    for _ in range(more):
                        self._start(pool.take)
                self._progress(TransferProgress(done_before + self._came_bytes, writer.size_bytes, _rate(samples)))
        except BaseException:  # Ctrl-C, or an error in the callback
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            hang_up(list(self._streams))
            self._wait_for_workers()  # or they would write to descriptors that are closed, and may be another file's by then
            raise
        self._wait_for_workers()  # the next attempt finds their streams in the pool
        return self._error

    def _wait_for_workers(self) -> None:
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._idle and not self._bringing)

    def _start(self, take: Callable[[], Stream]) -> None:
        with self._changed:
            self._alive += 1
        threading.Thread(target=self._work, args=(take,), name="a stream", daemon=True).start()

    def _more_wanted(self) -> int:
        """Return how many more connections to open: none, unless the direct stream alone would take longer than opening them."""
        round_trip_s = self._fetcher.pool.round_trip_s
        passed_s = time.monotonic() - self._first_at if self._first_at is not None else 0.0
        left_bytes = self._size - self._came_bytes
        if passed_s < 2 * round_trip_s or left_bytes * passed_s < self._came_bytes * READY_ROUND_TRIPS * round_trip_s:
            return 0
        return min(streams_for(round_trip_s, left_bytes), math.ceil(left_bytes / SHARE_BYTES))

    def _is_done(self) -> bool:
        """Wait briefly; return whether everything is here, or no stream is left to fetch the rest."""
        with self._changed:
            self._changed.wait_for(self._has_ended, _REPORT_EVERY_S)
            self._over = self._has_ended()
            return self._over

    def _has_ended(self) -> bool:
        return self._bringing == 0 and (not self._alive or not self._writer.missing or self._fatal())

    def _work(self, take: Callable[[], Stream]) -> None:
        stream: Stream | None = None
        is_bringing = False
        try:
            stream = take()
            self._streams[stream] = time.monotonic()
            if self._waits and not stream.is_direct:
                stream.greet()
            is_bringing = self._begin()
            while is_bringing and not self._stopped:
                self._ask(stream)
                while stream.outstanding and not self._stopped:
                    self._receive(stream)
                if stream.is_spent or not self._is_left_more(stream):
                    break
        except BaseException as error:
            self._take_back(stream, error)
        else:
            self._streams.pop(stream, None)
            if stream.outstanding:
                self._requeue(stream)
                self._fetcher.pool.drop(stream)
            else:
                self.spent = self.spent or stream.is_spent
                self._fetcher.pool.give_back(stream)
        finally:
            with self._changed:
                self._alive -= 1
                self._bringing -= is_bringing
                self._changed.notify_all()

    def _begin(self) -> bool:
        """Return whether anything is left to fetch."""
        with self._changed:
            if self._over or self._stopped:
                return False
            self._bringing += 1
            return True

    def _is_left_more(self, stream: Stream) -> bool:
        """Wait while other streams receive the rest; return whether one of them broke and left some of it."""
        with self._changed:
            self._streams.pop(stream, None)  # its silence is no fault of its own
            self._bringing -= 1
            self._idle += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or self._stopped or self._writer.missing or self._has_ended())
            is_left = bool(self._writer.missing) and not (self._over or self._stopped or self._fatal())
            self._bringing += 1
            self._idle -= 1
            if is_left:
                self._streams[stream] = time.monotonic()
            return is_left

    def _ask(self, stream: Stream) -> None:
        writer = self._writer
        waiting_bytes = sum(block.length for block in stream.outstanding)
        most_bytes, most_count = AHEAD_BYTES, AHEAD_COUNT
        if stream.is_direct:  # near the end no more than its share: it may be the slow one
            share = (self._size - self._came_bytes) // max(1, self._bringing)
            most_bytes, most_count = max(AHEAD_BYTES, min(DIRECT_AHEAD_BYTES, share)), DIRECT_AHEAD_COUNT
        while waiting_bytes < most_bytes and len(stream.outstanding) < most_count and not self._stopped:
            with self._changed:
                if not writer.missing or self._fatal() or stream.is_spent:
                    return
                index, block = writer.missing.popleft()
            length = writer.length(index, block)
            file = writer.files[index]
            path = self._folder + (file.source or file.path)
            stream.ask(Block(self._run_id, path, file.offset + block * BLOCK_BYTES, length, index, block))
            waiting_bytes += length

    def _receive(self, stream: Stream) -> None:
        def take(block: Block, offset: int, data: bytes | memoryview) -> None:
            self._require_going()
            self._writer.write(block.index, offset - self._writer.files[block.index].offset, data)
            self._streams[stream] = time.monotonic()
            with self._changed:
                self._first_at = self._first_at or time.monotonic()
                self._came_bytes += len(data)
            self._fetcher.allowance.take(len(data), lambda: self._heard(stream))

        block, _ = stream.receive(take)
        self._require_going()
        self._writer.finish_block(block.index, block.number)  # if it is too short, the hash is wrong
        self._ask(stream)

    def _require_going(self) -> None:
        if self._stopped:
            raise InterruptedError("the download was abandoned")

    def _heard(self, stream: Stream) -> None:
        self._require_going()
        self._streams[stream] = time.monotonic()

    def _take_back(self, stream: Stream | None, error: BaseException) -> None:
        with self._changed:
            if self._error is None or (self._is_link(self._error) and not self._is_link(error)):
                self._error = error
        if stream is not None:
            self._streams.pop(stream, None)
            self._requeue(stream)
            self._fetcher.pool.drop(stream)

    def _requeue(self, stream: Stream) -> None:
        with self._changed:
            for block in reversed(stream.outstanding):
                self._writer.missing.appendleft((block.index, block.number))

    def _fatal(self) -> bool:
        return self._error is not None and not self._is_link(self._error)

    @staticmethod
    def _is_link(error: BaseException) -> bool:
        return isinstance(error, HostUnreachable)

    def _hang_up_on_silence(self) -> None:
        now = time.monotonic()
        for stream, heard in list(self._streams.items()):
            if now - heard > STALL_S:
                stream.close()


def _rate(samples: deque[tuple[float, int]]) -> float | None:
    (first, few), (last, many) = samples[0], samples[-1]
    return (many - few) / (last - first) if last > first else None
