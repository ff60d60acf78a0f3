"""The interface of every transport: a two-way channel to a bootstrap on the host, and file copies to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths

RUNS_GO_ON = "runs continue; run the same command again"
"""What to say to a person whose connection was lost."""


DIRECT_BYTES = 256_000_000
"""What may come over a direct channel in all. Paramiko can deadlock when it re-keys, at 512 MiB (paramiko #822), and answers to
questions come over the same connection: at most 200 MB, see `armada.rpc.session`."""


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
        source: The folder there, absolute.
        files: Names below it.
        destination: The folder here. It may hold beginnings of these files, and must hold nothing else of value.
        size_bytes: What the files should be together.
        bytes_per_s: How fast they may come; None for no limit.
        keep_open: Descriptors that every process of it shall have: a lock on one is held as long as any of them can write.
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
        """Return the next bytes, or b"" once the program has ended. Raises LinkLost when the connection went away."""

    def close(self) -> None:
        """Let go of both directions; the program sees the end of its input. May be called twice."""

    def diagnosis(self) -> str:
        """Say what the program wrote to standard error and how it ended, cleaned for a person to read."""


class Transport(Protocol):
    """A connection to one host."""

    @property
    def host(self) -> HostLike: ...

    @property
    def round_trip_s(self) -> float | None:
        """How far the host is, as opening the first channel told; None where that tells nothing."""

    def open_channel(self) -> Channel:
        """Run the bootstrap command. Raises HostUnreachable."""

    def open_direct_channel(self) -> Channel | None:
        """Run it over the connection that is open, which is ready long before a new one; it may carry `DIRECT_BYTES`.

        Waits until the first channel is open. None where the host is near, so that this gains nothing, or lets no more in.

        Raises:
            LinkLost: The connection went away.
        """

    def open_bulk_channel(self) -> Channel:
        """Run it over a connection of its own, one that may carry gigabytes. Raises HostUnreachable, here or in `read`."""

    def push(
        self, source: Path, files: Sequence[str], destination: str, progress: ProgressCallback | None = None
    ) -> None:
        """Copy `files`, named relative to `source`, into the host's folder `destination`, made if only it is missing.

        Only regular files move, no link is followed, the owner's execute bit survives. A transfer that broke off goes
        on where it stopped when asked for again. Success says that bytes were written, not that they are the right
        ones: check digests.

        Raises:
            ArmadaError: A name or file that must not travel.
            ProvisionFailed: The host cannot take them: no rsync, no permission, disk full.
            HostUnreachable: No connection, or (LinkLost) it went away.
        """

    def pull(self, wanted: Pull, progress: ProgressCallback | None = None) -> None:
        """Copy files from the host by rsync; a file that is here in part is continued where it ends.

        Success says that bytes were written, not that they are the right ones, nor all: check digests.

        Raises:
            RsyncUnusable: rsync is missing or cannot be used, here or there.
            NotFound: A file is not there.
            HostUnreachable: No connection, or (LinkLost) it went away; what came is kept.
            OSError: This machine's disk would not take it.
        """

    def close(self) -> None:
        """Disconnect. May be called twice."""


def root_of(host: HostLike, home: HomePaths) -> str:
    """Where armada's folder lies on `host`, as configured or by default; `~` is for the host to expand."""
    if host.root is not None:
        return host.root
    return str(home.local_root) if host.local else "~/.armada"
