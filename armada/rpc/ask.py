"""Ask a host with a request of `armada.protocol`, and parse what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from armada.protocol.message import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from armada.protocol.message import Request
    from armada.rpc.session import HostSession

A = TypeVar("A", bound="BaseModel")


def ask(
    session: HostSession,
    request: Request[A],
    *,
    timeout_s: float = 30.0,
    on_progress: Callable[[str, float | None], None] | None = None,
) -> A:
    """Ask the host's agent.

    Raises:
        HostUnreachable: No answer within the session's patience.
        UnexpectedAnswer: A field of the answer does not fit; the host, the method and the field are named.
        ArmadaError: The agent answered with an error.
    """
    more = {} if on_progress is None else {"on_progress": on_progress}
    answer = session.call(request.method, request.as_params(), timeout_s=timeout_s, **more)
    return cast("A", parse(request.answer, answer, host=session.host.name, method=request.method))
