"""The home side of the agent's protocol: JSON-RPC 2.0 over one channel, many calls in flight."""

from __future__ import annotations

import itertools
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from armada.errors import ArmadaError, LinkLost, NothingThere
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.paths import HomePaths
from armada.rpc.agent_errors import call_error, start_error
from armada.rpc.greeting import Greeter, Greeting, read_object, request_line
from armada.transport.bootstrap import opening
from armada.transport.interface import Channel, Transport, root_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from armada.protocol.message import Request

log = logging.getLogger(__name__)

LINE_LIMIT_BYTES = 8 << 20
NOISE_LIMIT_BYTES = 64 << 10
HELLO_TIMEOUT_S = 60.0
_NOISE_LINE_BYTES = 4 << 10
_JOIN_S = 2.0

_T = TypeVar("_T")
M = TypeVar("M", bound="BaseModel")
OnProgress = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Question(Generic[M]):
    """One of several things asked at once; without `answer` the answer is not parsed."""

    method: str
    params: dict[str, object]
    timeout_s: float = 30.0
    answer: type[M] | None = None

    @classmethod
    def of(cls, request: Request[M], timeout_s: float = 30.0) -> Question[M]:
        """Ask this, and parse the answer."""
        return Question(request.method, request.as_params(), timeout_s, cast("type[M]", request.answer))


@dataclass(slots=True)
class _Call:
    method: str
    on_progress: OnProgress | None
    answer: Future[dict[str, object]] = field(default_factory=Future)


