"""Starts payload processes by forking one that has imported torch and its family: 8 s of CPU time less for each.

    python -P fork_server.py SOCKET [--bare]

`--bare` imports nothing. It prints a line when it is ready, and ends, with all that it started, when its standard input
does: the test worker that started it holds the other end, and lets go of it however it dies.

What a forked process has as a new one would: working folder, environment, arguments, standard streams, import path, a
session of its own, default signal handlers, fresh random states, no open files of anybody else, `__main__` by runpy, a real
end of the interpreter. Nothing of `armada_train` is imported before the fork. `armada_train.launch` is run as it is, with
accelerate's own launcher and torchrun's own agent under it; only where those would start an interpreter, the server forks.

What it does not prove, and fresh processes in other tests do:
* that the payload imports what it needs, and nothing before its refusals (tests with `-X importtime`);
* what libraries read from the environment when they are imported: a request with other such values is refused;
* that no library starts a thread or a process when it is imported: here none is alive at the fork, or the server fails;
* another order of sets: all that is forked has the server's hash seed;
* limits (`ulimit`) inherited by ranks from the launcher: they are the server's.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tests.payload.forked_process import LARGEST_MESSAGE, ForkedProcess
else:  # run as a program, by a Python that knows nothing of the tests
    sys.path.append(str(Path(__file__).parent))
    from forked_process import LARGEST_MESSAGE, ForkedProcess

    sys.path.pop()

# What a training imports, as seen in sys.modules at the end of one; most of it is lazily imported otherwise.
PRELOADED = [
    "torch", "torch.distributed.run", "torch.distributed.elastic.multiprocessing.errors", "torch.utils.data",
    "transformers", "transformers.trainer", "transformers.models.qwen2.modeling_qwen2", "transformers.models.auto",
    "trl", "trl.chat_template_utils", "peft", "peft.tuners.lora", "accelerate", "accelerate.commands.launch",
    "datasets", "pyarrow", "safetensors.torch",
]  # fmt: skip
LAZY = [("trl", "SFTTrainer"), ("trl", "SFTConfig"), ("peft", "LoraConfig"), ("transformers", "Qwen2ForCausalLM")]
# Libraries read these when they are imported. `HF_HUB_OFFLINE` and its like the payload itself sets before it imports them.
READ_AT_IMPORT = (
    "HF_",
    "HUGGINGFACE_",
    "TRANSFORMERS_",
    "DATASETS_",
    "TRL_",
    "PEFT_",
    "OMP_",
    "MKL_",
    "CUDA_",
    "PYTHON",
)
READ_ANEW = {"PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUNBUFFERED"}
SET_BY_THE_PAYLOAD = {
    "HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS",
}  # fmt: skip


PR_SET_PDEATHSIG = 1


class Become(BaseException):
    """What os.exec does: this process goes on as another program, whatever it was doing."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request


def main() -> None:
    server = sys.argv[1]
    base_path = [folder for folder in sys.path if folder]
    if "--bare" not in sys.argv:
        preload()
    gc.collect()
    gc.freeze()  # or each child's first collection would copy every page
    preloaded = set(sys.modules)
    request = Server(server).serve()  # returns in children alone
    while True:
        try:
            run(request, server, base_path)
            return
        except Become as other:
            request = other.request
            for name in set(sys.modules) - preloaded:
                if name.partition(".")[0] == "armada_train":
                    del sys.modules[name]


def preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for package, name in LAZY:
        getattr(importlib.import_module(package), name)
    conversions = importlib.import_module("transformers.conversion_mapping")
    conversions.get_checkpoint_conversion_mapping("qwen2")  # 900 regular expressions, a quarter of a short training


