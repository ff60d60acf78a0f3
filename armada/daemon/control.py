"""Start a daemon that outlives the command that started it, and stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from armada.daemon import instance, journal, status
from armada.errors import ArmadaError, Conflict, NotFound
from armada.foundation import process_identity
from armada.store.running_operations import BY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from armada.paths import HomePaths

START_S = 20.0
STOP_S = 30.0
_POLL_S = 0.05

# The variables that locate the program, its user, ssh's agent and the desktop. All others are dropped: the command that
# starts a daemon may carry secrets for a run, which a process that lives for days does not need.
_KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"),
        *("SSH_AUTH_SOCK", "KRB5CCNAME", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
_KEPT_PREFIXES = ("ARMADA_", "LC_", "XDG_", "PYTHON")


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a daemon gets from the command that starts it."""
    kept = {name: value for name, value in own.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    kept.pop(BY, None)  # what the daemon does later, nobody has asked for
    return kept


def start(home: HomePaths, *, auto: bool = False) -> bool:
    """Start a daemon in the background, unless there is one.

    Args:
        home: The home to serve.
        auto: The daemon may exit when nothing is left to do; then this call does not wait for it to come up.

    Returns:
        Whether a daemon was started. If several processes start one at once: whether ours is running (with `auto`, not
        checked).

    Raises:
        ArmadaError: The daemon did not come up; the error has the end of its log.
    """
    if instance.is_held(home):
        return False
    home.daemon.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with os.fdopen(os.open(journal.log_file(home), flags, 0o600), "ab") as log:
        first = subprocess.Popen(
            [sys.executable, "-m", "armada", "daemon", "run", "--detached", *(["--auto"] if auto else [])],
            env=environment(os.environ),
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
