"""SSH by Fabric, for control messages only. Files travel by rsync over a separate connection (see transport/rsync)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from armada.errors import LinkLost
from armada.foundation.sanitize import sanitize_line
from armada.paths import HomePaths
from armada.transport.bootstrap import COMMAND
from armada.transport.bulk import BulkChannel, open_bulk_channel
from armada.transport.interface import RUNS_GO_ON, HostLike, ProgressCallback, Pull
from armada.transport.rsync import program
from armada.transport.rsync import pull as rsync_pull
from armada.transport.rsync.errors import no_session
from armada.transport.ssh.config_file import write_ssh_config
from armada.transport.ssh.handshake import CHANNEL_TIMEOUT_S, close_chain, connect_chain
from armada.transport.ssh.host_keys import pinned_keys
from armada.transport.ssh.resolve import HostSpec, resolve
from armada.transport.stderr_tail import StderrTail

if TYPE_CHECKING:
    import fabric

PROBE_EVERY_S = 10.0
PROBE_ANSWER_S = 15.0
_STATUS_WAIT_S = 5.0
FAR_S = 0.015
"""Above this round trip, waiting for a new connection costs more than the direct channel's limit of one CPU core."""
DIRECT_WINDOW_BYTES = 32 << 20
"""The receive window: how much the host may send unacknowledged, 320 MB/s at 100 ms. OpenSSH as the receiver grants only 2 MiB."""


def connect_fabric(host: HostLike, home: HomePaths, *, deadline_s: float) -> FabricTransport:
    """Resolve a host, write its SSH configuration and log in. Raises as armada.transport.connect does."""
    spec = resolve(host)
    write_ssh_config(spec, home)
    return FabricTransport(host, spec, home, connect_chain(spec, pinned_keys(home), deadline_s=deadline_s))


class Link:
    """One SSH connection, and the watchdog that detects its loss.

    TCP's keepalive does not notice a link that dies behind a proxy, and Paramiko's keepalive asks for no answer
    (paramiko #918).
    """

    def __init__(self, transport: paramiko.Transport, host: str) -> None:
        self.transport = transport
        self.host = host
        self.received_bytes = 0
        self._lost_because: str | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name=f"watch of {host}", daemon=True).start()

    def lost(self) -> LinkLost:
        saved = self.transport.saved_exception
        told = (sanitize_line(str(saved), 500).strip() or type(saved).__name__) if saved is not None else ""
        reason = self._lost_because or told or "the host closed the connection"
        return LinkLost(f"the connection was lost: {reason}", hint=RUNS_GO_ON, host=self.host)

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(PROBE_EVERY_S) and self.transport.is_active():
            answered = threading.Event()
            threading.Thread(target=self._probe, args=(answered,), name=f"probe of {self.host}", daemon=True).start()
            before = self.received_bytes
            while not answered.wait(PROBE_ANSWER_S):
                if self.received_bytes == before:
                    self._lost_because = f"no answer for {PROBE_ANSWER_S:.0f} s"
                    self.transport.close()
                    return
                before = self.received_bytes  # the answer may queue behind a long one that is still arriving

    def _probe(self, answered: threading.Event) -> None:
        with contextlib.suppress(SSHException, OSError, EOFError):  # the channels notice the loss and report it
            self.transport.global_request("keepalive@openssh.com", wait=True)
        answered.set()