class Server:
    """Answers requests, one thread, until its standard input ends."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        self._started: dict[int, tuple[socket.socket, dict[str, Any]]] = {}
        self._selector = selectors.DefaultSelector()
        self._wakes, self._woken = os.pipe()
        for descriptor in (self._wakes, self._woken):
            os.set_blocking(descriptor, False)

    def serve(self) -> dict[str, Any]:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then end this process
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.set_wakeup_fd(self._woken)
        for readable in (self._listener, sys.stdin, self._wakes):
            self._selector.register(readable, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    self._end()
                elif key.fileobj is self._listener:
                    if (request := self._answer()) is not None:
                        return request
                else:
                    os.read(self._wakes, 4096)
                    self._reap()

    def _answer(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        message, streams, _, _ = socket.recv_fds(connection, LARGEST_MESSAGE, 2)
        request = json.loads(message)
        if "list" in request:
            connection.send(json.dumps({pid: asked for pid, (_, asked) in self._started.items()}).encode())
            connection.close()
            return None
        if refusal := refuse(request):
            connection.send(json.dumps({"refused": refusal}).encode())
            pid = None
        else:
            pid = os.fork()
        if pid == 0:
            self._leave(connection, streams)
            return dict(request)
        for stream in streams:
            os.close(stream)
        if pid is None:
            connection.close()
            return None
        self._started[pid] = connection, request
        return None

    def _leave(self, connection: socket.socket, streams: list[int]) -> None:
        """Be nobody's, and only then known: called in the child, which no signal may reach as the server's."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        ctypes.CDLL(None).prctl(
            PR_SET_PDEATHSIG, signal.SIGKILL
        )  # should the server be killed, which else ends them all
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, place in zip((null, *streams), (0, 1, 2), strict=True):
            os.dup2(descriptor, place)
        connection.send(json.dumps({"pid": os.getpid()}).encode())
        connection.close()
        self._selector.close()
        self._listener.close()
        self._started.clear()
        os.closerange(3, max(int(entry.name) for entry in Path("/proc/self/fd").iterdir()) + 1)

    def _reap(self) -> None:
        while self._started:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            connection, _ = self._started.pop(pid)
            with contextlib.suppress(OSError):  # nobody asks any more
                connection.send(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())
            connection.close()

    def _end(self) -> NoReturn:
        for pid in self._started:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    kill(pid, signal.SIGKILL)
        os._exit(0)


def refuse(request: dict[str, Any]) -> str | None:
    """Say why a fork would not be what a new process is."""
    alive = list(Path("/proc/self/task").iterdir())
    if len(alive) > 1:
        return f"{len(alive)} threads are alive in the fork server: a fork could not be trusted"
    asked = request["env"]
    for name in sorted({*asked, *os.environ} - READ_ANEW):
        if name.startswith(READ_AT_IMPORT) and asked.get(name) != os.environ.get(name):
            if name in SET_BY_THE_PAYLOAD and name not in asked:
                continue
            return f"{name} is {asked.get(name)!r} and {os.environ.get(name)!r} in the fork server: start a new process"
    try:
        read_command(request["args"])
    except ValueError as error:
        return str(error)
    return None


def read_command(args: list[str]) -> tuple[str, str, list[str]]:
    """Read a command line of Python: the kind of program, the program, its arguments."""
    rest = args[1:]
    while rest and rest[0] == "-u":
        rest = rest[1:]
    if not rest or (rest[0].startswith("-") and rest[0] not in ("-m", "-c")):
        raise ValueError(f"the fork server cannot run {args}")
    return (rest[0], rest[1], rest[2:]) if rest[0] in ("-m", "-c") else ("", rest[0], rest[1:])


def run(request: dict[str, Any], server: str, base_path: list[str]) -> None:
    kind, program, arguments = read_command(request["args"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # the state that libraries share; Python's own is seeded anew by os.fork
    unbuffered = "-u" in request["args"][1:2] or bool(os.environ.get("PYTHONUNBUFFERED"))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=unbuffered)  # type: ignore[union-attr]
    first = str(Path(program).resolve().parent) if not kind else request["cwd"] if kind == "-m" else ""
    python_path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*([] if os.environ.get("PYTHONSAFEPATH") else [first]), *python_path, *base_path]
    sys.argv[:] = [kind or program, *arguments]
    importlib.invalidate_caches()
    if "torch" in sys.modules:
        start_by_fork(server)
    if kind == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(program, "<string>", "exec"), vars(module))
    else:
        runpy.run_path(program, run_name="__main__")


def start_by_fork(server: str) -> None:
    """Have a launcher's own children forked too, and what it would become by exec run right here."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    def become(_program: str, args: list[str], env: dict[str, str]) -> NoReturn:
        raise Become({"args": list(args), "env": dict(env), "cwd": str(Path.cwd())})

    subprocess_handler.Popen = partial(ForkedProcess, server=server)
    os.execvpe = become  # type: ignore[assignment]


if __name__ == "__main__":
    main()
