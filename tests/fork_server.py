"""Commands as real processes at the price of a fork: 3 ms instead of the 300 ms that Python needs to load armada.

A server process loads armada's modules once and waits. Each command is a fork of it, with the arguments, environment, folder,
standard output and standard error that the test names. So a command has a pid of its own, may end itself, leave threads or be
killed, and leaves nothing in the tests' process. What the interpreter itself reads when it starts is the server's, though: tests
about that start a process anew.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

_ENVIRON = dict(os.environ)
_READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter reads once, when it starts."""
ROOT = Path(__file__).parent.parent
_NOT_LOADED = "armada.tui"
_PIECE_BYTES = 1 << 16


def suits(env: Mapping[str, str]) -> bool:
    """Whether a process with this environment would start as ours did."""

    def at_start(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith(_READ_AT_START)}

    return at_start(env) == at_start(_ENVIRON)


class ForkServer:
    """The tests' end: asks the server for commands. Any thread may."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        argv = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                argv, cwd=ROOT, env=_ENVIRON, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float,
        gate: tuple[Path, Path] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, as `subprocess.run` would.

        Args:
            arguments: The words after `armada`.
            cwd: Where.
            env: Its whole environment.
            timeout_s: When to give up.
            gate: Two named pipes: the command says in the first that it is there, and begins when a byte comes from the second.

        Raises:
            subprocess.TimeoutExpired: It was killed, because it had not ended in time.
        """
        with contextlib.ExitStack() as stack:
            request, theirs = socket.socketpair()
            stack.enter_context(request)
            out, to_out = os.pipe()
            err, to_err = os.pipe()
            stack.callback(os.close, out)
            stack.callback(os.close, err)
            try:
                socket.send_fds(self._socket, [b"."], [theirs.fileno(), to_out, to_err])
            finally:
                theirs.close()
                os.close(to_out)
                os.close(to_err)
            asked = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
            asked["gate"] = [str(pipe) for pipe in gate or ()]
            request.sendall(json.dumps(asked).encode() + b"\n")
            said = _read_all([out, err, request.fileno()], request, arguments, timeout_s)
        out_text, err_text = _text(said[0]), _text(said[1])
        if not said[2]:
            raise RuntimeError(f"the fork server has ended; {arguments} said {out_text!r} and {err_text!r}")
        return subprocess.CompletedProcess(list(arguments), int(said[2]), out_text, err_text)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _text(said: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(said)).read()


def _read_all(sources: list[int], request: socket.socket, arguments: Sequence[str], timeout_s: float) -> list[bytes]:
    """Read each source to its end: the command's two streams, and what the server says about it."""
    said = {source: bytearray() for source in sources}
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if time.monotonic() > deadline:
                _kill(request)
                raise subprocess.TimeoutExpired(list(arguments), timeout_s, bytes(said[sources[0]]))
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                said[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    return [bytes(said[source]) for source in sources]


def _kill(request: socket.socket) -> None:
    """Return once the command is reaped: until then it may hold its locks."""
    with contextlib.suppress(OSError):
        request.sendall(b"kill\n")
        while request.recv(_PIECE_BYTES):
            pass


_servers: list[ForkServer] = []


def running() -> ForkServer:
    """The server of this process, started when first asked for."""
    if not _servers:
        _servers.append(ForkServer())
    return _servers[0]


def end() -> None:
    """End the server, if there is one."""
    while _servers:
        _servers.pop().close()


class _Server:
    """The server's end. One thread, or forks would be unsafe."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._running: dict[int, socket.socket] = {}
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        for each in (
            signal.SIGCHLD,
            signal.SIGINT,
        ):  # Ctrl-C is for the commands, and for the tests, which then hang up
            signal.signal(each, lambda *_: None)

    def serve(self) -> None:
        """Start commands until the tests have gone."""
        while True:
            ready, _, _ = select.select([self._asked, self._woken, *self._running.values()], [], [])
            if self._woken in ready:
                self._woken.recv(_PIECE_BYTES)
                self._reap()
            for pid, request in self._running.items():
                if request in ready:  # the test has no more patience, or is gone
                    os.kill(pid, signal.SIGKILL)
            if self._asked in ready and not self._start():
                return

    def _start(self) -> bool:
        """Start what is asked for; false once nobody is there to ask."""
        mark, descriptors, _, _ = socket.recv_fds(self._asked, 1, 3)
        if not mark:
            return False
        number, out, err = descriptors
        request = socket.socket(fileno=number)
        asked = b""
        while not asked.endswith(b"\n"):
            asked += request.recv(_PIECE_BYTES)
        pid = os.fork()
        if not pid:
            ours = [self._asked, self._woken, self._waker, request, *self._running.values()]
            _become(json.loads(asked), out, err, ours)
        self._running[pid] = request
        os.close(out)
        os.close(err)
        return True

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._running.pop(pid) as request, contextlib.suppress(OSError):
                request.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _become(asked: dict[str, Any], out: int, err: int, ours: Sequence[socket.socket]) -> NoReturn:
    """Be `python -m armada` with these arguments; never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in ours:
            each.close()
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        sys.stdout = _stream(1, sys.stdout)
        sys.stderr = _stream(2, sys.stderr)
        os.environ.clear()
        os.environ.update(asked["env"])
        time.tzset()
        tempfile.tempdir = None
        os.chdir(asked["cwd"])
        import armada.__main__ as program

        sys.path[0] = asked["cwd"]
        sys.argv = [str(program.__file__), *asked["arguments"]]
        if asked["gate"]:
            _wait_at(*asked["gate"])
        code = _call(program.main)
    except BaseException:
        traceback.print_exc()
    finally:
        _end(code)


def _wait_at(here: str, go: str) -> None:
    with Path(here).open("wb", buffering=0) as pipe:
        pipe.write(b".")
    with Path(go).open("rb", buffering=0) as pipe:
        pipe.read(1)


def _call(main: Callable[[], int]) -> int:
    try:
        sys.exit(main())
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return (leaving.code or 0) & 0xFF
        print(leaving.code, file=sys.stderr)
        return 1


def _end(code: int) -> NoReturn:
    """What an interpreter does when it ends, but for taking 700 modules apart."""
    try:
        gc.collect()  # closes the stores that only a cycle still holds
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for threads that are no daemons
        atexit._run_exitfuncs()  # noqa: SLF001 - os._exit leaves them out
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        code = 120
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _stream(descriptor: int, like: Any) -> io.TextIOWrapper:
    return open(
        descriptor,
        "w",
        encoding=like.encoding,
        errors=like.errors,
        buffering=1 if descriptor == 2 else -1,
        closefd=False,
    )


def _load() -> None:
    """Import what commands import, but for the dashboard, which no command of these shows."""
    import armada

    for module in pkgutil.walk_packages(armada.__path__, "armada."):
        if not module.name.startswith(_NOT_LOADED) and not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    import armada.__main__
    from armada.protocol.message import Message
    from armada.rpc.agent_archive import build
    from armada.transport.bootstrap import upload

    # What a process makes on first use and keeps: nearly every test has a host of its own, which gets the agent and answers.
    upload(build()[0], packed=True)
    for model in _below(Message):
        model.model_rebuild()


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)


def main() -> None:
    """Load armada, then serve."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    _load()
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    _Server(asked).serve()


if __name__ == "__main__":
    main()
