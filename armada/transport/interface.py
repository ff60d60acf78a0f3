"""The interface of every transport: a two-way channel to a bootstrap on the host, and file copies to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths

RUNS_GO_ON = "runs continue; run the same command again"
"""The hint for a user whose connection was lost."""


DIRECT_BYTES = 256_000_000
"""How many bytes may be received over a direct channel in total. Paramiko can deadlock when it re-keys, at 512 MiB
(paramiko #822). Answers to requests use the same connection: at most 200 MB, see `armada.rpc.session`."""


class HostLike(Protocol):
    """The part of a host's configuration that says how to reach it."""

    @property
    def name(self) -> str: ...
    @property
    def ssh(self) -> str | None: ...
    @property
    def local(self) -> bool: ...
    @property
    def root(self) -> str | None: ...
    @property
    def identity(self) -> Path | None: ...
    @property
    def transport(self) -> str: ...
    @property
    def reuse_only(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Pull:
    """Files to copy from a host by rsync.

    Attributes:
        source: The folder on the host, absolute.
        files: Names relative to it.
        destination: The local folder. It may contain partial copies of these files, and must contain nothing else of
            value.
        size_bytes: The expected total size of the files.
        bytes_per_s: The speed limit; None for no limit.
        keep_open: Descriptors that every process of the transfer inherits, so that a lock on them lasts while any can
            write.
    """

    source: str
    files: Sequence[str]
    destination: Path
    size_bytes: int
    bytes_per_s: float | None = None
    keep_open: tuple[int, ...] = ()


ProgressCallback = Callable[[TransferProgress], None]


class Channel(Protocol):
    """Standard input and output of one bootstrap on a host.

    `read` and `write` may be called from two different threads at once; `close` from any.
    """

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises LinkLost."""

    def read(self) -> bytes:
        """Return the next bytes, or b"" once the program has ended. Raises LinkLost if the connection was lost."""

    def close(self) -> None:
        """Close both directions; the program sees the end of its input. May be called twice."""

    def diagnosis(self) -> str:
        """Describe what the program wrote to standard error and how it ended, sanitized for display."""


class Transport(Protocol):
    """A connection to one host."""

    @property
    def host(self) -> HostLike: ...

    @property
    def round_trip_s(self) -> float | None:
        """The round trip to the host, in seconds, measured when the first channel opened; None if unknown."""

    def open_channel(self) -> Channel:
        """Run the bootstrap command. Raises HostUnreachable."""

    def open_direct_channel(self) -> Channel | None:
        """Run the bootstrap over the open connection, which is ready long before a new one; it may carry `DIRECT_BYTES`.

        Waits until the first channel is open. Returns None if the host is so near that this gains nothing, or allows no
        more sessions.

        Raises:
            LinkLost: The connection was lost.
        """

    def open_bulk_channel(self) -> Channel:
        """Run the bootstrap over a new connection that may carry gigabytes. Raises HostUnreachable, here or in `read`."""

    def push(
        self, source: Path, files: Sequence[str], destination: str, progress: ProgressCallback | None = None
    ) -> None:
        """Copy `files`, named relative to `source`, into the host's folder `destination`. Only its last component may be created.

        Only regular files are copied, links are not followed, and the owner's execute bit is kept. An interrupted
        transfer resumes where it stopped when it is called again. Success means that bytes were written, not that they
        are correct: check digests.

        Raises:
            ArmadaError: A name or file that must not be sent.
            ProvisionFailed: The host cannot store the files: no rsync, no permission, disk full.
            HostUnreachable: No connection, or (LinkLost) it was lost.
        """

    def pull(self, wanted: Pull, progress: ProgressCallback | None = None) -> None:
        """Copy files from the host by rsync; a partial local file is continued at its end.

        Success means that bytes were written, not that they are correct or complete: check digests.

        Raises:
            RsyncUnusable: rsync is missing or unusable, on either machine.
            NotFound: A file does not exist on the host.
            HostUnreachable: No connection, or (LinkLost) it was lost; the received bytes are kept.
            OSError: This machine's disk cannot store the files.
        """

    def close(self) -> None:
        """Disconnect. May be called twice."""


def root_of(host: HostLike, home: HomePaths) -> str:
    """Return armada's folder on `host`, as configured or by default; the host expands `~`."""
    if host.root is not None:
        return host.root
    return str(home.local_root) if host.local else "~/.armada"
