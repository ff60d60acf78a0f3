"""What stands where a link to a host would be: questions and blocks go to the simulated agent, in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from armada.config.hosts import Host
from armada.errors import ArmadaError, HostUnreachable
from armada.paths import HomePaths, HostPaths
from armada.protocol.message import Request
from armada.rpc.byte_stream import Block
from armada.rpc.client import Call, parse_answer
from armada.rpc.outage import Outage
from tests import host_facts
from tests.simulation import folders

if TYPE_CHECKING:
    from tests.simulation.host import SimHost

_BUILDS_ON_HOME = ("outbox.ack", "outbox.prune")
"""What a home says once its copies are proven: hosts delete because of it."""


class SimStream:
    """Stands in for `armada.rpc.byte_stream.Stream`."""

    is_direct = is_spent = False
    is_greeted = True

    def __init__(self, host: SimHost) -> None:
        self._host = host
        self._asked: list[Block] = []

    @property
    def outstanding(self) -> list[Block]:
        return list(self._asked)

    def ask(self, block: Block) -> None:
        self._asked.append(block)

    def receive(self, sink: Callable[[Block, int, bytes | memoryview], None]) -> tuple[Block, int]:
        block = self._asked[0]
        data = self._host.read(block.run_id, block.path, block.offset, block.length)
        if data:
            sink(block, block.offset, data)
        self._asked.pop(0)
        return block, len(data)

    def close(self) -> None:
        pass


class SimSession:
    """Stands in for `armada.rpc.session.HostSession`."""

    def __init__(self, host: SimHost, home: HomePaths) -> None:
        self.host = Host(name=host.name, ssh=f"root@{host.name}", root=str(host.root), scheduler=host.scheduler)
        self.home = home
        self.patience_s = 0.0
        self.outage = Outage(host.name)
        self.round_trip_s = None
        self.noise = ""
        self.without_rsync = "there is no rsync in the simulation"
        self._there = host
        self.paths = HostPaths(PurePosixPath(host.root))

    def call(self, request: Request[Any] | str, params: dict[str, Any] | None = None, /, **_: Any) -> Any:
        question = _as_call(request, params)
        return parse_answer(question.answer, self._said(question), question.method, self.host.name)

    def _said(self, question: Call[Any]) -> dict[str, Any]:
        method, params = question.method, question.params
        if method == "host.facts":
            return host_facts.answer()  # a real one starts programs, and nobody here asks what a machine is made of
        self._hold_to_disk(method)
        return self._there.ask(method, params)

    def call_all(self, questions: Sequence[Call[Any]]) -> list[Any]:
        answers: list[Any] = []
        for question in questions:
            self._hold_to_disk(question.method)
            try:
                answer = self._there.ask(question.method, question.params)
                answers.append(parse_answer(question.answer, answer, question.method, self.host.name))
            except HostUnreachable:
                raise
            except ArmadaError as error:
                answers.append(error)
        return answers

    def _hold_to_disk(self, method: str) -> None:
        """What builds on copies at home is not said while the disk that has them is away."""
        is_away = method in _BUILDS_ON_HOME and folders.is_away(str(self.home.state))
        self._there.world.hold(not is_away, f"{method} was asked for while the disk of the home is not mounted")

    def begin(
        self, request: Request[Any] | str, params: dict[str, Any] | None = None, /, **_: Any
    ) -> Callable[[], Any]:
        (answer,) = self.call_all([_as_call(request, params)])

        def wait() -> Any:
            if isinstance(answer, ArmadaError):
                raise answer
            return answer

        return wait

    def when_connected(self, then: Callable[[], None]) -> None:
        """There is no connection."""

    def open_stream(self) -> SimStream:
        self._there.require()
        return SimStream(self._there)

    @contextlib.contextmanager
    def patient(self, _seconds: float, *, endless: bool = False) -> Iterator[None]:  # as the session's
        yield

    def close(self) -> None:
        pass


def _as_call(request: Request[Any] | str, params: dict[str, Any] | None) -> Call[Any]:
    return Call(request, params or {}) if isinstance(request, str) else Call.of(request)
