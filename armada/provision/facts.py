"""Ask a host what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.protocol.facts import AskFacts, Facts
from armada.protocol.message import parse

if TYPE_CHECKING:
    from armada.rpc.session import HostSession

PATIENCE_S = 30.0


def ask_facts(session: HostSession, *, timeout_s: float = PATIENCE_S) -> Facts:
    """Ask what the host is made of.

    Raises:
        UnexpectedAnswer: A field of the answer does not fit.
        HostUnreachable: The host does not answer.
    """
    answer = session.call(AskFacts.method, {}, timeout_s=timeout_s)
    return parse(Facts, answer, host=session.host.name, method=AskFacts.method)
