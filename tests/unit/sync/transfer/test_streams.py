"""How many streams a transfer may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.hosts import Host
from armada.errors import LinkLost
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.sync.transfer.stream_transfer import Fetcher
from armada.sync.transfer.streams import MOST_STREAMS, Streams, streams_for


@pytest.mark.parametrize(("reuse_only", "most"), [(False, 8), (True, 4)])
def test_a_connection_that_is_all_there_is_keeps_sessions_for_agents(
    tmp_path: Path, reuse_only: bool, most: int
) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    host = Host(name="box", ssh="box", transport="openssh", reuse_only=reuse_only)
    with HostSession(host, home) as session, Fetcher(session, streams=8) as fetcher:
        assert fetcher.count(1 << 40) == most
        assert fetcher.count(1) == 1


class FewSessions:
    """As much of a session as a pool of streams uses; its host opens one channel more."""

    def __init__(self) -> None:
        self.streams = ["a stream"]

    def open_stream(self) -> str:
        if not self.streams:
            raise LinkLost("the agent has ended", host="box")  # ssh had ended before anything was written to it
        return self.streams.pop()


def test_streams_that_are_refused_before_they_are_needed_hold_up_nothing() -> None:
    pool = Streams(FewSessions())  # type: ignore[arg-type]  # all that is used of a session
    pool.warm(3)
    assert pool.take() == "a stream"  # type: ignore[comparison-overlap]
    with pytest.raises(LinkLost):
        pool.take()


@pytest.mark.parametrize(
    ("ms", "size", "count"), [(0.2, 10**8, 1), (0.2, 10**10, 2), (20, 10**10, 2), (100, 10**10, 8), (100, 5_000_000, 2)]
)
def test_long_links_get_more_streams(ms: float, size: int, count: int) -> None:
    assert streams_for(ms / 1000, size) == count <= MOST_STREAMS