class SshChannel:
    """A bootstrap running at the far end of an SSH session."""

    def __init__(self, channel: paramiko.Channel, link: Link, *, piece_bytes: int = 1 << 16) -> None:
        self._channel = channel
        self._link = link
        self._piece_bytes = piece_bytes
        self._errors = StderrTail(lambda: channel.recv_stderr(65536), name=f"stderr of {link.host}")

    def write(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, SSHException) as error:
            raise self._link.lost() from error

    def read(self) -> bytes:
        try:
            data = self._channel.recv(self._piece_bytes)
        except (OSError, EOFError, SSHException) as error:
            raise self._link.lost() from error
        self._link.received_bytes += len(data)
        # Paramiko reports a dead connection as a plain end of file, but then without an exit status.
        if not data and self._status() is None and not self._link.transport.is_active():
            raise self._link.lost()
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, SSHException):  # nobody is left who needs the error
            self._channel.close()

    def diagnosis(self) -> str:
        status = self._status()
        ended = "no exit status; probably killed by a signal" if status is None else f"exit status {status}"
        said = self._errors.text(wait_s=0.2)
        return f"{said}\n({ended})" if said else f"({ended})"

    def _status(self) -> int | None:
        self._channel.status_event.wait(_STATUS_WAIT_S)
        return None if self._channel.exit_status < 0 else self._channel.exit_status


class FabricTransport:
    """A connection to an SSH host through its jump hosts; replaced by a new one when it is lost."""

    def __init__(self, host: HostLike, spec: HostSpec, home: HomePaths, chain: Sequence[fabric.Connection]) -> None:
        self._host = host
        self._spec = spec
        self._home = home
        self._chain = chain
        self._link = Link(chain[-1].transport, host.name)
        self._round_trip_s: float | None = None
        self._answered = threading.Event()

    @property
    def host(self) -> HostLike:
        return self._host

    @property
    def banner(self) -> str:
        """What the host's sshd showed: its version and its banner before the login, unsanitized."""
        transport = self._link.transport
        shown = transport.get_banner() or b""
        return f"{transport.remote_version}\n{shown.decode('utf-8', 'replace')}".strip()

    @property
    def round_trip_s(self) -> float | None:
        return self._round_trip_s

    def open_channel(self) -> SshChannel:
        try:
            with self._timed():
                channel = self._link.transport.open_session(timeout=CHANNEL_TIMEOUT_S)
            self._answered.set()
            # Not Fabric's `run`: it polls, and reports a dead link as a normal result. Sending data before the session
            # is accepted would gain nothing, because OpenSSH opens the window for it together with the acceptance.
            with self._timed():
                channel.exec_command(COMMAND)
        except ChannelException as error:
            raise no_session(self._host.name) from error
        except (SSHException, OSError, EOFError) as error:
            raise self._link.lost() from error
        finally:
            self._answered.set()
        return SshChannel(channel, self._link)

    def open_direct_channel(self) -> SshChannel | None:
        self._answered.wait(CHANNEL_TIMEOUT_S)  # a host may allow only one session; it is for requests
        if self._round_trip_s is None or self._round_trip_s < FAR_S:
            return None
        transport = self._link.transport
        channel: paramiko.Channel | None = None
        try:
            with self._timed():
                channel = transport.open_session(window_size=DIRECT_WINDOW_BYTES, timeout=CHANNEL_TIMEOUT_S)
            if self._round_trip_s < FAR_S:  # only the first answer was slow; the host is near
                channel.close()
                return None
            channel.exec_command(COMMAND)
        except ChannelException:
            return None
        except (SSHException, OSError, EOFError) as error:
            raise self._link.lost() from error
        return SshChannel(channel, self._link, piece_bytes=1 << 20)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Measure an operation that takes one round trip. The shortest counts: load makes it longer, nothing makes it shorter."""
        began = time.monotonic()
        yield
        passed_s = time.monotonic() - began
        self._round_trip_s = min(passed_s, self._round_trip_s or passed_s)

    def open_bulk_channel(self) -> BulkChannel:
        return open_bulk_channel(self._spec, self._home)

    def push(
        self, source: Path, files: Sequence[str], destination: str, progress: ProgressCallback | None = None
    ) -> None:
        program.push(self._spec, self._home, source, files, destination, progress)

    def pull(self, wanted: Pull, progress: ProgressCallback | None = None) -> None:
        rsync_pull.pull(self._spec, self._home, wanted, progress)

    def close(self) -> None:
        self._answered.set()
        self._link.close()
        close_chain(self._chain)
