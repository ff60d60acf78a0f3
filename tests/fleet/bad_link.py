"""A long, bad link in front of a loopback server, for tests: delay, bandwidth, small pieces, black holes, resets.

    wan LISTEN_HOST:PORT TARGET_HOST:PORT [--rtt-ms 50] [--mbit 100] [--slice BYTES] [--reset-after BYTES] [--count FILE]

It prints `ready PORT` (port 0 means any) and runs until SIGTERM. SIGUSR1 makes the link a black hole (connections stay up,
nothing passes) and, sent again, opens it; SIGUSR2 resets every connection; --reset-after does so each time so many bytes
have passed. Linux' netem does the same where the kernel has it.

--count keeps in FILE, a line for each connection in the order they were made, how many round trips it has taken: the one of
TCP's handshake, and the longest chain of words and answers since. What is said without waiting for an answer adds nothing,
and neither does a slow machine, so the number is the same each time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CHUNK_BYTES = 65_536
_BUFFER_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Conditions:
    """How bad the link is; 0 means not at all."""

    rtt_ms: float = 0.0
    mbit: float = 0.0
    slice_bytes: int = 0
    reset_after_bytes: int = 0

    @property
    def one_way_s(self) -> float:
        return self.rtt_ms / 2000

    def occupies_s(self, size_bytes: int) -> float:
        """How long so many bytes take to be put on the link."""
        return size_bytes / (self.mbit * 125_000) if self.mbit else 0.0


class RoundTrips:
    """How long the chain of words and answers on one connection is: each piece carries its place in it.

    Of two words that cross on the way neither answers the other; that is why the link's delay makes the number exact.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self.count = 1  # TCP's own
        self._told = told
        self._heard = {"home": 1, "far": 1}

    def said(self, by: str) -> int:
        """The place of what `home` or `far` says now."""
        return self._heard[by] + (by == "home")

    def arrived(self, place: int, at: str) -> None:
        self._heard[at] = max(self._heard[at], place)
        if at == "home" and place > self.count:
            self.count = place
            self._told()


class Link:
    """All connections over one link."""

    def __init__(self, conditions: Conditions, target: tuple[str, int], count: Path | None = None) -> None:
        self._conditions = conditions
        self._count = count
        self._round_trips: list[RoundTrips] = []
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passed_bytes = 0

    def toggle(self) -> None:
        """Close the link without a word, or open it again."""
        if self._open.is_set():
            self._open.clear()
        else:
            self._open.set()

    def reset(self) -> None:
        """End every connection with a TCP reset."""
        self._passed_bytes = 0
        for writer in list(self._writers):
            connection = writer.get_extra_info("socket")
            if connection is not None and connection.fileno() >= 0:  # not one that is going already
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def _tell(self) -> None:
        if self._count is not None:
            part = self._count.with_suffix(".part")
            part.write_text("".join(f"{each.count}\n" for each in self._round_trips))
            part.replace(self._count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        trips = RoundTrips(self._tell)
        self._round_trips.append(trips)
        self._tell()
        try:
            await asyncio.sleep(2 * self._conditions.one_way_s)  # the handshake's round trip
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target, limit=_BUFFER_BYTES)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        for end in pair:
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(asyncio.CancelledError):  # SIGTERM; asyncio would log each connection as a fault
            await asyncio.gather(
                self._carry(reader, far_writer, trips, "home", "far"),
                self._carry(far_reader, writer, trips, "far", "home"),
            )
        self._writers -= pair
        for end in pair:
            end.close()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trips: RoundTrips, by: str, to: str
    ) -> None:
        """Take what arrives and deliver it when it is due."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, int, bytes]] = asyncio.Queue(maxsize=4096)
        delivery = asyncio.create_task(self._deliver(under_way, writer, trips, to))
        # A connection that breaks ends both directions; there is nobody to tell.
        with contextlib.suppress(OSError):
            chunk = b"?"
            while chunk and not delivery.done():
                chunk = await reader.read(_CHUNK_BYTES)
                place = trips.said(by)
                for piece in self._sliced(chunk):
                    await under_way.put((loop.time() + self._conditions.one_way_s, place, piece))
            await delivery
        delivery.cancel()

    def _sliced(self, chunk: bytes) -> list[bytes]:
        size = self._conditions.slice_bytes or len(chunk)
        return [chunk[start : start + size] for start in range(0, len(chunk), size)] if chunk else [b""]

    async def _deliver(
        self,
        under_way: asyncio.Queue[tuple[float, int, bytes]],
        writer: asyncio.StreamWriter,
        trips: RoundTrips,
        to: str,
    ) -> None:
        loop = asyncio.get_running_loop()
        free_at = 0.0
        while True:
            due, place, piece = await under_way.get()
            free_at = max(free_at, due) + self._conditions.occupies_s(len(piece))
            if free_at > loop.time():
                await asyncio.sleep(free_at - loop.time())
            await self._open.wait()
            if not piece:
                with contextlib.suppress(OSError):  # the other end may have closed first
                    writer.write_eof()
                return
            trips.arrived(place, to)
            writer.write(piece)
            await writer.drain()
            self._passed_bytes += len(piece)
            if 0 < self._conditions.reset_after_bytes <= self._passed_bytes:
                self.reset()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listen", type=_address)
    parser.add_argument("target", type=_address)
    parser.add_argument("--rtt-ms", type=float, default=0.0)
    parser.add_argument("--mbit", type=float, default=0.0)
    parser.add_argument("--slice", type=int, default=0, metavar="BYTES", dest="slice_bytes")
    parser.add_argument("--reset-after", type=int, default=0, metavar="BYTES", dest="reset_after_bytes")
    parser.add_argument("--count", type=Path, metavar="FILE")
    options = vars(parser.parse_args())
    listen, target, count = options.pop("listen"), options.pop("target"), options.pop("count")
    link = Link(Conditions(**options), target, count)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, link.toggle)
    loop.add_signal_handler(signal.SIGUSR2, link.reset)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await asyncio.start_server(link.serve, *listen, limit=_BUFFER_BYTES)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    server.close()
