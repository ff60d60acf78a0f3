"""Run a host's own stop command once it was idle for long enough and nothing would be lost; see `armada.verdicts.idle`."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict
from armada.foundation.sanitize import sanitize_line
from armada.foundation.secrets import without_secret_arguments, without_secrets_in_command
from armada.protocol.facts import AskFacts
from armada.protocol.recorded import recorded_facts
from armada.provision.admission import begin_clearing, putting
from armada.provision.exclusive_lock import exclusive_lock
from armada.rpc.session import HostSession
from armada.store import hosts as host_records
from armada.store import operations, runs
from armada.store.database import Database
from armada.store.running_operations import is_alive, operation
from armada.sync.context import HostContext
from armada.sync.release.judge import came_since, judge_host, list_there, losses
from armada.units import counted, counted_processes, duration_s, span
from armada.verdicts.idle import BELIEVED_S, Idleness, Stopping, stopping_of, why_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.store.hosts import HostRecord

log = logging.getLogger(__name__)

COMMAND_S = 600.0
"""How long a stop command may take, in seconds."""

_TAIL_BYTES = 2000


class IdleStop:
    """Watches over the idleness of one host. Its owner tells it of each look.

    Args:
        host: The host.
        home: Home's folders.
        now: Returns unix time.
    """

    def __init__(self, host: Host, home: HomePaths, *, now: Callable[[], float] = time.time) -> None:
        self._host = host
        self._home = home
        self._now = now
        self._idle = Idleness()
        self._try: threading.Thread | None = None

    @property
    def trying(self) -> threading.Thread | None:
        """The thread of the newest try."""
        return self._try

    def answered(self, database: Database) -> None:
        """Note that the host has just answered; begin a try if it was idle for long enough."""
        limit, name, now = self._host.stop_when_idle, self._host.name, self._now()
        if limit is None or self._host.stop_command is None or (self._try is not None and self._try.is_alive()):
            return
        record = host_records.find(database, name)
        stopping = before = stopping_of(record.stopping if record is not None else None)
        if stopping.state == "gone":
            stopping, self._idle = stopping.came_back(now), Idleness()
        busy = why_busy(database, name, record)
        self._idle = self._idle.seen(now, busy)
        if stopping.state == "asked" and stopping.asked_at is not None:
            if 0 <= now - stopping.asked_at < BELIEVED_S:
                return
            said = f"the stop command exited with 0, but the host still answers after {span(BELIEVED_S)}"
            stopping = stopping.failed("failed", said, stopping.since, now)
            log.warning("%s: %s", name, said)
        if busy is not None and stopping.state:
            stopping = stopping.begun_anew()
        if stopping != before:
            host_records.record_stopping(database, name, stopping.as_json())
        if why_wait(self._idle, stopping, duration_s(limit), now) is None and self._idle.since is not None:
            self._try = threading.Thread(
                target=self._work, args=(stopping, self._idle.since), name=f"stop {name}", daemon=True
            )
            self._try.start()

    def silent(self, database: Database) -> None:
        """Note that the host does not answer: it is not idle, and may be stopped."""
        self._idle = Idleness()
        if self._host.stop_when_idle is None:
            return
        record = host_records.find(database, self._host.name)
        stopping = stopping_of(record.stopping if record is not None else None)
        if stopping.state == "asked":
            said = "the stop command exited with 0, and the host does not answer any more"
            gone = Stopping("gone", stopping.since, 0, 0.0, stopping.asked_at, said, stopping.away)
            host_records.record_stopping(database, self._host.name, gone.as_json())
            log.info("%s: %s", self._host.name, said)

    def _work(self, stopping: Stopping, since: float) -> None:
        name = self._host.name
        try:
            with Database(self._home.store, existing=True) as database:
                found = self._attempt(database, stopping, since)
                host_records.record_stopping(database, name, found.as_json())
                log.log(logging.INFO if found.state == "asked" else logging.WARNING, "%s: %s", name, found.said)
        except Exception:
            log.exception("%s: its stop command", name)  # the next look tries again

    def _attempt(self, database: Database, stopping: Stopping, since: float) -> Stopping:
        words = shlex.split(self._host.stop_command or "")
        name = self._host.name
        state = "refused"
        try:
            with (
                exclusive_lock(self._home.lock(f"release-{name}"), f"release of {name}", log.info),
                HostSession(self._host, self._home, patience_s=0.0) as session,
                # As a release, so that no launch begins there meanwhile. What continues it is the daemon, and no release.
                operation(database, kind="release", host=name, argv=["armada", "daemon", "start"]) as recorded,
            ):
                operations.advance(
                    database,
                    recorded.id,
                    message=sanitize_line(
                        f"stop command: {without_secrets_in_command(self._host.stop_command or '')}", 300
                    ),
                )
                there, listed = putting(database, name), list_there(session)
                context = HostContext(database, session, self._home)
                items = losses(judge_host(context, listed=listed))
                if items:
                    what = f"{items[0].run_id}: {items[0].what}"
                    more = f", and {counted(len(items) - 1, 'more reason')}" if len(items) > 1 else ""
                    raise Conflict(f"not stopped, because something would be lost: {sanitize_line(what, 300)}{more}")
                if used := why_gpus_may_be_used(session.call(AskFacts()).as_json()):
                    raise Conflict(f"not stopped: {used}")
                if active := runs.every(database, host=name, active=True):
                    raise Conflict(f"not stopped: {active[0].run_id} began meanwhile")
                begin_clearing(database, recorded.id, name, there)
                # Another home asks no store of this one. What it launches from now on is stopped with the host.
                if came := came_since(context, listed):
                    raise Conflict(f"not stopped: {came[0].run_id}: {came[0].what}")
                state = "failed"
                code, said = run_command(words, _environment(self._host, since, self._now()))
                if code != 0:
                    ended = f"exited with {code}" if code is not None else f"did not end within {span(COMMAND_S)}"
                    raise ArmadaError(f"the stop command {ended}{f': {said}' if said else ''}")
        except ArmadaError as error:
            return stopping.failed("failed" if state == "failed" else "refused", error.message, since, self._now())
        told = "the stop command exited with 0; the host should not answer any more soon"
        return Stopping("asked", since, stopping.tries, 0.0, self._now(), told, stopping.away)


def why_busy(database: Database, host: str, record: HostRecord | None) -> str | None:
    """Say what goes on at a host; None if nothing does that home knows of."""
    active = runs.every(database, host=host, active=True)
    if active:
        return f"{counted(len(active), 'run')} there: {active[0].run_id}"
    for each in operations.running(database):
        if each.host == host and is_alive(each):
            return f"{each.kind} goes on there (process {each.pid})"
    return why_gpus_may_be_used(record.facts if record is not None else None)


def why_gpus_may_be_used(facts: Mapping[str, object] | None) -> str | None:
    """Say who uses a host's GPUs, or why nobody knows that; None if nobody does."""
    seen = recorded_facts(facts)
    if users := sum(len(gpu.processes or ()) for gpu in seen.gpus or ()):
        return f"{counted_processes(users)} on its GPUs"
    if seen.gpu_trouble:
        return f"who uses its GPUs cannot be asked ({sanitize_line(seen.gpu_trouble, 200)})"
    if seen.amd_gpus:
        return f"armada cannot ask who uses its {counted(seen.amd_gpus, 'AMD GPU')}"
    return None


