"""Measure the link to a host and say what `auto` would choose and why, for `armada hosts check`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.hosts import home_bytes_per_s
from armada.protocol.host import Probe
from armada.sync.transfer.method import Method, choose_transfer, trouble_here, trouble_there

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.rpc.session import HostSession

_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Judged:
    """The method for fetching checkpoints, the reason, and the round trip that decided it."""

    method: Method
    reason: str
    round_trip_s: float


def judge_link(session: HostSession, facts: Mapping[str, Any]) -> Judged:
    """Measure the link to a host, and choose the method.

    Args:
        session: An open session with it.
        facts: The facts that it just sent.

    Raises:
        HostUnreachable: The connection was lost meanwhile.
        ConfigError: The limits in hosts.yaml are invalid.
    """
    round_trip_s = min(_ask(session) for _ in range(_SAMPLES))
    host = session.host
    limits = (host.bytes_per_s, home_bytes_per_s(session.home))
    noise = "the host's start-up files print text" if session.noise else None
    choice = choose_transfer(
        "auto",
        round_trip_s=round_trip_s,
        is_local=host.local,
        shares_limit=any(limit is not None for limit in limits),
        trouble=trouble_here() or trouble_there(facts) or noise,
    )
    return Judged(choice.method, choice.reason, round_trip_s)


def _ask(session: HostSession) -> float:
    began = time.monotonic()
    session.call(Probe(send_bytes=0, padding=""))
    return time.monotonic() - began
