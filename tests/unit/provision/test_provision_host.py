"""What is refused before a host is provisioned; the building itself is in tests/fleet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from armada.config.hosts import Host
from armada.errors import Conflict, UsageError
from armada.foundation.progress import NullProgress
from armada.paths import HomePaths
from armada.provision.service import named_profile, provision_host
from armada.store import operations
from armada.store.database import Database

if TYPE_CHECKING:
    from armada.rpc.session import HostSession


@contextlib.contextmanager
def unasked(_: str) -> Iterator[object]:
    """A session in which nothing can be asked."""
    yield object()


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    found = HomePaths(tmp_path / "config", tmp_path / "state")
    found.make()
    return found


def test_on_a_login_node_the_profile_has_to_be_named(home: HomePaths) -> None:
    cluster = Host(name="c", ssh="c", scheduler="slurm")
    with pytest.raises(UsageError, match="the login node does not show which GPUs"):
        named_profile(cluster, None, home)
    named = named_profile(cluster, "cpu", home)
    assert named is not None
    assert named.name == "cpu"
    assert named_profile(Host(name="desk", ssh="desk"), None, home) is None


def test_a_host_that_was_removed_meanwhile_is_asked_nothing(home: HomePaths, tmp_path: Path) -> None:
    host = Host(name="desk", ssh="desk")

    def connect(name: str) -> HostSession:
        return cast("HostSession", unasked(name))

    with Database(home.store) as database:
        with pytest.raises(Conflict, match="removed from"):
            provision_host(
                database, home, host, None, connect, argv=["armada"], project=tmp_path, progress=NullProgress()
            )
        (seen,) = operations.recent(database, 5)
        assert (seen.kind, seen.state) == ("provision", "failed")
