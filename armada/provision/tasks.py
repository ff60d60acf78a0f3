"""Run a host's Fabric tasks, each once: start the process that runs them, show what they print, stop at the first that fails."""

from __future__ import annotations

import codecs
import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import armada.errors
from armada.errors import ArmadaError, ConfigError, LinkLost, ProvisionFailed
from armada.foundation.sanitize import last_state, sanitize_line
from armada.units import counted, span

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.config.provision_tasks import TaskCall
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths

SHOWN_LINES = 1000
"""So many lines of a task are shown as they come; of the others only the last ones."""
_LAST_LINES = 15
_LINE_BYTES = 16_384
_PIECE_BYTES = 65_536
_GOODBYE_S = 3.0
_LIVE_S = 0.2
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What became of a task.

    Attributes:
        title: The task, as a person names it.
        outcome: `there`: it had run already. `due`: it would run, in a dry run.
        seconds: How long it ran; 0 if it did not.
    """

    title: str
    outcome: Literal["ran", "there", "due"]
    seconds: float = 0.0


def run_tasks(
    home: HomePaths,
    host: Host,
    calls: Sequence[TaskCall],
    progress: Progress,
    *,
    named: bool = False,
    again: bool = False,
    dry_run: bool = False,
    password: str | None = None,
) -> list[TaskOutcome]:
    """Run the tasks that a host has not seen succeed yet, in their order. The caller holds the host's lock.

    Args:
        home: The folders with the pinned keys.
        host: The host. Its agent is not needed.
        calls: The tasks. One that is named twice counts once, however its file is spelled.
        progress: Receives the tasks' output, line by line.
        named: A person named them: those that armada brings are run in any case, since they look for themselves.
        again: Run them all, seen or not.
        dry_run: Run none.
        password: For sudo.

    Raises:
        ConfigError: A file of tasks cannot be used, or has no such task.
        ProvisionFailed: A task failed. Those after it were not started.
        HostUnreachable: Or a subclass. With LinkLost, the current task may have ended or not.
    """
    calls = _once(calls)
    if not calls:
        return []
    done: list[TaskOutcome] = []
    with _process(host) as process:
        progress.now("tasks", f"connecting to {host.name}")
        ended_at = [each["done_at"] for each in process.begin(home, calls, password, progress)]
        for number, call in enumerate(calls):
            at = ended_at[number]
            if at is not None and not again and not (named and call.file is None):
                progress.stage("task", f"{call.title}: ran there already{_when(at)}")
                done.append(TaskOutcome(call.title, "there"))
            elif dry_run:
                progress.stage("task", f"{call.title}: would run")
                done.append(TaskOutcome(call.title, "due"))
            else:
                done.append(_run(process, number, call, progress))
    return done


def _once(calls: Sequence[TaskCall]) -> list[TaskCall]:
    found: dict[tuple[str, str, str], TaskCall] = {}
    for call in calls:
        found.setdefault(_identity(call), call)
    return list(found.values())


def _identity(call: TaskCall) -> tuple[str, str, str]:
    """Return what makes a task the same one: its file, whatever it is called, its name and its arguments."""
    file = os.path.realpath(call.file) if call.file is not None else ""
    return file, call.task, repr(call.arguments)  # 1 and True are equal, but not the same argument


def _when(at: float) -> str:
    """Say when a task ran, by the host's clock; nothing where the host does not know."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime(", %Y-%m-%d %H:%M") if at else ""


def _run(process: _TaskProcess, number: int, call: TaskCall, progress: Progress) -> TaskOutcome:
    progress.stage("task", call.title)
    began, output = time.monotonic(), _Output(progress, call.title)
    try:
        process.run(number, output.take)
    except LinkLost as error:
        raise LinkLost(
            f"{error.message} during the task {call.title}; it may or may not have ended there",
            hint="run the same command again; the task then runs again",
            host=error.host,
        ) from error
    except ProvisionFailed as error:
        last = "".join(f"\n    {line}" for line in output.last)
        message = f"the task {call.title} failed: {error.message}{f'. Its last lines:{last}' if last else ''}"
        raise ProvisionFailed(message, hint=error.hint, host=error.host) from error
    finally:
        output.end()
    seconds = time.monotonic() - began
    progress.stage("task", f"{call.title}: done in {span(seconds)}")
    return TaskOutcome(call.title, "ran", seconds)


class _Output:
    """What a task prints, shown line by line."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._title = title
        self._lines = 0
        self._shown_at = 0.0
        self._last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)

    @property
    def last(self) -> list[str]:
        """Its last lines."""
        return [_shown(line) for line in self._last]

    def take(self, line: str) -> None:
        if not line.strip():
            return
        self._lines += 1
        self._last.append(line)
        if self._lines <= SHOWN_LINES:
            self._progress.stage("", _shown(line))
        elif self._lines % 64 == 0 and time.monotonic() - self._shown_at > _LIVE_S:  # 100 MB are 10 million lines
            self._shown_at = time.monotonic()
            self._progress.now("task", f"{self._title}: {_shown(line)}")

    def end(self) -> None:
        more = self._lines - SHOWN_LINES
        if more > 0:
            self._progress.stage("", f"… {counted(more, 'more line')}, the last: {self.last[-1]}")


def _shown(line: str) -> str:
    return sanitize_line(last_state(line), 400).rstrip()


class _Lines:
    """Cuts bytes into lines; a line without an end is cut, too."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def take(self, data: bytes, *, final: bool = False) -> list[str]:
        *lines, self._rest = (self._rest + self._decoder.decode(data, final)).split("\n")
        if self._rest and (final or len(self._rest) > _LINE_BYTES):
            lines.append(self._rest)
            self._rest = ""
        return lines