class Agent:
    """An agent on a host, reached over a channel of its own.

    Requests go out without waiting for the hello, so that a warm call costs one round trip after connecting. All
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
        program, sha256 = archive
        nonce = secrets.token_hex(16)
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._ending: ArmadaError | None = None
        self._hello: Future[Greeting] = Future()
        self._noise = bytearray()
        self._received_bytes = 0
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._outgoing.put(opening(root=root, sha256=sha256, nonce=nonce, setup=setup, looks=looks))
        self._greeter = Greeter(program, nonce, self._outgoing.put, host=host)
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
        """Start an agent over `transport`, without waiting for it: what went wrong is raised by `hello` and `call`.

        Args:
            transport: Where to.
            home: Decides where the host `local` keeps its folder.
            archive: The agent's zipapp and its sha256, where it is not the bundled one.
            setup: Lines of shell that the host needs before anything.
            looks: Where the host has nothing of armada's, nothing is made there: `hello` and `call` raise `NothingThere`.

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
        """What the agent said about itself.

        Raises:
            ProvisionFailed: It could not start: no python3, no usable root folder, disk full.
            LinkLost: It did not answer in time, or the connection went away.
        """
        return self._wait(self._hello, HELLO_TIMEOUT_S, "no agent answered", self.silence_hint)

    @property
    def silence_hint(self) -> str:
        """What to look for where the agent says nothing."""
        return f"the login worked, but nothing answered: a start-up file there may be waiting for input. Check with: ssh {self._host} true"

    @property
    def has_greeted(self) -> bool:
        """Whether the agent has said hello."""
        return self._hello.done() and self._hello.exception() is None

    @property
    def noise(self) -> str:
        """What the host printed before the agent spoke (start-up files, banners), cleaned."""
        with self._lock:
            return sanitize_text(self._noise.decode("utf-8", "replace")).strip()

    @property
    def received_bytes(self) -> int:
        """How much has come over this channel: Paramiko should carry no more than about 256 MiB on one connection."""
        return self._received_bytes

    def call(
        self,
        method: str,
        params: dict[str, object],
        timeout_s: float = 30.0,
        on_progress: OnProgress | None = None,
    ) -> dict[str, object]:
        """Ask the agent to do something and wait for its answer.

        Args:
            method: As in protocol.json.
            params: Its parameters.
            timeout_s: How long to wait; afterwards it is unknown whether it was done.
            on_progress: Called with a sentence and a fraction, from another thread.

        Raises:
            NotFound, Conflict, ProvisionFailed, ArmadaError: The agent said no.
            LinkLost: No answer in time, or the connection went away.
        """
        return self._answer_to(self._ask(method, params, on_progress), timeout_s)

    def begin(self, method: str, params: dict[str, object]) -> Callable[[float], dict[str, object]]:
        """Ask without waiting; what is returned waits so many seconds for the answer. Both raise as `call` does."""
        asked = self._ask(method, params)
        return lambda timeout_s: self._answer_to(asked, timeout_s)

    def call_all(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """Ask several things in one flight, and wait for all answers; what the agent refused stands in its answer's place.

        An answer is the model that its question names, or else an object of JSON's; one that does not fit stands as an error.

        Raises:
            LinkLost: As `call` does.
        """
        began = time.monotonic()
        asked = [(self._ask(question.method, question.params), question.timeout_s) for question in questions]
        answers: list[Any] = []
        for question, ((number, call), timeout_s) in zip(questions, asked, strict=True):
            try:
                answer = self._answer_to((number, call), max(0.0, began + timeout_s - time.monotonic()))
                answers.append(parse_answer(question.answer, answer, question.method, self._host))
            except LinkLost:
                raise
            except ArmadaError as error:
                answers.append(error)
        return answers

    def _ask(self, method: str, params: dict[str, object], on_progress: OnProgress | None = None) -> tuple[int, _Call]:
        call = _Call(method, on_progress)
        number = next(self._ids)
        line = request_line(number, method, params)
        if len(line) > LINE_LIMIT_BYTES:
            raise ArmadaError(f"the request {method} is {len(line)} bytes; the limit is 8 MiB", host=self._host)
        with self._lock:
            if self._ending:
                raise _again(self._ending)
            self._calls[number] = call
        self._outgoing.put(line)
        return number, call

    def _answer_to(self, asked: tuple[int, _Call], timeout_s: float) -> dict[str, object]:
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
        """Hang up. Calls in flight end with LinkLost; runs go on."""
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
                return  # the reader finds out why, and tells everybody

    def _read(self) -> None:
        lines = LineSplitter(LINE_LIMIT_BYTES)
        try:
            while data := self._channel.read():
                self._received_bytes += len(data)
                for line in lines.feed(data):
                    self._receive(line)
                if lines.overlong and self._hello.done():
                    raise LinkLost("the agent sent a line of more than 8 MiB", host=self._host)
            self._end(self._explain_end())
        except ArmadaError as error:
            self._end(error)
            self._channel.close()
        except Exception as error:
            log.exception("reading from the agent on %s failed", self._host)
            self._end(LinkLost(f"reading from the agent failed: {error}", host=self._host))
            self._channel.close()

    def _receive(self, line: bytes) -> None:
        if self._hello.done():
            message = read_object(line)
            if message is None:
                self._keep_noise(line)
            elif "method" in message:
                self._report_progress(message.get("params"))
            else:
                self._answer(message)
            return
        if not self._greeter.take(line):
            self._keep_noise(line)
        elif self._greeter.greeting is not None:
            self._hello.set_result(self._greeter.greeting)

    def _answer(self, message: dict[str, object]) -> None:
        number = message.get("id")
        with self._lock:
            call = self._calls.pop(number, None) if isinstance(number, int) else None
        if call is None:
            return  # it gave up waiting
        result = message.get("result")
        if "error" in message:
            call.answer.set_exception(call_error(message["error"], call.method, host=self._host))
        elif isinstance(result, dict):
            call.answer.set_result(result)
        else:
            call.answer.set_exception(ArmadaError(f"the answer to {call.method} is not an object", host=self._host))

    def _report_progress(self, params: object) -> None:
        if not isinstance(params, dict):
            return
        number, fraction = params.get("id"), params.get("fraction")
        with self._lock:
            call = self._calls.get(number) if isinstance(number, int) else None
        if call is None or call.on_progress is None:
            return
        try:
            call.on_progress(
                sanitize_line(params.get("message", "")),
                float(fraction) if isinstance(fraction, int | float) else None,
            )
        except Exception:  # a fault in drawing progress must not end everybody's calls
            log.exception("progress of %s on %s could not be shown", call.method, self._host)

    def _keep_noise(self, line: bytes) -> None:
        with self._lock:
            self._noise += line[:_NOISE_LINE_BYTES] + b"\n"
            del self._noise[:-NOISE_LIMIT_BYTES]

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
        diagnosis = self._channel.diagnosis()
        if self._hello.done():
            return LinkLost(f"the agent ended: {diagnosis}", hint="run the same command again", host=self._host)
        return start_error(self.noise, diagnosis, host=self._host)


def parse_answer(model: type[M] | None, answer: dict[str, object], method: str, host: str) -> M | dict[str, object]:
    """The model of an answer, or the answer as it is where there is none.

    Raises:
        UnexpectedAnswer: It does not fit.
    """
    if model is None:
        return answer
    from armada.protocol.message import parse

    return parse(model, answer, host=host, method=method)


class LineSplitter:
    """Cuts a stream into lines and drops those longer than `limit`, remembering that there was one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._dropping = False
        self.overlong = False

    def feed(self, data: bytes) -> list[bytes]:
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            self._hold(end)
            if not self._dropping:
                lines.append(b"".join(self._parts))
            self._parts, self._held_bytes, self._dropping = [], 0, False
        self._hold(rest)
        return lines

    def _hold(self, part: bytes) -> None:
        self._held_bytes += len(part)
        if self._held_bytes > self._limit:
            self._parts, self._dropping, self.overlong = [], True, True
        elif part:
            self._parts.append(part)


def _again(error: ArmadaError) -> ArmadaError:
    """Copy an error for one more thread: a traceback belongs to one raise."""
    again = type(error)(error.message, hint=error.hint, host=error.host)
    if isinstance(error, NothingThere) and isinstance(again, NothingThere):
        again.root = error.root
    return again
