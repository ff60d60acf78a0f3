"""Call the agent's methods from any thread: JSON-RPC over one channel, many calls in flight."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from armada.errors import ArmadaError, LinkLost, NothingThere
from armada.paths import HomePaths
from armada.rpc.agent_errors import start_error
from armada.rpc.connection import AgentConnection, ProgressNote, Response
from armada.rpc.greeting import Greeting
from armada.transport.interface import Channel, Transport, root_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from armada.protocol.message import Request

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 60.0
_JOIN_S = 2.0

_T = TypeVar("_T")
M = TypeVar("M", bound="BaseModel")
OnProgress = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Call(Generic[M]):
    """One call of a method. Its result is parsed as `answer`, if that is set."""

    method: str
    params: dict[str, object]
    timeout_s: float = 30.0
    answer: type[M] | None = None

    @classmethod
    def of(cls, request: Request[M], timeout_s: float = 30.0) -> Call[M]:
        """Return the call that sends `request` and parses its answer."""
        return Call(request.method, request.as_params(), timeout_s, cast("type[M]", request.answer))


@dataclass(slots=True)
class _PendingCall:
    method: str
    on_progress: OnProgress | None
    answer: Future[dict[str, object]] = field(default_factory=Future)


class Agent:
    """An agent on a host, reached over its own channel.

    Requests are sent without waiting for the hello, so that a call over an open connection costs one round trip. All
    methods may be called from any thread.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        host: str,
        root: str,
        archive: tuple[bytes, str],
        setup: Sequence[str] = (),
        looks: bool = False,
    ) -> None:
        self._channel = channel
        self._host = host
        self._lock = threading.Lock()
        self._calls: dict[int, _PendingCall] = {}
        self._ending: ArmadaError | None = None
        self._hello: Future[Greeting] = Future()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._connection = AgentConnection(
            channel, host=host, root=root, archive=archive, setup=setup, looks=looks, write=self._outgoing.put
        )
        self._threads = [
            threading.Thread(target=self._write, name=f"to agent on {host}", daemon=True),
            threading.Thread(target=self._read, name=f"from agent on {host}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def open(
        cls,
        transport: Transport,
        home: HomePaths,
        *,
        archive: tuple[bytes, str] | None = None,
        setup: Sequence[str] = (),
        looks: bool = False,
    ) -> Self:
        """Start an agent over `transport` without waiting for it. `hello` and `call` raise what went wrong.

        Args:
            transport: The transport to the host.
            home: Home's folders; they determine the folder of the host `local`.
            archive: The agent's zipapp and its SHA-256; None for the bundled one.
            setup: Shell lines that set up the host.
            looks: Create nothing on a host without armada's files: `hello` and `call` raise `NothingThere`.

        Raises:
            HostUnreachable: No channel could be opened.
        """
        if archive is None:
            from armada.rpc.agent_archive import build

            archive = build()
        host = transport.host
        channel = transport.open_channel()
        return cls(channel, host=host.name, root=root_of(host, home), archive=archive, setup=setup, looks=looks)

    @property
    def hello(self) -> Greeting:
        """Wait for the agent's hello.

        Raises:
            ProvisionFailed: The agent could not start: no python3, no usable root folder, or a full disk.
            LinkLost: It did not answer in time, or the connection was lost.
        """
        return self._wait(self._hello, HELLO_TIMEOUT_S, "no agent answered", self.silence_hint)

    @property
    def silence_hint(self) -> str:
        """Return what the user can check if the agent does not answer."""
        return f"the login worked, but nothing answered: a start-up file there may be waiting for input. Check with: ssh {self._host} true"

    @property
    def has_greeted(self) -> bool:
        """Whether the agent has said hello."""
        return self._hello.done() and self._hello.exception() is None

    @property
    def noise(self) -> str:
        """The end of the host's other output (start-up files, banners), sanitized."""
        return self._connection.noise

    @property
    def received_bytes(self) -> int:
        """Bytes received over this channel. Paramiko should carry at most about 256 MiB over one connection."""
        return self._connection.received_bytes

    def call(
        self,
        method: str,
        params: dict[str, object],
        timeout_s: float = 30.0,
        on_progress: OnProgress | None = None,
    ) -> dict[str, object]:
        """Call a method of the agent and wait for its answer.

        Args:
            method: A method of protocol.json.
            params: Its parameters.
            timeout_s: How many seconds to wait. After a timeout it is unknown whether the agent did it.
            on_progress: Called with a sentence and a fraction, from another thread.

        Raises:
            NotFound, Conflict, ProvisionFailed, ArmadaError: The agent answered with an error.
            LinkLost: No answer in time, or the connection was lost.
        """
        return self._answer_to(self._ask(method, params, on_progress), timeout_s)

    def begin(self, method: str, params: dict[str, object]) -> Callable[[float], dict[str, object]]:
        """Send a request without waiting. The returned function waits that many seconds for the answer. Both raise as `call` does."""
        asked = self._ask(method, params)
        return lambda timeout_s: self._answer_to(asked, timeout_s)

    def call_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Send several requests at once and wait for all answers.

        Returns:
            The answer to each call: the model that the call names, or a JSON object; an `ArmadaError` if the agent
            answered with an error or the answer is invalid.

        Raises:
            LinkLost: As for `call`.
        """
        began = time.monotonic()
        asked = [self._ask(call.method, call.params) for call in calls]
        answers: list[Any] = []
        for call, pending in zip(calls, asked, strict=True):
            try:
                answer = self._answer_to(pending, max(0.0, began + call.timeout_s - time.monotonic()))
                answers.append(parse_answer(call.answer, answer, call.method, self._host))
            except LinkLost:
                raise
            except ArmadaError as error:
                answers.append(error)
        return answers

    def _ask(
        self, method: str, params: dict[str, object], on_progress: OnProgress | None = None
    ) -> tuple[int, _PendingCall]:
        call = _PendingCall(method, on_progress)
        number, line = self._connection.new_request(method, params)
        with self._lock:
            if self._ending:
                raise _again(self._ending)
            self._calls[number] = call
        self._outgoing.put(line)
        return number, call

    def _answer_to(self, asked: tuple[int, _PendingCall], timeout_s: float) -> dict[str, object]:
        number, call = asked
        try:
            return self._wait(call.answer, timeout_s, f"no answer to {call.method}")
        except LinkLost as error:
            if isinstance(error.__cause__, TimeoutError) and not self._hello.done():
                raise LinkLost(
                    f"no agent answered within {timeout_s:g} s", hint=self.silence_hint, host=self._host
                ) from error
            raise
        finally:
            with self._lock:
                self._calls.pop(number, None)

    def close(self) -> None:
        """Close the connection. Pending calls end with LinkLost; runs continue."""
        self._end(LinkLost("armada closed the connection", host=self._host))
        self._outgoing.put(None)
        self._channel.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, future: Future[_T], timeout_s: float, silence: str, hint: str = "run the same command again") -> _T:
        try:
            return future.result(timeout_s)
        except ArmadaError as error:
            raise _again(error) from error
        except TimeoutError as error:
            raise LinkLost(f"{silence} within {timeout_s:g} s", hint=hint, host=self._host) from error

    def _write(self) -> None:
        while (data := self._outgoing.get()) is not None:
            try:
                self._channel.write(data)
            except LinkLost:
                return  # the reader finds the reason and passes it to all callers

    def _read(self) -> None:
        try:
            if greeting := self._connection.greet():
                self._greet(greeting)
                while message := self._connection.receive():
                    if isinstance(message, Response):
                        self._answer(message)
                    else:
                        self._report_progress(message)
            self._end(self._explain_end())
        except ArmadaError as error:
            self._end(error)
            self._channel.close()
        except Exception as error:
            log.exception("reading from the agent on %s failed", self._host)
            self._end(LinkLost(f"reading from the agent failed: {error}", host=self._host))
            self._channel.close()

    def _greet(self, greeting: Greeting) -> None:
        with self._lock:
            if self._ending is None:  # otherwise `close` was quicker, and whoever waits has been told
                self._hello.set_result(greeting)

    def _answer(self, response: Response) -> None:
        with self._lock:
            call = self._calls.pop(response.number, None)
        if call is None:
            return  # the caller gave up waiting
        try:
            call.answer.set_result(response.outcome(call.method, host=self._host))
        except ArmadaError as error:
            call.answer.set_exception(error)

    def _report_progress(self, note: ProgressNote) -> None:
        with self._lock:
            call = self._calls.get(note.number)
        if call is None or call.on_progress is None:
            return
        try:
            call.on_progress(note.message, note.fraction)
        except Exception:  # an error in displaying progress must not end the other callers' requests
            log.exception("progress of %s on %s could not be shown", call.method, self._host)

    def _end(self, error: ArmadaError) -> None:
        with self._lock:
            if self._ending:
                return
            self._ending = error
            waiting = [call.answer for call in self._calls.values()]
            self._calls.clear()
            if not self._hello.done():
                self._hello.set_exception(error)
        for answer in waiting:
            answer.set_exception(error)

    def _explain_end(self) -> ArmadaError:
        diagnosis = self._connection.diagnosis()
        if self._hello.done():
            return LinkLost(f"the agent ended: {diagnosis}", hint="run the same command again", host=self._host)
        return start_error(self.noise, diagnosis, host=self._host)


def parse_answer(model: type[M] | None, answer: dict[str, object], method: str, host: str) -> M | dict[str, object]:
    """Parse an answer as its model. Return it unchanged if there is no model.

    Raises:
        UnexpectedAnswer: The answer is invalid.
    """
    if model is None:
        return answer
    from armada.protocol.message import parse

    return parse(model, answer, host=host, method=method)


def _again(error: ArmadaError) -> ArmadaError:
    """Copy an error for one more thread: a traceback belongs to one raise."""
    again = type(error)(error.message, hint=error.hint, host=error.host)
    if isinstance(error, NothingThere) and isinstance(again, NothingThere):
        again.root = error.root
    return again
