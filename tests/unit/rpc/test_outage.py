"""What a person reads while a link is down, from any command that waits for a host."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.cli import trust
from armada.config.hosts import Host
from armada.errors import HostUnreachable, LinkLost, ProvisionFailed
from armada.paths import HomePaths
from armada.rpc import outage as link
from armada.rpc.outage import Outage
from armada.rpc.session import HostSession
from tests.waiting import eventually

BROKEN = LinkLost("no answer for 15 s", host="box")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(link, "_listeners", [heard.append])
    return heard


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostSession:
    monkeypatch.setattr("armada.rpc.session.time.sleep", lambda _seconds: None)
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    return HostSession(Host(name="box", ssh="me@box"), home, patience_s=60.0)


def fails(*times: Exception | str) -> Callable[[], str]:
    left = list(times)

    def ask() -> str:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_a_link_that_is_lost_and_comes_back_is_said_once_each(said: list[str], box: HostSession) -> None:
    assert box.persist(fails(BROKEN, BROKEN, "here")) == "here"
    lost, back = said
    assert re.fullmatch(r"no answer from box \(no answer for 15 s\); trying again until \d\d:\d\d:\d\d", lost)
    assert back.startswith("box answers again after ")
    assert box.persist(fails("here")) == "here"
    assert len(said) == 2


def test_an_error_before_a_repeated_request_is_sent_is_no_answer_to_the_first(box: HostSession) -> None:
    """The host may have done what was asked before the link broke, and has a full disk now."""
    with pytest.raises(LinkLost, match="no space left") as lost:
        box.persist(fails(BROKEN, ProvisionFailed("no space left", hint="make room", host="box")))
    assert lost.value.hint == "make room"
    with pytest.raises(ProvisionFailed):
        box.persist(fails(ProvisionFailed("no space left", host="box")))


def test_who_asks_without_end_says_so(said: list[str], box: HostSession) -> None:
    with box.patient(2.0, endless=True):
        box.persist(fails(BROKEN, "here"))
    assert said[0].endswith("trying again until it answers")


def test_a_host_that_never_answered_is_an_error_and_no_outage(said: list[str], box: HostSession) -> None:
    with pytest.raises(HostUnreachable):
        box.persist(fails(HostUnreachable("refused", host="box")))
    assert said == []


def test_a_long_outage_is_said_again_now_and_then(said: list[str]) -> None:
    now = 0.0
    outage = Outage("box", monotonic=lambda: now)
    for moment in (0.0, 5.0, 10.0, 16.0, 20.0, 32.0):
        now = moment
        outage.failed(BROKEN, 60.0)
    assert [re.sub(r"\d\d:\d\d:\d\d", "T", each) for each in said] == [
        "no answer from box (no answer for 15 s); trying again until T",
        "no answer from box for 16 s (no answer for 15 s); trying again until T",
        "no answer from box for 32 s (no answer for 15 s); trying again until T",
    ]
    outage.over()
    assert said[-1] == "box answers again after 32 s"
    outage.over()
    assert len(said) == 4


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (None, "no answer from box for 20 s; still waiting"),
        (SimpleNamespace(has_greeted=False, silence_hint="a start-up file?"), "still waiting (a start-up file?)"),
    ],
)
def test_a_host_that_says_nothing_for_long_is_named_while_it_is_waited_for(
    said: list[str], box: HostSession, monkeypatch: pytest.MonkeyPatch, agent: Any, words: str
) -> None:
    started: list[Callable[[], None]] = []

    class Timer:
        def __init__(self, _seconds: float, tell: Callable[[], None]) -> None:
            self.start = lambda: started.append(tell)
            self.cancel = lambda: None

    monkeypatch.setattr("armada.rpc.session.threading.Timer", Timer)

    def ask() -> str:
        with monkeypatch.context() as patched:
            patched.setattr(box, "_agent", agent)
            started[0]()
        return "here"

    box.persist(ask)
    assert words in said[0]
    assert said[1] == "box answers again after 20 s"


def test_a_host_that_takes_long_to_show_its_key_is_named(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_SAY_WAITING_AFTER_S", 0.0)

    def frozen(*_: object) -> list[object]:
        eventually(lambda: said)
        raise HostUnreachable("did not answer in time", host="box")

    monkeypatch.setattr("armada.transport.ssh.handshake.scan", frozen)
    context: Any = SimpleNamespace(home=HomePaths(config=tmp_path / "config", state=tmp_path / "state"))
    with pytest.raises(HostUnreachable):
        trust.show_key(context, Host(name="box", ssh="me@127.0.0.1:1"), as_json=False)
    assert said == ["waiting for box to show its key"]


@pytest.mark.parametrize(("greeted", "heard"), [(True, ["waiting for the Slurm controller of hpc"]), (False, [])])
def test_a_host_that_waits_for_its_slurm_controller_says_so(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, greeted: bool, heard: list[str]
) -> None:
    host = Host(name="hpc", ssh="me@hpc", scheduler="slurm")
    session = HostSession(host, HomePaths(config=tmp_path / "config", state=tmp_path / "state"))
    monkeypatch.setattr(link, "_SAY_WAITING_AFTER_S", 0.0)

    class SlowAgent:
        has_greeted = greeted

        def call(self, *_: object, **__: object) -> dict[str, Any]:
            eventually(lambda: not greeted or said)
            return {}

    monkeypatch.setattr(session, "_open", SlowAgent)
    session._agent = SlowAgent()  # type: ignore[assignment]  # noqa: SLF001  # of an agent only what is asked here
    session.call("run.explain", {})
    assert said == heard
    session.call("host.facts", {})
    assert said == heard
