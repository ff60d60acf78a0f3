"""A conversation that survives its link: what was asked and not heard is asked again."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.errors import LinkLost, SessionClosed
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.transport.ssh.login import Login


class FakeAgent:
    """An agent whose first answer is lost with the link."""

    received_bytes = 0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def begin(self, method: str, params: dict[str, Any]) -> Callable[[float], dict[str, Any]]:
        self.asked.append(method)

        def wait(_timeout_s: float) -> dict[str, Any]:
            raise LinkLost("the link broke", host="far")

        return wait

    def call(self, method: str, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.asked.append(method)
        return {"said": params}


def test_what_was_asked_before_the_link_broke_is_asked_again_when_its_answer_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = FakeAgent()
    monkeypatch.setattr(HostSession, "_open", lambda _: agent)
    session = HostSession(Host(name="far", ssh="far"), HomePaths(config=tmp_path, state=tmp_path))
    answer = session.begin("outbox.ack", {"digest": "d"})
    assert agent.asked == ["outbox.ack"]
    assert answer() == {"said": {"digest": "d"}}
    assert agent.asked == ["outbox.ack", "outbox.ack"]


def test_what_waits_for_the_connection_is_told_once_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    session = HostSession(Host(name="local"), HomePaths(config=tmp_path, state=tmp_path))
    session.when_connected(lambda: told.append("waited"))
    assert told == []
    with session:
        session.open_stream().close()
        session.open_stream().close()
        session.when_connected(lambda: told.append("at once"))
    assert told == ["waited", "at once"]


def test_a_login_asks_for_the_cipher_that_costs_least() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        login = Login(ours)
        assert login.get_security_options().ciphers[:2] == ("aes128-gcm@openssh.com", "aes128-ctr")
        login.close()


def local_session(folder: Path) -> HostSession:
    return HostSession(Host(name="local"), HomePaths(config=folder, state=folder))


def test_a_session_that_was_closed_does_not_connect_again(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        assert session.call("run.list", {}) == {"runs": []}
    for ask in (lambda: session.call("run.list", {}), session.open_stream, lambda: session.paths):
        with pytest.raises(SessionClosed, match="the session was closed here"):
            ask()


def test_a_session_that_hung_up_for_now_connects_again(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        session.call("run.list", {})
        session.disconnect()
        assert session.call("run.list", {}) == {"runs": []}


def test_who_waits_for_an_answer_hears_at_once_that_the_session_was_closed(tmp_path: Path) -> None:
    session = local_session(tmp_path)
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        session.close()  # as another thread does meanwhile
        raise LinkLost("the channel was closed", host="local")

    with pytest.raises(SessionClosed):
        session.persist(ask)
    assert asked == 1


def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    session = local_session(tmp_path)
    stream = session.open_stream()
    stream.greet()
    session.close()
    with pytest.raises(LinkLost):
        stream.receive(lambda *_: None)


def test_a_connection_that_opens_while_the_session_is_closed_is_hung_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    session = local_session(tmp_path)

    class Late:
        def close(self) -> None:
            closed.append("late")

    def connect(*_: Any) -> Late:
        monkeypatch.setattr(session, "_is_closed", True)  # as `close` in another thread, which cannot wait for us
        return Late()

    monkeypatch.setattr("armada.rpc.session.connect", connect)
    with pytest.raises(SessionClosed):
        session.open_stream()
    assert closed == ["late"]
