"""What is brought from a host, and the one way to ask for it: `StreamTransfer`, `RsyncTransfer` and `ChosenTransfer` do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.transport.interface import TransferProgress


@dataclass(frozen=True, slots=True)
class File:
    """One file to bring; `path` is relative, POSIX, without `..`.

    `source` is its path on the host where that is another, and `offset` where in it its bytes begin.
    """

    path: str
    size: int
    sha256: str
    source: str | None = None
    offset: int = 0


class Transfer(Protocol):
    """Carries files of one run."""

    def warm(self, size_bytes: int) -> None:
        """Begin what so many bytes will need, before they are asked for."""

    def bring(
        self,
        run_id: str,
        source: str,
        staging: Path,
        files: Sequence[File],
        progress: Callable[[TransferProgress], None],
    ) -> list[File]:
        """Let files arrive in staging, going on with what an earlier transfer left there, by whichever way.

        Args:
            run_id: Whose.
            source: Below the run's folder on the host, with a slash at its end.
            staging: Where they go.
            files: What should be there in the end.
            progress: Told how far it is.

        Returns:
            The files whose bytes are not those of their SHA-256; they are not in staging any more. All others are right.

        Raises:
            HostUnreachable: Nothing came for the session's patience.
            NotFound: A file is no longer on the host.
            OSError: Home's disk would not take it.
        """
