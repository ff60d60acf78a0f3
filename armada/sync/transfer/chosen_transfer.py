"""A transfer that chooses between rsync and the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.errors import ProvisionFailed
from armada.store import hosts as records
from armada.sync.transfer.bandwidth import SharedLimit
from armada.sync.transfer.method import Choice, choose_transfer, trouble_here, trouble_there
from armada.sync.transfer.rsync_transfer import RsyncTransfer
from armada.sync.transfer.stream_transfer import StreamTransfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.config.sync import SyncSettings
    from armada.foundation.progress import TransferProgress
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.sync.transfer.interface import File
    from armada.sync.transfer.stream_transfer import Fetcher


class ChosenTransfer:
    """Uses the method that fits the run's settings, its host and the link; decided when the first bytes are requested.

    Args:
        database: Has the facts of the host.
        session: A session with it.
        settings: The run's settings.
        fetcher: Fetches from the same host, under the same limits.
    """

    def __init__(self, database: Database, session: HostSession, settings: SyncSettings, fetcher: Fetcher) -> None:
        self._database = database
        self._session = session
        self._settings = settings
        self._fetcher = fetcher
        self._stream = StreamTransfer(fetcher)
        self._rsync = RsyncTransfer(session, settings.bytes_per_s)
        self._choice: Choice | None = None

    @property
    def choice(self) -> Choice:
        if self._choice is None:
            self._choice = self._choose()
        return self._choice

    def warm(self, size_bytes: int) -> None:
        if self.choice.method == "stream":
            self._stream.warm(size_bytes)
        else:
            self._fetcher.pool.warm(1)  # logs and outputs use the stream right after

    def bring(
        self,
        run_id: str,
        source: str,
        staging: Path,
        files: Sequence[File],
        progress: Callable[[TransferProgress], None],
    ) -> list[File]:
        if self.choice.method == "rsync":
            try:
                return self._rsync.bring(run_id, source, staging, files, progress)
            except ProvisionFailed as error:
                if self._settings.transfer == "rsync":
                    error.hint = "; ".join(filter(None, [error.hint, "or set sync.transfer: auto"]))
                    raise
                self._session.without_rsync = error.message
                self._choice = Choice("stream", error.message)
        self._rsync.give_back(staging, files)
        return self._stream.bring(run_id, source, staging, files, progress)

    def _choose(self) -> Choice:
        host, record = self._session.host, records.find(self._database, self._session.host.name)
        noise = "the host's start-up files print text" if self._session.noise else None
        troubles = (self._session.without_rsync, trouble_here(), trouble_there(record.facts if record else None), noise)
        asks = self._settings.transfer == "auto" and not host.local
        return choose_transfer(
            self._settings.transfer,
            round_trip_s=self._fetcher.pool.round_trip_s if asks else 0.0,
            is_local=host.local,
            shares_limit=any(isinstance(limit, SharedLimit) for limit in self._fetcher.allowance.limits),
            trouble=next(filter(None, troubles), None),
            streams=self._settings.streams,
        )
