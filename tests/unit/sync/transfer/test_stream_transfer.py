"""Which stream brings which blocks: the direct one first, new connections once they are ready."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from armada.config.hosts import Host
from armada.errors import LinkLost
from armada.paths import HomePaths
from armada.rpc.byte_stream import Block
from armada.rpc.outage import Outage
from armada.sync.transfer.block_writer import BLOCK_BYTES, BlockWriter
from armada.sync.transfer.interface import File
from armada.sync.transfer.stream_transfer import Fetcher
from armada.sync.transfer.streams import Streams, streams_for
from armada.transport.interface import DIRECT_BYTES
from tests.waiting import eventually

CONTENT = bytes(range(256)) * (5 * BLOCK_BYTES // 256) + b"and a rest"


class FakeStream:
    """A stream that carries CONTENT; `ready` is set when its connection has shaken hands."""

    def __init__(self, *, is_direct: bool = False, most_blocks: int = 1000, broken: bool = False) -> None:
        self.is_direct = is_direct
        self.is_greeted = False
        self.after: threading.Event | None = None
        """What it waits for before it carries anything."""
        self.used = threading.Event()
        self.ready = threading.Event()
        self.closed = threading.Event()
        self.asked: list[Block] = []
        self.carried: list[Block] = []
        self.asked_nothing = threading.Event()
        """It was looked at twice, before and after blocks were sought for it, and has none."""
        self._looks = 0
        self._left = most_blocks
        self._broken = broken

    @property
    def outstanding(self) -> list[Block]:
        self._looks += 1
        if self._looks > 1 and not self.asked:
            self.asked_nothing.set()
        return list(self.asked)

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def greet(self) -> None:
        self.used.set()
        self.ready.wait()
        if self.closed.is_set():
            raise LinkLost("closed", host="far")
        self.is_greeted = True

    def ask(self, block: Block) -> None:
        self._left -= 1
        self.asked.append(block)
        self.used.set()

    def receive(self, sink: Callable[[Block, int, bytes], None]) -> tuple[Block, int]:
        if self.after is not None:
            self.after.wait()
        if self._broken:
            raise LinkLost("broke", host="far")
        block = self.asked[0]
        data = CONTENT[block.offset : block.offset + block.length]
        sink(block, block.offset, data)
        self.carried.append(self.asked.pop(0))
        return block, len(data)

    def close(self) -> None:
        self.closed.set()
        self.ready.set()


class FakeSession:
    """As much of a session as fetching uses: connected, its host far away."""

    round_trip_s = 0.1
    patience_s = 0.0

    def __init__(self, home: HomePaths, direct: FakeStream | None, connections: list[FakeStream]) -> None:
        self.host = Host(name="far", ssh="far")
        self.home = home
        self._direct, self.waiting = direct, connections
        self.outage = Outage("far")

    def when_connected(self, then: Callable[[], None]) -> None:
        then()

    def open_direct_stream(self) -> FakeStream | None:
        return self._direct

    def open_stream(self) -> FakeStream:
        return self.waiting.pop(0)


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(config=tmp_path, state=tmp_path)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[BlockWriter]:
    file = File("model", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    with contextlib.closing(BlockWriter(tmp_path / "staging", tmp_path / "blocks", [file])) as writer:
        yield writer


def fetch(session: FakeSession, writer: BlockWriter, *, pool: Streams | None = None) -> None:
    fetcher = Fetcher(session, pool=pool)  # type: ignore[arg-type]  # all that is used of a session
    with fetcher:
        fetcher.fetch("r", "outbox/d/", writer, lambda _: None)
    assert writer.wrong() == []


def test_the_direct_stream_brings_everything_while_a_new_connection_shakes_hands(
    home: HomePaths, writer: BlockWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada.sync.transfer.streams.DIRECT_BYTES", 1)  # so that it is not enough by itself
    monkeypatch.setattr("armada.sync.transfer.stream_transfer.AHEAD_BYTES", 1)
    monkeypatch.setattr("armada.sync.transfer.stream_transfer.DIRECT_AHEAD_BYTES", 1)
    direct, connection = FakeStream(is_direct=True), FakeStream()
    direct.after = connection.used
    session = FakeSession(home, direct, [connection])
    with Streams(session) as pool:  # type: ignore[arg-type]  # as above
        fetch(session, writer, pool=pool)
        assert (len(direct.carried), connection.asked, session.waiting) == (6, [], [])
        connection.ready.set()  # now it is ready, and waits for the next fetch
        eventually(lambda: pool.idle_count == 1, "the connection to be kept")
    assert connection.closed.is_set()


def test_what_shakes_hands_when_its_pool_is_closed_is_closed_too(
    home: HomePaths, writer: BlockWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada.sync.transfer.streams.DIRECT_BYTES", 1)
    direct, connection = FakeStream(is_direct=True), FakeStream()
    fetch(FakeSession(home, direct, [connection]), writer)
    assert connection.closed.is_set()
    assert direct.closed.is_set()


def test_a_direct_stream_that_has_carried_all_it_may_is_followed_by_connections(
    home: HomePaths, writer: BlockWriter
) -> None:
    direct, connection = FakeStream(is_direct=True, most_blocks=2), FakeStream()
    connections = [connection, *(FakeStream() for _ in range(8))]
    fetch(FakeSession(home, direct, connections), writer)
    assert len(direct.carried) == 2
    assert direct.closed.is_set()


def test_a_direct_stream_that_breaks_leaves_its_blocks_to_a_connection(
    home: HomePaths, writer: BlockWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada.sync.transfer.streams.DIRECT_BYTES", 1)
    direct, connection = FakeStream(is_direct=True, broken=True), FakeStream()
    connection.ready.set()
    fetch(FakeSession(home, direct, [connection]), writer)
    assert len(connection.carried) == 6


def test_a_connection_that_found_nothing_left_to_ask_for_gets_what_a_broken_stream_leaves(
    home: HomePaths, writer: BlockWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada.sync.transfer.streams.DIRECT_BYTES", 1)
    direct, connection = FakeStream(is_direct=True, broken=True), FakeStream()
    direct.after = connection.asked_nothing

    def greet() -> None:
        direct.used.wait()
        eventually(lambda: len(direct.asked) == 6)  # it has asked for everything

    monkeypatch.setattr(connection, "greet", greet)
    fetch(FakeSession(home, direct, [connection]), writer)
    assert len(connection.carried) == 6


def test_under_a_limit_nothing_comes_over_the_sessions_own_connection(home: HomePaths, writer: BlockWriter) -> None:
    direct = FakeStream(is_direct=True)
    session = FakeSession(home, direct, [FakeStream() for _ in range(8)])
    with Fetcher(session, bytes_per_s=1e9) as fetcher:  # type: ignore[arg-type]  # as above
        fetcher.fetch("r", "outbox/d/", writer, lambda _: None)
    assert direct.carried == []


@pytest.mark.parametrize(
    ("size_bytes", "beside"), [(64_000_000, 0), (DIRECT_BYTES, 0), (DIRECT_BYTES + 1, 8), (1_000_000_000, 8)]
)
def test_new_connections_are_opened_at_once_only_for_what_the_direct_stream_may_not_carry(
    size_bytes: int, beside: int
) -> None:
    assert streams_for(0.1, size_bytes, has_direct=True) == beside


def test_a_download_that_is_given_up_waits_for_what_is_being_written(
    home: HomePaths, writer: BlockWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream's thread that wrote on would write to whatever gets the numbers of the closed descriptors."""
    direct = FakeStream(is_direct=True)
    writing, given_up = threading.Event(), threading.Event()
    write = writer.write
    written: list[int] = []

    def slowly(index: int, offset: int, data: bytes | memoryview) -> None:
        writing.set()
        given_up.wait()
        threading.Event().wait(0.2)  # the disk is slow
        write(index, offset, data)
        written.append(offset)

    def give_up(_: object) -> None:
        writing.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "write", slowly)
    monkeypatch.setattr(direct, "close", given_up.set)
    fetcher = Fetcher(FakeSession(home, direct, []))  # type: ignore[arg-type]  # all that is used of a session
    fetcher.prepare()
    fetcher.pool.direct()
    with pytest.raises(KeyboardInterrupt):
        fetcher.fetch("r", "outbox/d/", writer, give_up)
    assert written == [0]


def test_a_closed_writer_writes_to_no_descriptor(tmp_path: Path) -> None:
    file = File("model", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    closed = BlockWriter(tmp_path / "staging", tmp_path / "blocks", [file])
    closed.close()
    reused = os.open(tmp_path / "another", os.O_RDWR | os.O_CREAT)
    with pytest.raises((OSError, IndexError)):
        closed.write(0, 0, b"late")
    with pytest.raises(OSError, match=r"abandoned|descriptor"):
        closed.finish_block(0, 0)
    os.close(reused)
    assert (tmp_path / "another").read_bytes() == b""
