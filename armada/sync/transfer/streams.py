"""The connections over which files of one host come: how many, how far away it is, and which are open already."""

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
"""All of them may shake hands at once: sshd refuses at random from ten on (MaxStartups 10:30:100), and then one is missing."""
TARGET_BYTES_PER_S = 200e6
LARGE_BYTES = 256_000_000
"""From here on two: an ssh process uses one core, and on a fast network that core is what limits (13 % measured)."""
WINDOW_BYTES = 2 << 20
"""What one OpenSSH connection has under way at most; per round trip, that is its speed."""
STREAMS_OF_ONE_CONNECTION = 4
"""Where there can be no other connection: sshd takes ten sessions on it, and agents need some too."""
SHARE_BYTES = 32_000_000
"""Beside the direct stream, one connection more for so much: each costs a second core a third of a second."""
READY_ROUND_TRIPS = 15
"""After so many a new connection brings its first bytes (10 to 15 were counted)."""


def streams_for(round_trip_s: float, size_bytes: int, *, has_direct: bool = False) -> int:
    """How many streams a transfer wants: few on a short link, up to 8 on a long one, no more than there are blocks.

    Args:
        round_trip_s: To the host and back.
        size_bytes: All that is to come.
        has_direct: Whether a direct stream carries some of it; these are the ones beside it: none where it may carry all, and
            may turn out to be fast enough.
    """
    wanted = max(math.ceil(TARGET_BYTES_PER_S * round_trip_s / WINDOW_BYTES), 2 if size_bytes >= LARGE_BYTES else 1)
    if has_direct:
        return min(MOST_STREAMS, wanted, math.ceil(size_bytes / SHARE_BYTES)) if size_bytes > DIRECT_BYTES else 0
    return max(1, min(MOST_STREAMS, wanted, math.ceil(size_bytes / BLOCK_BYTES)))


class Streams:
    """What is open with one host, and how far away it is; what one fetch leaves open, the next one takes.

    All methods may be called from any thread.

    Args:
        session: With the host.
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
        """As opening the first channel told, or a question that is asked once."""
        if (known := self._session.round_trip_s) is not None:
            return known
        if self._round_trip_s is None:
            began = time.monotonic()
            self._session.call(ListOutboxes(runs=()))
            self._round_trip_s = time.monotonic() - began
        return self._round_trip_s

    @property
    def idle_count(self) -> int:
        """How many with connections of their own are open, and in nobody's use."""
        return len(self._idle)

    def prepare(self) -> None:
        """Begin to open the direct stream, as soon as the session is connected; a second call does nothing."""
        with self._lock:
            if self._opening is not None or self._closed:
                return
            self._opening = threading.Thread(target=self._open_direct, name="direct stream", daemon=True)
        self._session.when_connected(self._opening.start)

    def direct(self) -> Stream | None:
        """The stream over the session's own connection, once it is open; None where there is none, or none any more."""
        opening = self._opening
        if opening is None or opening.ident is None:  # nobody wanted one, or the session is not connected
            return None
        self._opened.wait()
        return self._direct

    def take(self) -> Stream:
        """A stream with a connection of its own. Raises HostUnreachable, here or when it is used."""
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
        """Keep a stream for the next fetch; one that has carried all it may is closed."""
        with self._lock:
            self._lent.discard(stream)
            if not self._closed and not stream.is_spent:
                if stream is not self._direct:
                    self._idle.append(stream)
                return
        self.drop(stream)

    def drop(self, stream: Stream) -> None:
        """Close a stream that broke, or is not wanted any more."""
        with self._lock:
            self._lent.discard(stream)
            if stream is self._direct:
                self._direct = None
        stream.close()

    def warm(self, count: int) -> None:
        """Open streams before they are needed; who needs one that was refused finds out why, or does without."""
        with contextlib.suppress(HostUnreachable):
            for _ in range(count - self.idle_count):
                stream = self._session.open_stream()
                with self._lock:
                    self._idle.append(stream)

    def close(self) -> None:
        """Close everything, what is lent too."""
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
            with contextlib.suppress(ArmadaError):  # whoever speaks over that connection next is told what is wrong
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
