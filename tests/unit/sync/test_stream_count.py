"""How many streams a transfer may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.hosts import Host
from armada.paths import HomePaths
from armada.session import HostSession
from armada.sync.fetch import Fetcher


@pytest.mark.parametrize(("reuse_only", "most"), [(False, 8), (True, 4)])
def test_a_connection_that_is_all_there_is_keeps_sessions_for_agents(
    tmp_path: Path, reuse_only: bool, most: int
) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    host = Host(name="box", ssh="box", transport="openssh", reuse_only=reuse_only)
    with HostSession(host, home) as session, Fetcher(session, streams=8) as fetcher:
        assert fetcher.count(1 << 40) == most
        assert fetcher.count(1) == 1
