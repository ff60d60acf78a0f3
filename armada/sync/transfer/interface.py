"""The interface for fetching files from a host; `StreamTransfer`, `RsyncTransfer` and `ChosenTransfer` implement it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.foundation.progress import TransferProgress


@dataclass(frozen=True, slots=True)
class File:
    """One file to fetch; `path` is relative, POSIX, without `..`.

    `source` is its path on the host if that differs; `offset` is where in that file its bytes begin.
    """

    path: str
    size: int
    sha256: str
    source: str | None = None
    offset: int = 0


class Transfer(Protocol):
    """Fetches files of one run."""

    def warm(self, size_bytes: int) -> None:
        """Start preparing for so many bytes before they are requested."""

    def bring(
        self,
        run_id: str,
        source: str,
        staging: Path,
        files: Sequence[File],
        progress: Callable[[TransferProgress], None],
    ) -> list[File]:
        """Fetch files into staging, continuing what an earlier transfer left there, whichever method it used.

        Args:
            run_id: The run.
            source: The folder on the host, relative to the run's folder, with a trailing slash.
            staging: The destination.
            files: The files that should be there in the end.
            progress: Receives the progress.

        Returns:
            The files whose bytes do not match their SHA-256; they are deleted from staging. All others are correct.

        Raises:
            HostUnreachable: Nothing arrived for the session's patience.
            NotFound: A file is no longer on the host.
            OSError: Home's disk cannot store them.
        """
