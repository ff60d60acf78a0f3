"""The connections that fetch files of one host: how many, the round trip, and which are open already."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.protocol.sync import ListOutboxes
from armada.sync.transfer.block_writer import BLOCK_BYTES
from armada.transport.interface import DIRECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from armada.rpc.byte_stream import Stream
    from armada.rpc.session import HostSession

MOST_STREAMS = 8
"""All of them may connect at once: sshd refuses at random from ten on (MaxStartups 10:30:100), and then one would be missing."""
TARGET_BYTES_PER_S = 200e6
LARGE_BYTES = 256_000_000
"""From this size on use two: an ssh process uses one core, which is the limit on a fast network (13 % measured)."""
WINDOW_BYTES = 2 << 20
"""The most that one OpenSSH connection has in flight; divided by the round trip, that is its speed."""
STREAMS_OF_ONE_CONNECTION = 4
"""If no other connection is possible: sshd allows ten sessions on one, and agents need some too."""
SHARE_BYTES = 32_000_000
"""Besides the direct stream, one more connection per so many bytes: each costs a third of a second on a second core."""
READY_ROUND_TRIPS = 15
"""Round trips after which a new connection delivers its first bytes (10 to 15 were counted)."""


def streams_for(round_trip_s: float, size_bytes: int, *, has_direct: bool = False) -> int:
    """Return how many streams a transfer needs: few on a short link, up to 8 on a long one, no more than there are blocks.

    Args:
        round_trip_s: The host's round trip, in seconds.
        size_bytes: Everything that is to be fetched.
        has_direct: Whether a direct stream carries a part. The result then counts the additional ones: none if the
            direct one may carry everything and may be fast enough.
    """
    wanted = max(math.ceil(TARGET_BYTES_PER_S * round_trip_s / WINDOW_BYTES), 2 if size_bytes >= LARGE_BYTES else 1)
    if has_direct:
        return min(MOST_STREAMS, wanted, math.ceil(size_bytes / SHARE_BYTES)) if size_bytes > DIRECT_BYTES else 0
    return max(1, min(MOST_STREAMS, wanted, math.ceil(size_bytes / BLOCK_BYTES)))


class Streams:
    """The open streams with one host, and its round trip; a stream that one fetch leaves open is reused by the next.

    All methods may be called from any thread.

    Args:
        session: A session with the host.
    """

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._idle: deque[Stream] = deque()
        self._lent: set[Stream] = set()
        self._direct: Stream | None = None
        self._opening: threading.Thread | None = None
        self._opened = threading.Event()
        self._closed = False
        self._round_trip_s: float | None = None

    @property
    def round_trip_s(self) -> float:
        """Return the round trip in seconds, as measured when the first channel opened, or by one request."""
        if (known := self._session.round_trip_s) is not None:
            return known
        if self._round_trip_s is None:
            began = time.monotonic()
            self._session.call(ListOutboxes(runs=()))
            self._round_trip_s = time.monotonic() - began
        return self._round_trip_s

    @property
    def idle_count(self) -> int:
        """Return how many streams with a connection of their own are open and unused."""
        return len(self._idle)

    def prepare(self) -> None:
        """Start opening the direct stream as soon as the session is connected; a second call does nothing."""
        with self._lock:
            if self._opening is not None or self._closed:
                return
            self._opening = threading.Thread(target=self._open_direct, name="direct stream", daemon=True)
        self._session.when_connected(self._opening.start)

    def direct(self) -> Stream | None:
        """Return the stream over the session's own connection, once it is open; None if there is none, or it was lost."""
        opening = self._opening
        if opening is None or opening.ident is None:  # none was requested, or the session is not connected
            return None
        self._opened.wait()
        return self._direct

    def take(self) -> Stream:
        """Return a stream with a connection of its own. Raises HostUnreachable, here or when it is used."""
        with self._lock:
            stream = self._idle.popleft() if self._idle else None
        stream = stream or self._session.open_stream()
        with self._lock:
            self._lent.add(stream)
            late = self._closed
        if late:
            self.drop(stream)
        return stream

    def give_back(self, stream: Stream) -> None:
        """Keep a stream for the next fetch; one that has reached its limit of bytes is closed."""
        with self._lock:
            self._lent.discard(stream)
            if not self._closed and not stream.is_spent:
                if stream is not self._direct:
                    self._idle.append(stream)
                return
        self.drop(stream)

    def drop(self, stream: Stream) -> None:
        """Close a stream that broke, or is no longer needed."""
        with self._lock:
            self._lent.discard(stream)
            if stream is self._direct:
                self._direct = None
        stream.close()

    def warm(self, count: int) -> None:
        """Open streams before they are needed. If one is refused, its user gets the error or continues without it."""
        with contextlib.suppress(HostUnreachable):
            for _ in range(count - self.idle_count):
                stream = self._session.open_stream()
                with self._lock:
                    self._idle.append(stream)

    def close(self) -> None:
        """Close everything, including streams in use."""
        with self._lock:
            self._closed = True
            streams = [*self._idle, *self._lent, *([self._direct] if self._direct is not None else [])]
            self._idle.clear()
            self._lent.clear()
            self._direct = None
        hang_up(streams)

    def _open_direct(self) -> None:
        stream = None
        try:
            with contextlib.suppress(ArmadaError):  # the next user of that connection gets the error
                stream = self._session.open_direct_stream()
            with self._lock:
                late = self._closed
                self._direct = None if late else stream
            if late and stream is not None:
                stream.close()
        finally:
            self._opened.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hang_up(streams: Sequence[Stream]) -> None:
    """Close streams, all at once."""
    closing = [threading.Thread(target=stream.close, daemon=True) for stream in streams]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()
