"""A session that remembers asks equal questions once, and only inside the block."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.paths import HomePaths
from armada.protocol.facts import AskFacts
from armada.rpc import session as session_module
from armada.rpc.client import Call
from armada.rpc.session import HostSession


class _Agent:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def call(self, method: str, params: dict[str, object], **_: object) -> dict[str, object]:
        self.asked.append(f"{method} {params}")
        return {"number": len(self.asked)}

    def call_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        return [self.call(call.method, call.params) for call in calls]


@pytest.fixture
def agent() -> _Agent:
    return _Agent()


@pytest.fixture
def session(tmp_path: Path, agent: _Agent, monkeypatch: pytest.MonkeyPatch) -> HostSession:
    found = HostSession(Host.model_validate({"name": "a", "ssh": "u@a"}), HomePaths(tmp_path, tmp_path))
    monkeypatch.setattr(found, "_open", lambda: agent)
    return found


def test_equal_questions_are_asked_once_inside_and_again_outside(session: HostSession, agent: _Agent) -> None:
    with session.remembering():
        first, other = session.call("m", {"a": 1}), session.call("m", {"a": 2})
        with session.remembering():
            assert session.call("m", {"a": 1}) == first != other
    assert agent.asked == ["m {'a': 1}", "m {'a': 2}"]
    assert session.call("m", {"a": 1}) != first
    assert session.call("m", {"a": 1}) == {"number": 4}


def test_of_several_questions_only_the_new_ones_are_asked_in_their_order(session: HostSession, agent: _Agent) -> None:
    calls: list[Call[Any]] = [Call("m", {"a": number}) for number in (1, 2, 3)]
    with session.remembering():
        early = session.call_all([calls[1]])
        answers = session.call_all([calls[0], calls[1], calls[2], calls[0]])
    assert answers == [{"number": 2}, *early, {"number": 3}, {"number": 2}]
    assert len(agent.asked) == 3


def test_a_remembered_answer_is_as_old_as_when_it_came(session: HostSession, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000, 9000, 1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    monkeypatch.setattr(session_module, "parse_answer", lambda *_: None)
    with session.remembering():
        session.call(AskFacts())
        assert [session.received_at(AskFacts()) for _ in range(2)] == [1000.0, 1000.0]
    assert session.received_at(AskFacts()) >= 4000.0
