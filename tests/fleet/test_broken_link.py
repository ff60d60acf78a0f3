"""Links that break, hang and crawl between home and a real SSH server."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from armada.errors import (
    LinkLost,
)
from armada.paths import HomePaths
from armada.rpc.client import Agent
from armada.transport import connect, fabric_transport

if TYPE_CHECKING:
    from tests.fleet.conftest import BadLink, Fleet, SshHost

    Known = Callable[..., SshHost]
    PutBadLink = Callable[..., BadLink]


@pytest.fixture(params=["fabric", "openssh"])
def transport_kind(request: pytest.FixtureRequest) -> str:
    """Every test here is about both."""
    return str(request.param)


@pytest.mark.fault(
    "link reset while calls wait",
    "every caller is told, none hangs",
)
def test_a_reset_link_ends_every_waiting_call(
    known: Known, home: HomePaths, fleet: Fleet, bad_link: PutBadLink, slow_call: Callable[[Agent], None]
) -> None:
    link = bad_link(fleet.host("workstation"))
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent, ThreadPoolExecutor(3) as pool:
        _ = agent.hello
        waiting = [pool.submit(slow_call, agent) for _ in range(3)]
        link.reset()
        for future in waiting:
            with pytest.raises(LinkLost, match="connection was lost") as caught:
                future.result(timeout=60)
            assert caught.value.host == "via"
        with pytest.raises(LinkLost):
            agent.call("host.facts", {})
        with pytest.raises(LinkLost):
            transport.open_channel()


@pytest.mark.fault(
    "black hole, nobody asking",
    "noticed within the watchdog's time, 25 s",
)
@pytest.mark.takes_long("nothing tells of a black hole but that 15 s passed without an answer")
def test_a_black_hole_is_noticed_without_any_answer(
    known: Known, home: HomePaths, fleet: Fleet, bad_link: PutBadLink, record_property: Callable[[str, object], None]
) -> None:
    assert fabric_transport.PROBE_EVERY_S + fabric_transport.PROBE_ANSWER_S <= 30
    link = bad_link(fleet.host("workstation"))
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
        _ = agent.hello
        link.toggle()
        began = time.monotonic()
        with pytest.raises(LinkLost, match="no answer to host"):
            agent.call("host.facts", {}, timeout_s=0.5)
        with pytest.raises(LinkLost, match="no answer for 15 s"):
            agent.call("host.facts", {}, timeout_s=120)
        record_property("seen", f"noticed after {time.monotonic() - began:.0f} s")


@pytest.mark.fault(
    "short black hole",
    "the call is answered late, nothing is lost",
)
def test_a_short_black_hole_harms_nothing(known: Known, home: HomePaths, fleet: Fleet, bad_link: PutBadLink) -> None:
    link = bad_link(fleet.host("workstation"))
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
        _ = agent.hello
        link.toggle()
        with pytest.raises(LinkLost):
            agent.call("host.facts", {}, timeout_s=0.5)
        link.toggle()
        assert agent.call("host.facts", {})["hostname"] == "workstation"


@pytest.mark.fault(
    "pieces of one byte, long round trips",
    "bootstrap and calls work",
)
def test_a_link_of_one_byte_pieces_and_long_round_trips_carries_everything(
    known: Known, home: HomePaths, fleet: Fleet, bad_link: PutBadLink
) -> None:
    link = bad_link(fleet.host("workstation"), "--rtt-ms", "100", "--slice", "1")
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
        assert agent.call("host.facts", {}, timeout_s=60)["hostname"] == "workstation"


@pytest.fixture
def slow_call() -> Callable[[Agent], None]:
    """Something that an agent takes longer over than any test waits."""

    def ask(agent: Agent) -> None:
        while True:
            agent.call("host.facts", {}, timeout_s=120)

    return ask
