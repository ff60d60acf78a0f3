"""Start a daemon that outlives the command that started it, and stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from armada import __version__
from armada.daemon import instance, journal, status
from armada.daemon.variables import environment
from armada.errors import ArmadaError, Conflict, NotFound
from armada.foundation import process_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.paths import HomePaths

START_S = 20.0
STOP_S = 30.0
_POLL_S = 0.05


def start(home: HomePaths, *, auto: bool = False) -> bool:
    """Start a daemon in the background, unless there is one that does.

    An automatic one gives its place to one that stays, and to one of another version of armada.

    Args:
        home: The home to serve, which need not be the one that this process's environment names.
        auto: The daemon may exit when nothing is left to do; then this call does not wait for it to come up.

    Returns:
        Whether a daemon was started. If several processes start one at once: whether ours is running (with `auto`, not
        checked).

    Raises:
        ArmadaError: The daemon did not come up; the error has the end of its log.
    """
    if instance.is_held(home) and not _make_room(home, auto=auto):
        return False
    home.daemon.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with os.fdopen(os.open(journal.log_file(home), flags, 0o600), "ab") as log:
        first = subprocess.Popen(
            [sys.executable, "-m", "armada", "daemon", "run", "--detached", *(["--auto"] if auto else [])],
            env=environment(os.environ, home),
            cwd="/",  # it must not keep a file system busy that should be unmounted
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    code = first.wait()  # it forks and exits at once
    if auto and code == 0:
        return True
    if code == 0 and _wait(lambda: status.judge(home).condition == "fresh", START_S):
        return _is_in_session(instance.holder(home), first.pid)
    raise ArmadaError(
        f"the daemon did not start within {START_S:.0f} s; the end of its log:\n{journal.tail(home, 10)}",
        hint="run armada daemon run to see what it does",
    )


def take_over(home: HomePaths) -> None:
    """Stop an automatic daemon, so that this process can be one that stays. One that only starts is waited for.

    Raises:
        Conflict: It did not exit in time.
    """
    _make_room(home, auto=False)


def _make_room(home: HomePaths, *, auto: bool) -> bool:
    """Stop the daemon if it is automatic and a new one would do better; return whether a new one may start."""
    if not auto:
        # One that is starting does not say yet whether it stays; the service manager starts no second one in its place.
        _wait(lambda: not instance.is_held(home) or _reporting(home) is not None, START_S)
        if not instance.is_held(home):
            return True
    found = _reporting(home)
    if found is None:
        return False  # it is only starting
    if not found.auto or (auto and found.version == __version__):
        return False
    try:
        stop(home)
    except NotFound:
        return True  # it ended meanwhile
    except Conflict:
        if not auto:
            raise
        return False  # a launch does not fail because of it; `daemon status` calls it stale
    return True


def _reporting(home: HomePaths) -> status.Status | None:
    """Return the status that the daemon wrote; None if that of now has written none yet."""
    found, held = status.read(home), instance.holder(home)
    own = found is not None and held is not None and (found.pid, found.start_time) == (held.pid, held.start_time)
    return found if own else None


def _is_in_session(process: process_identity.Process | None, session: int) -> bool:
    """Whether a process belongs to the session that was created for our daemon."""
    try:
        return process is not None and os.getsid(process.pid) == session
    except OSError:
        return False  # it has exited meanwhile


def stop(home: HomePaths) -> int:
    """Ask the daemon to exit, and wait until it has. Runs continue, and files at home stay.

    Returns:
        Its process id.

    Raises:
        NotFound: There is no daemon.
        Conflict: It did not exit in time.
    """
    if not _wait(lambda: not instance.is_held(home) or instance.holder(home) is not None, 1.0):
        raise Conflict(
            "another process, which did not record its id, holds the daemon's lock", hint=str(instance.lock_file(home))
        )
    process = instance.holder(home)
    if process is None or not process_identity.lives(process):
        raise NotFound("no daemon is running", hint="armada daemon start")
    os.kill(process.pid, signal.SIGTERM)
    if not _wait(lambda: instance.holder(home) != process, STOP_S):
        raise Conflict(
            f"process {process.pid} did not end within {STOP_S:.0f} s", hint=f"kill -9 {process.pid} is safe"
        )
    return process.pid


def detach() -> None:
    """Detach from the process that started this one: it sees an exit at once, and init adopts the daemon."""
    if os.fork():
        os._exit(0)


def _wait(so: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not so():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