def run_command(
    words: Sequence[str], environment: Mapping[str, str], limit_s: float = COMMAND_S
) -> tuple[int | None, str]:
    """Run a user's command at home, without a shell.

    Returns:
        Its exit code (127 if it cannot be started, None if it did not end in time), and the end of what it said.
    """
    with tempfile.TemporaryFile() as output:
        try:
            started = subprocess.Popen(
                words,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            return 127, sanitize_line(f"{words[0] if words else ''}: {error.strerror}", 300)
        with _tied(started.pid):
            try:
                code: int | None = started.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(started.pid, signal.SIGKILL)
                started.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
        said = sanitize_line(output.read().decode("utf-8", "replace").strip(), _TAIL_BYTES)
        return code, sanitize_line(without_secret_arguments([said])[0], 300)


@contextlib.contextmanager
def _tied(group: int) -> Iterator[None]:
    """Have a group of processes end if this program is killed meanwhile: nothing would keep launches from the host."""
    watch = ["sh", "-c", 'read -r _ || kill -KILL "-$1"', "sh", str(group)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True) as watcher:
        try:
            yield
        finally:
            watcher.communicate(b"\n")  # what a command left in the background stays


def _environment(host: Host, since: float, now: float) -> dict[str, str]:
    told = {"ARMADA_HOST": host.name, "ARMADA_HOST_SSH": host.ssh or "", "ARMADA_IDLE_S": str(int(now - since))}
    return {**os.environ, **told}
