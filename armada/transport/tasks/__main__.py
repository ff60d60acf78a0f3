"""The process in which tasks run: `python -m armada.transport.tasks REQUESTS EVENTS`, two open descriptors.

It reads JSON lines and answers each with one. What tasks print goes to standard output and is nobody's protocol.

    {"host": …, "tasks": [{"file", "task", "arguments"}]}  →  {"ready": [{"done_at"}]}   after loading and connecting
    {"run": 0}                                             →  {"ran": 0}
    any                                                    →  {"error": {"kind", "message", "hint", …}}

The end of the requests ends the process, and with it what it started here.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.transport.tasks.connection import TaskConnection


@dataclass(frozen=True, slots=True)
class _Host:
    """The part of a host's configuration that says how to reach it (`armada.transport.HostLike`)."""

    name: str
    ssh: str | None
    local: bool
    root: str | None
    identity: Path | None
    transport: str
    reuse_only: bool


def main(requests: int, events: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and `&` have it ignored
    sys.dont_write_bytecode = True  # no __pycache__ beside the user's files
    for descriptor in (requests, events):
        os.set_inheritable(descriptor, False)
    asked: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(requests, asked), daemon=True).start()

    def say(**message: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(events, json.dumps(message).encode() + b"\n")

    from armada.transport.tasks.failures import as_event

    running: list[Path] = []
    try:
        _serve(asked, say, running)
    except BaseException as error:  # armada's own process tells the person
        say(error=as_event(error, running[-1] if running else None))


def _listen(requests: int, asked: queue.Queue[dict[str, Any]]) -> None:
    with os.fdopen(requests, "rb") as stream:
        for line in stream:
            asked.put(json.loads(line))
    # armada is gone, or wants no more: whatever a task still does here ends with us.
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _serve(asked: queue.Queue[dict[str, Any]], say: Callable[..., None], running: list[Path]) -> None:
    from armada.paths import HomePaths
    from armada.transport.interface import root_of
    from armada.transport.tasks import bundled, fabfile, records
    from armada.transport.tasks.connection import open_connection

    order = asked.get()
    settings = order["host"]
    host = _Host(**{**settings, "identity": Path(settings["identity"]) if settings["identity"] else None})
    home = HomePaths(Path(order["home"][0]), Path(order["home"][1]))
    tasks, keys = [], []
    for entry in order["tasks"]:
        path = Path(entry["file"] or bundled.__file__)
        module = fabfile.load(path)
        tasks.append((path, fabfile.find(module, path, entry["task"]), entry["arguments"]))
        keys.append(fabfile.content_key(path, entry["task"], entry["arguments"]))
    with open_connection(host, home, password=order["password"]) as connection:
        root = root_of(host, home)
        state = records.ask(connection, root, keys)
        connection.attach(is_root=state.is_root, armada_root=state.root)
        say(ready=[{"done_at": state.done_at.get(key)} for key in keys])
        while True:
            number = asked.get()["run"]
            path, task, arguments = tasks[number]
            running.append(path)
            os.chdir(path.parent)
            _run(connection, task, arguments)
            records.note(connection, root, keys[number])
            say(ran=number)


def _run(connection: TaskConnection, task: Any, arguments: list[Any]) -> None:
    """Call a task.

    Raises:
        LinkLost: The connection was lost meanwhile.
    """
    from armada.transport.tasks import fabfile

    try:
        fabfile.call(task, connection, arguments)
    except SystemExit as error:
        if error.code not in (0, None):
            raise
    except Exception as error:
        if not connection.is_connected:
            raise connection.lost() from error
        raise


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
