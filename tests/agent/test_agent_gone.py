"""A root that goes away under a conversation: another home wiped the host, or its file system was unmounted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from armada.config.hosts import Host
from armada.errors import Conflict, NotFound
from armada.paths import HomePaths
from armada.rpc.session import HostSession


def test_an_agent_whose_root_was_wiped_says_so(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.make()
    host = Host(name="box", local=True, root=str(tmp_path / "root"))
    with HostSession(host, home) as session:
        session.call("run.list", {})
        shutil.rmtree(tmp_path / "root")
        with pytest.raises(Conflict, match=r"is gone: wiped a moment ago .*, or no longer mounted") as told:
            session.call("host.facts", {})
        assert told.value.hint == "run the same command again once the root is restored"


def test_a_run_that_is_not_there_is_not_there_whatever_became_of_the_root(tmp_path: Path) -> None:
    """`armada stop` asks about the root itself when it hears this."""
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.make()
    host = Host(name="box", local=True, root=str(tmp_path / "root"))
    with HostSession(host, home) as session:
        question = {"run_id": "q-aaaaaa", "grace_s": 1.0}
        with pytest.raises(NotFound):
            session.call("run.stop", question)
        shutil.rmtree(tmp_path / "root")
        with pytest.raises(NotFound):
            session.call("run.stop", question)
