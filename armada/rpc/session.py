"""A session with one host that survives a broken link: every request is idempotent, so it is simply repeated."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import weakref
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from armada.errors import ArmadaError, HostKeyChanged, HostUnreachable, LinkLost, LoginNeeded, SessionClosed
from armada.foundation.backoff import jitter_roll
from armada.foundation.sanitize import sanitize_text
from armada.paths import HostPaths
from armada.rpc.client import Agent, Call, parse_answer
from armada.rpc.outage import RECONNECT, SAY_AFTER_S, Outage, waiting_for
from armada.transport import connect
from armada.transport.interface import DIRECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from armada.config.hosts import Host
    from armada.foundation.progress import TransferProgress
    from armada.paths import HomePaths
    from armada.protocol.message import Request
    from armada.rpc.byte_stream import Stream
    from armada.transport.interface import Pull, Transport

T = TypeVar("T")
M = TypeVar("M", bound="BaseModel")

_CONTROLLERS = {"slurm": "the Slurm controller", "htcondor": "HTCondor's queue (the schedd)"}
_ASK_CONTROLLER = frozenset(
    ("run.observe", "run.explain", "run.create", "run.submit", "run.stop", "scheduler.check", "scheduler.queue")
)

_CLOSE_S = 1.0
"""How long `close` waits for a thread that is connecting, in seconds."""

RECYCLE_BYTES = 200_000_000
"""Reconnect after receiving so many bytes: Paramiko can deadlock when it re-keys at 512 MiB (paramiko #822)."""


class HostSession:
    """Opens the link when it is first needed, and again after it was lost, until the session is closed.

    Args:
        host: The host.
        home: Home's folders: keys, pinned host keys.
        patience_s: How long after the first failure a request is repeated before the failure is raised, in seconds.
        looks: Create nothing on a host without armada's files: requests raise `NothingThere` instead.
    """

    def __init__(self, host: Host, home: HomePaths, *, patience_s: float = 60.0, looks: bool = False) -> None:
        self.host = host
        self._home = home
        self._patience_s = patience_s
        self._looks = looks
        self._transport: Transport | None = None
        self._agent: Agent | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._is_endless = False
        self.outage = Outage(host.name)
        """What to tell the user while the link is down; transfers over this session report here too."""
        self._when_connected: list[Callable[[], None]] = []
        self._remembered: dict[str, Any] | None = None
        self._received: dict[str, float] = {}
        self.without_rsync: str | None = None
        """Why rsync cannot be used with the host; None unless that has failed."""

    @overload
    def call(
        self,
        request: Request[M],
        /,
        *,
        timeout_s: float = 30.0,
        on_progress: Callable[[str, float | None], None] | None = None,
    ) -> M: ...

    @overload
    def call(
        self,
        request: str,
        params: Mapping[str, object],
        /,
        *,
        timeout_s: float = 30.0,
        on_progress: Callable[[str, float | None], None] | None = None,
    ) -> Any: ...

    def call(
        self,
        request: Request[M] | str,
        params: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float = 30.0,
        on_progress: Callable[[str, float | None], None] | None = None,
    ) -> Any:
        """Call the host's agent. A request of `armada.protocol` returns its model; a method called by name returns an object.

        Raises:
            HostUnreachable: No answer within the session's patience.
            UnexpectedAnswer: The answer does not match the request's model.
            ArmadaError: The agent answered with an error.
        """
        asked: Call[M] = _as_call(request, params, timeout_s)
        memory = self._remembered
        key = _identity(asked) if memory is not None else ""
        if memory is not None and key in memory:
            return parse_answer(asked.answer, memory[key], asked.method, self.host.name)
        with self._heard_if_controller_is_slow((asked.method,)):
            answer = self.persist(
                lambda: self._open().call(asked.method, asked.params, timeout_s=timeout_s, on_progress=on_progress)
            )
        if memory is not None:
            memory[key] = answer
            self._received[key] = time.time()
        return parse_answer(asked.answer, answer, asked.method, self.host.name)

    def call_all(self, questions: Sequence[Call[Any]]) -> list[Any]:
        """Send several requests for the price of one round trip; see `Agent.call_all`.

        Raises:
            HostUnreachable: No answer within the session's patience.
        """
        memory = self._remembered
        if memory is None:
            return self._call_all(questions)
        known = {key: each for each in questions if (key := _identity(each, parsed=True)) not in memory}
        if known:
            memory.update(zip(known, self._call_all(list(known.values())), strict=True))
        return [memory[_identity(each, parsed=True)] for each in questions]

    def _call_all(self, questions: Sequence[Call[Any]]) -> list[Any]:
        with self._heard_if_controller_is_slow([question.method for question in questions]):
            return self.persist(lambda: self._open().call_all(questions))

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """Answer equal questions inside the block from memory. Only for blocks in which the host's answers do not change."""
        before = self._remembered
        self._remembered = {} if before is None else before
        try:
            yield
        finally:
            self._remembered = before
            if before is None:
                self._received.clear()

    def received_at(self, request: Request[Any]) -> float:
        """Return when the answer that `call` has just returned came from the host, in unix time: earlier, if remembered."""
        return self._received.get(_identity(Call.of(request, 0.0)), time.time())

    @overload
    def begin(self, request: Request[M], /, *, timeout_s: float = 30.0) -> Callable[[], M]: ...

    @overload
    def begin(self, request: str, params: Mapping[str, object], /, *, timeout_s: float = 30.0) -> Callable[[], Any]: ...

    def begin(
        self, request: Request[M] | str, params: Mapping[str, object] | None = None, /, *, timeout_s: float = 30.0
    ) -> Callable[[], Any]:
        """Send an idempotent request without waiting for the answer.

        Returns:
            A function that waits for the answer, and repeats the request if the link broke meanwhile; it raises as
            `call` does.

        Raises:
            HostUnreachable: The request could not be sent within the session's patience.
        """
        asked: Call[M] = _as_call(request, params, timeout_s)
        answer = self.persist(lambda: self._open().begin(asked.method, asked.params))

        def wait() -> Any:
            try:
                told = answer(timeout_s)
            except LinkLost:
                told = self.call(asked.method, asked.params, timeout_s=timeout_s)
            return parse_answer(asked.answer, told, asked.method, self.host.name)

        return wait

    def push(
        self, source: Path, files: Sequence[str], destination: str, progress: Callable[[TransferProgress], None]
    ) -> None:
        self.persist(lambda: self._connected().push(source, files, destination, progress))

    def pull(self, wanted: Pull, progress: Callable[[TransferProgress], None]) -> None:
        """Copy files from the host by rsync, once: the caller knows what arrived before a link broke. Raises as `Transport.pull`."""
        self._connected().pull(wanted, progress)

    def open_stream(self) -> Stream:
        """Open a separate channel for file contents. A broken one is not reopened: the caller knows what is missing.

        Raises:
            HostUnreachable: Here, or in the stream's first `receive`.
        """
        from armada.rpc.byte_stream import Stream

        return self._opened(Stream(self._connected().open_bulk_channel(), self.host, self._home))

    def open_direct_stream(self) -> Stream | None:
        """Open a channel for file contents over the open connection; None if that is impossible, or gains nothing.

        Raises:
            LinkLost: The connection was lost.
        """
        from armada.rpc.byte_stream import Stream

        transport = self._transport
        channel = transport.open_direct_channel() if transport is not None else None
        if channel is None:
            return None
        return self._opened(Stream(channel, self.host, self._home, most_bytes=DIRECT_BYTES))

    def _opened(self, stream: Stream) -> Stream:
        """Register a stream, so that `close` ends it.

        Raises:
            SessionClosed: The session was closed meanwhile.
        """
        with self._lock:
            if not self._is_closed:
                self._streams.add(stream)
                return stream
        stream.close()
        raise self._closed_error()

    def when_connected(self, then: Callable[[], None]) -> None:
        """Call a function once the host has accepted the login: now, or later from the thread that connects."""
        with self._lock:
            if self._transport is None:
                self._when_connected.append(then)
                return
        then()

    @property
    def round_trip_s(self) -> float | None:
        """The round trip of the open link, in seconds; None without a link, or if it was not measured."""
        return self._transport.round_trip_s if self._transport is not None else None

    @contextlib.contextmanager
    def patient(self, seconds: float, *, endless: bool = False) -> Iterator[None]:
        """Change the patience inside the block; `endless` if the caller itself retries forever."""
        usual = self._patience_s, self._is_endless
        self._patience_s, self._is_endless = seconds, endless
        try:
            yield
        finally:
            self._patience_s, self._is_endless = usual

    @property
    def patience_s(self) -> float:
        return self._patience_s

    @property
    def home(self) -> HomePaths:
        return self._home

    @property
    def paths(self) -> HostPaths:
        """Paths under the host's root, as the host itself resolved it."""
        return HostPaths(PurePosixPath(self.persist(lambda: self._open().hello.root)))

    @property
    def has_greeted(self) -> bool:
        """Whether the host's agent has answered on the open link."""
        agent = self._agent
        return agent is not None and agent.has_greeted

    @property
    def noise(self) -> str:
        return self._agent.noise if self._agent is not None else ""

    @property
    def banner(self) -> str:
        """What the host's sshd showed before the login, sanitized; empty if it showed nothing."""
        return sanitize_text(str(getattr(self._transport, "banner", "")), 4000)

    def disconnect(self) -> None:
        """Disconnect for now: the next request opens the link again."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Disconnect for good. Threads that wait for an answer or for bytes, and later calls, get SessionClosed or LinkLost at once."""
        self._is_closed = True
        if self._lock.acquire(timeout=_CLOSE_S):  # a thread that is connecting sees the flag, and disconnects itself
            try:
                self._drop()
                streams = list(self._streams)
            finally:
                self._lock.release()
            for stream in streams:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def persist(self, ask: Callable[[], T]) -> T:
        """Repeat a call that a broken link interrupted, within the session's patience; the call must be idempotent."""
        first_failure: float | None = None
        tries = 0
        while True:
            try:
                with self._heard_if_slow():
                    answer = ask()
            except (HostKeyChanged, LoginNeeded):  # waiting does not help: the user has to act
                raise
            except HostUnreachable as error:
                if self._is_closed:
                    raise self._closed_error() from error
                self.disconnect()
                now = time.monotonic()
                first_failure = first_failure or now
                # Only a broken link is retried; if a host never answered, the error is raised at once.
                if not isinstance(error, LinkLost) and tries == 0:
                    raise
                if now - first_failure > self._patience_s:
                    raise
                tries += 1
                self.outage.failed(error, None if self._is_endless else self._patience_s)
                time.sleep(RECONNECT.pause_s(tries, jitter_roll()))
            except ArmadaError as error:
                # It cannot even begin this time; what was asked before the link broke may have been done.
                if tries == 0 or self.has_greeted:
                    raise
                raise LinkLost(error.message, hint=error.hint, host=error.host) from error
            else:
                self.outage.over()
                return answer

    @contextlib.contextmanager
    def _heard_if_slow(self) -> Iterator[None]:
        """Tell the user if a host does not answer for long after connecting; later, the link's own watchdog does that."""
        if self._agent is not None and self._agent.has_greeted:
            yield
            return
        timer = threading.Timer(SAY_AFTER_S, self._say_slow)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _heard_if_controller_is_slow(self, methods: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        """Tell the user if the host answers but waits for its batch system; if the host is silent, the link reports that."""
        controller = _CONTROLLERS.get(self.host.scheduler)
        if controller is None or _ASK_CONTROLLER.isdisjoint(methods):
            return contextlib.nullcontext()
        return waiting_for(f"{controller} of {self.host.name}", lambda: self.has_greeted)

    def _say_slow(self) -> None:
        agent = self._agent
        if agent is None:
            self.outage.slow(SAY_AFTER_S, None)
        elif not agent.has_greeted:
            self.outage.slow(SAY_AFTER_S, agent.silence_hint)

    def _connected(self) -> Transport:
        with self._lock:
            self._refuse_if_closed()
            transport = self._transport = self._transport or connect(self.host, self._home)
            self._refuse_if_closed()  # the session may have been closed meanwhile
            told, self._when_connected = self._when_connected, []
        for then in told:
            then()
        return transport

    def _open(self) -> Agent:
        transport = self._connected()
        with self._lock:
            self._refuse_if_closed()
            if self._agent is not None and self._agent.received_bytes > RECYCLE_BYTES:
                self._drop()  # the connection too, because it would re-key
                transport = self._transport = connect(self.host, self._home)
            if self._agent is None:
                self._agent = Agent.open(transport, self._home, setup=self.host.setup, looks=self._looks)
            agent = self._agent
            self._refuse_if_closed()
            return agent

    def _refuse_if_closed(self) -> None:
        """Raise if the session was closed, and disconnect what was opened meanwhile. Call it with the lock held.

        Raises:
            SessionClosed: The session was closed.
        """
        if self._is_closed:
            self._drop()
            raise self._closed_error()

    def _closed_error(self) -> SessionClosed:
        return SessionClosed("the session was closed here", host=self.host.name)

    def _drop(self) -> None:
        if self._agent is not None:
            self._agent.close()
            self._agent = None
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def _identity(call: Call[Any], *, parsed: bool = False) -> str:
    return json.dumps([call.method, call.params, parsed], sort_keys=True)


def _as_call(request: Request[M] | str, params: Mapping[str, object] | None, timeout_s: float) -> Call[M]:
    return Call(request, dict(params or {}), timeout_s) if isinstance(request, str) else Call.of(request, timeout_s)