class _TaskProcess:
    """`armada.transport.tasks`, running."""

    def __init__(self, host: Host, process: subprocess.Popen[bytes], requests: int, events: int) -> None:
        self._host = host
        self._process = process
        self._requests = requests
        self._events = events
        self._pending = b""
        self._lines = _Lines()
        if process.stdout is None:
            raise ValueError("`process` needs a pipe")
        self._output = process.stdout.fileno()
        os.set_blocking(self._output, False)

    def begin(
        self, home: HomePaths, calls: Sequence[TaskCall], password: str | None, progress: Progress
    ) -> list[dict[str, Any]]:
        """Have the files loaded and the host connected to. Return what the host knows of each task."""
        host = self._host
        settings = {
            **{key: getattr(host, key) for key in ("name", "ssh", "local", "root", "transport", "reuse_only")},
            "identity": str(host.identity) if host.identity is not None else None,
        }
        tasks = [
            {"file": str(call.file) if call.file else None, "task": call.task, "arguments": call.arguments}
            for call in calls
        ]
        places = [str(home.config), str(home.state)]
        order = {"host": settings, "home": places, "tasks": tasks, "password": password}
        ready: list[dict[str, Any]] = self._ask(order, _Output(progress, "loading").take)["ready"]
        return ready

    def run(self, number: int, say: Callable[[str], None]) -> None:
        """Run a task to its end. Raises what ended it."""
        self._ask({"run": number}, say)

    def _ask(self, request: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):  # it has ended; its last words say why
            os.write(self._requests, json.dumps(request).encode() + b"\n")
        event = self._await_event(say)
        if "error" in event:
            raise self._error(event["error"])
        return event

    def _await_event(self, say: Callable[[str], None]) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._events, selectors.EVENT_READ)
            while True:
                # A process that a task forked may hold the pipes open for ever: their end is not waited for.
                has_ended = self._process.poll() is not None
                ready = {key.fd for key, _ in selector.select(0 if has_ended else _LOOK_S)}
                # What was printed before an event is in the pipe by then, and is shown before it.
                if self._show_output(say) and self._output in selector.get_map():
                    selector.unregister(self._output)
                if self._events not in ready:
                    if has_ended:
                        return self._ended()
                    continue
                data = os.read(self._events, _PIECE_BYTES)
                self._pending += data
                line, newline, rest = self._pending.partition(b"\n")
                if newline:
                    self._pending = rest
                    for last in self._lines.take(b"", final=True):
                        say(last)
                    event: dict[str, Any] = json.loads(line)
                    return event
                if not data:
                    return self._ended()

    def _show_output(self, say: Callable[[str], None]) -> bool:
        """Show what has been printed; True at the end of all output."""
        for _ in range(256):  # then an event gets its turn
            try:
                data = os.read(self._output, _PIECE_BYTES)
            except BlockingIOError:
                return False
            for line in self._lines.take(data, final=not data):
                say(line)
            if not data:
                return True
        return False

    def _ended(self) -> dict[str, Any]:
        status = self._process.wait()
        how = f"signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"exit code {status}"
        return {"error": {"kind": "ProvisionFailed", "message": f"its process ended with {how}"}}

    def _error(self, told: dict[str, Any]) -> ArmadaError:
        kind = getattr(armada.errors, str(told.get("kind")), ProvisionFailed)
        message = sanitize_line(told.get("message"), 2000)
        hint = sanitize_line(told["hint"]) if told.get("hint") else None
        hint = hint and hint.replace("HOST", self._host.name).replace("{user}", "USER")
        if kind is ConfigError:
            return ConfigError(message, path=told.get("path"), line=told.get("line"), hint=hint)
        error: ArmadaError = kind(message, hint=hint, host=self._host.name)
        return error

    def end(self) -> None:
        """End the process and what it started here; a task that is running is asked to stop first."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
            with contextlib.suppress(LinkLost, ProvisionFailed):
                self._await_end()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _await_end(self) -> None:
        deadline = time.monotonic() + _GOODBYE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            self._show_output(lambda _: None)  # a full pipe would keep it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)


@contextlib.contextmanager
def _process(host: Host) -> Iterator[_TaskProcess]:
    """Start the process that runs tasks: apart from this one, so that a task's exit, prints and signals are its own."""
    requests_there, requests = os.pipe()
    events, events_there = os.pipe()
    with contextlib.ExitStack() as closing:
        for descriptor in (requests, events):
            closing.callback(os.close, descriptor)
        try:
            started = subprocess.Popen(
                [sys.executable, "-P", "-m", "armada.transport.tasks", str(requests_there), str(events_there)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(requests_there, events_there),
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8:backslashreplace"},
                start_new_session=True,  # Ctrl-C is for armada, which then ends the task
            )
        finally:
            os.close(requests_there)
            os.close(events_there)
        process = _TaskProcess(host, started, requests, events)
        with started:
            try:
                yield process
            finally:
                process.end()
