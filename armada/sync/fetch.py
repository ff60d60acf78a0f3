"""Blocks of files over as many streams as the link needs, until everything has arrived or nothing comes any more."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, AuthenticationFailed, HostKeyChanged, HostUnreachable, LinkLost
from armada.stream import Block
from armada.sync.arrival import BLOCK_BYTES, Arrival
from armada.sync.bandwidth import allowance_for
from armada.transport.protocol import TransferProgress

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from armada.session import HostSession
    from armada.stream import Stream

MOST_STREAMS = 8
"""All of them may shake hands at once: sshd refuses at random from ten on (MaxStartups 10:30:100), and then one is missing."""
TARGET_BYTES_PER_S = 200e6
LARGE_BYTES = 256_000_000
"""From here on two: an ssh process uses one core, and on a fast network that core is what limits (13 % measured)."""
WINDOW_BYTES = 2 << 20
"""What one OpenSSH connection has under way at most; per round trip, that is its speed."""
STREAMS_OF_ONE_CONNECTION = 4
"""Where there can be no other connection: sshd takes ten sessions on it, and agents need some too."""
AHEAD_BYTES = 8 << 20
AHEAD_COUNT = 32
"""So much is asked for and not yet here, per stream: four times what one can have under way, or many small files."""
STALL_S = 45.0
"""ssh itself gives up on a silent link after 20 s; this catches what stays alive and sends nothing."""
_REPORT_EVERY_S = 0.2


def streams_for(round_trip_s: float, size_bytes: int) -> int:
    """How many streams a transfer wants: few on a short link, up to 8 on a long one, no more than there are blocks."""
    wanted = max(math.ceil(TARGET_BYTES_PER_S * round_trip_s / WINDOW_BYTES), 2 if size_bytes >= LARGE_BYTES else 1)
    return max(1, min(MOST_STREAMS, wanted, math.ceil(size_bytes / BLOCK_BYTES)))


class Streams:
    """What is open with one host, and how far away it is; what one fetch leaves open, the next one takes.

    Args:
        session: With the host.
    """

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._idle: deque[Stream] = deque()
        self._round_trip_s: float | None = None

    @property
    def round_trip_s(self) -> float:
        """Measured once."""
        if self._round_trip_s is None:
            began = time.monotonic()
            self._session.call("sync.look", {"runs": []})
            self._round_trip_s = time.monotonic() - began
        return self._round_trip_s

    def take(self) -> Stream:
        try:
            return self._idle.popleft()
        except IndexError:
            return self._session.open_stream()

    def give_back(self, stream: Stream) -> None:
        self._idle.append(stream)

    def warm(self, count: int) -> None:
        """Open streams before they are needed; who needs one that was refused finds out why, or does without."""
        with contextlib.suppress(HostUnreachable):
            for _ in range(count - len(self._idle)):
                self._idle.append(self._session.open_stream())

    def close(self) -> None:
        _hang_up(list(self._idle))
        self._idle.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Fetcher:
    """Fetches files of runs from one host; its streams stay open from one checkpoint to the next.

    Args:
        session: With the host.
        pool: Streams that others use before and after, and close; without it, its own.
        streams: How many, or `auto`: by the round trip, which is measured once.
        bytes_per_s: The run's own limit for all of them together, below those of the host and of home.

    Raises:
        ConfigError: hosts.yaml is wrong.
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
        """Its name."""
        return self._session.host.name

    def fetch(self, run_id: str, folder: str, arrival: Arrival, progress: Callable[[TransferProgress], None]) -> None:
        """Let everything that is missing arrive.

        Args:
            run_id: Whose files.
            folder: Below the run's folder, with a slash at its end; or nothing.
            arrival: Where they go.
            progress: Told about five times a second.

        Raises:
            HostUnreachable: Nothing came for the session's patience.
            NotFound: A file is no longer on the host.
            OSError: Home's disk would not take it.
        """
        trouble_since: float | None = None
        tries = 0
        while arrival.missing:
            before = len(arrival.missing)
            effort = _Effort(self, run_id, folder, arrival, progress)
            error = effort.run()
            if not arrival.missing and (error is None or isinstance(error, HostUnreachable)):
                return  # a stream broke when the others had everything
            if error is None:
                raise ArmadaError("a fetch ended early without a reason", host=self._session.host.name)
            # A host that answered before may be rebooting; one that never did is said at once.
            is_link = isinstance(error, LinkLost) or (isinstance(error, HostUnreachable) and trouble_since is not None)
            if not is_link or isinstance(error, HostKeyChanged | AuthenticationFailed):
                raise error
            now = time.monotonic()
            if trouble_since is None or len(arrival.missing) < before:
                trouble_since, tries = now, 0
            if now - trouble_since >= self._session.patience_s:  # without any, one that broke is not tried again
                raise error
            tries += 1
            self._session.outage.failed(error, self._session.patience_s)
            time.sleep(min(5.0, 0.1 * 2**tries) * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, not a secret

    def heard(self) -> None:
        """Note that bytes come."""
        self._session.outage.over()

    def count(self, size_bytes: int) -> int:
        if isinstance(self._wanted, int):
            wanted = max(1, min(self._wanted, math.ceil(size_bytes / BLOCK_BYTES)))
        else:
            wanted = streams_for(self.pool.round_trip_s, size_bytes)
        return min(wanted, STREAMS_OF_ONE_CONNECTION) if self._session.host.reuse_only else wanted

    def warm(self, size_bytes: int) -> None:
        """Begin the handshakes of the streams that so many bytes will want; ssh goes through them while home does other things."""
        self.pool.warm(self.count(size_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owns_pool:
            self.pool.close()


class _Effort:
    """One try with a set of streams; ends when all has arrived, or the last stream has broken."""

    def __init__(
        self,
        fetcher: Fetcher,
        run_id: str,
        folder: str,
        arrival: Arrival,
        progress: Callable[[TransferProgress], None],
    ) -> None:
        self._fetcher = fetcher
        self._run_id = run_id
        self._folder = folder
        self._arrival = arrival
        self._progress = progress
        self._lock = threading.Lock()
        self._streams: dict[Stream, float] = {}
        self._error: BaseException | None = None
        self._stopped = False
        self._came_bytes = 0

    def run(self) -> BaseException | None:
        arrival = self._arrival
        size = sum(arrival.length(index, block) for index, block in arrival.missing)
        workers = [
            threading.Thread(target=self._work, name=f"stream {number}", daemon=True)
            for number in range(self._fetcher.count(size))
        ]
        done_before = arrival.size_bytes - size
        began = time.monotonic()
        samples: deque[tuple[float, int]] = deque([(began, 0)], maxlen=25)
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                while worker.is_alive():
                    worker.join(_REPORT_EVERY_S)
                    samples.append((time.monotonic(), self._came_bytes))
                    self._hang_up_on_silence()
                    if self._came_bytes:
                        self._fetcher.heard()
                    self._progress(TransferProgress(done_before + self._came_bytes, arrival.size_bytes, _rate(samples)))
        finally:  # Ctrl-C, a fault in the callback
            self._stopped = True
            _hang_up(list(self._streams))
        return self._error

    def _work(self) -> None:
        stream: Stream | None = None
        try:
            stream = self._fetcher.pool.take()
            self._streams[stream] = time.monotonic()
            self._ask(stream)
            while stream.outstanding and not self._stopped:
                self._receive(stream)
        except BaseException as error:
            self._take_back(stream, error)
        else:
            self._streams.pop(stream, None)
            if stream.outstanding:
                stream.close()
                self._requeue(stream)
            else:
                self._fetcher.pool.give_back(stream)

    def _ask(self, stream: Stream) -> None:
        arrival = self._arrival
        waiting_bytes = sum(block.length for block in stream.outstanding)
        while waiting_bytes < AHEAD_BYTES and len(stream.outstanding) < AHEAD_COUNT and not self._stopped:
            with self._lock:
                if not arrival.missing or self._fatal():
                    return
                index, block = arrival.missing.popleft()
            length = arrival.length(index, block)
            file = arrival.files[index]
            path = self._folder + (file.source or file.path)
            stream.ask(Block(self._run_id, path, file.offset + block * BLOCK_BYTES, length, index, block))
            waiting_bytes += length

    def _receive(self, stream: Stream) -> None:
        def take(block: Block, offset: int, data: bytes | memoryview) -> None:
            self._arrival.write(block.index, offset - self._arrival.files[block.index].offset, data)
            self._streams[stream] = time.monotonic()
            with self._lock:
                self._came_bytes += len(data)
            self._fetcher.allowance.take(len(data), lambda: self._heard(stream))

        block, _ = stream.receive(take)
        self._arrival.finish_block(block.index, block.number)  # a short one too: its hash says that it is wrong
        self._ask(stream)

    def _heard(self, stream: Stream) -> None:
        if self._stopped:
            raise InterruptedError("the fetch was given up")
        self._streams[stream] = time.monotonic()

    def _take_back(self, stream: Stream | None, error: BaseException) -> None:
        with self._lock:
            if self._error is None or (self._is_link(self._error) and not self._is_link(error)):
                self._error = error
        if stream is not None:
            self._streams.pop(stream, None)
            self._requeue(stream)
            stream.close()

    def _requeue(self, stream: Stream) -> None:
        with self._lock:
            for block in reversed(stream.outstanding):
                self._arrival.missing.appendleft((block.index, block.number))

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


def _hang_up(streams: list[Stream]) -> None:
    """Close streams, all at once: each ssh takes a round trip to say goodbye."""
    closing = [threading.Thread(target=stream.close, daemon=True) for stream in streams]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()


def _rate(samples: deque[tuple[float, int]]) -> float | None:
    (first, few), (last, many) = samples[0], samples[-1]
    return (many - few) / (last - first) if last > first else None
