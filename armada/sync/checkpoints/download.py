"""Download one checkpoint from a host's outbox to a published folder at home."""

from __future__ import annotations

import shutil
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from armada.foundation.atomic_write import fsync
from armada.foundation.progress import TransferProgress
from armada.store import checkpoints, files_home, transfers
from armada.sync.checkpoints import published
from armada.sync.checkpoints.folders import require_same
from armada.sync.checkpoints.manifest import Manifest, fetch_manifest, parse_manifest
from armada.sync.errors import SourceChanged
from armada.sync.transfer.interface import File
from armada.sync.transfer.staging import check_space, clear_staging, held_bytes, make_staging, read_right

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.files_home import Look
    from armada.sync.context import SyncContext
    from armada.sync.transfer.interface import Transfer

ROUNDS = 3
"""How often a file with a wrong hash is fetched again; after that, the copy on the host counts as damaged."""

_FILES_AT_ONCE = 200
_NOTE_EVERY_S = 1.0


class CheckpointDownloader:
    """Downloads checkpoints of one run, one after the other.

    Args:
        context: The run and its host.
        transfer: Carries files from the same host.
        manifests: Manifests received already, as the host sent them, by digest.
    """

    def __init__(
        self,
        context: SyncContext,
        transfer: Transfer,
        manifests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._manifests = manifests
        self._context = context
        self._transfer = transfer

    def bring(
        self,
        checkpoint: Checkpoint,
        left_out: Callable[[Manifest], Sequence[str]],
        progress: Callable[[TransferProgress], None],
    ) -> Path:
        """Fetch, verify, publish and record one checkpoint.

        Args:
            checkpoint: The checkpoint.
            left_out: Returns the names of files in it that are not wanted.
            progress: Receives the progress.

        Returns:
            Its folder.

        Raises:
            ManifestRejected: The manifest breaks a rule; nothing was fetched.
            DiskFull: The checkpoint does not fit.
            FolderAway: Home's disk went away; nothing is recorded as home.
            SourceChanged: A file stays wrong after `ROUNDS` fetches.
            HostUnreachable: The link stayed down.
            OSError: Home's disk cannot store it.
        """
        database, home = self._context.database, self._context.home
        run_id, digest = checkpoint.run_id, checkpoint.digest
        folder, staging = home.checkpoints(run_id), home.staging(run_id, digest)
        place = published.find_published(folder, checkpoint)  # a former sync died between the rename and the record
        if place is not None:
            fsync(folder)
            seen = self._read_again(checkpoint, place, staging, progress)
        else:
            self._transfer.warm(checkpoint.size_bytes)
            text = self._manifests.get(digest)
            manifest = (
                fetch_manifest(self._context.session, checkpoint) if text is None else parse_manifest(text, digest)
            )
            without = set(left_out(manifest))
            seen = self._fill(
                checkpoint, [file for file in manifest.files if file.path not in without], staging, progress
            )
            require_same(database, run_id)
            place = published.publish(folder, staging, manifest, sorted(without))
        clear_staging(staging)
        manifest, here = published.read_published(place, digest)
        seen_at = {place / path: look for path, look in seen.items()}
        require_same(database, run_id)
        files_home.record(database, [(f.sha256, place / f.path, f.size) for f in here if f.size], seen_at)
        checkpoints.mark_home(database, run_id, digest, place)
        transfers.finish(database, run_id, digest, sum(file.size for file in here))
        return place

    def _read_again(
        self, checkpoint: Checkpoint, place: Path, staging: Path, progress: Callable[[TransferProgress], None]
    ) -> dict[str, Look]:
        """Read a published checkpoint of which the store has no record, and fetch again what has changed since it was published.

        Returns:
            What `stat` showed of the files that others can change, when they were read.
        """
        _, files = published.read_published(place, checkpoint.digest)
        read = {file.path: read_right(place, file) for file in files}
        wrong = [file for file in files if read[file.path] is None]
        seen = {path: look for path, look in read.items() if look is not None}
        if wrong:
            seen |= self._fill(checkpoint, wrong, staging, progress)
            require_same(self._context.database, checkpoint.run_id)
            published.replace(staging, place, wrong)
            shutil.rmtree(staging)
        return seen

    def _fill(
        self,
        checkpoint: Checkpoint,
        files: Sequence[File],
        staging: Path,
        progress: Callable[[TransferProgress], None],
    ) -> dict[str, Look]:
        """Have files of a checkpoint in staging, verified: linked where they are at home, fetched otherwise.

        Returns:
            The linked ones as in `published.link_known`.
        """
        database = self._context.database
        missing, linked = prepare_staging(database, staging, checkpoint, files)
        size_bytes = sum(file.size for file in files)
        linked_bytes = size_bytes - sum(file.size for file in missing)
        transfers.begin(database, checkpoint.run_id, checkpoint.digest, size_bytes)
        self._fetch(checkpoint, missing, staging, self._noting(checkpoint, linked_bytes, progress))
        return linked

    def _fetch(
        self,
        checkpoint: Checkpoint,
        files: Sequence[File],
        staging: Path,
        progress: Callable[[TransferProgress], None],
    ) -> None:
        source = f"outbox/{checkpoint.digest}/"
        total = sum(file.size for file in files)
        wrong = list(files)
        for _ in range(ROUNDS):
            again: list[File] = []
            done = total - sum(file.size for file in wrong)
            for start in range(0, len(wrong), _FILES_AT_ONCE):
                batch = wrong[start : start + _FILES_AT_ONCE]

                def shifted(seen: TransferProgress, done: int = done) -> None:
                    progress(TransferProgress(done + seen.done_bytes, total, seen.rate_bytes_per_s))

                again += self._transfer.bring(checkpoint.run_id, source, staging, batch, shifted)
                done += sum(file.size for file in batch)
            wrong = again
            if not wrong:
                return
        raise SourceChanged(
            f"checkpoint-{checkpoint.step}: {wrong[0].path} does not match its manifest after {ROUNDS} downloads",
            host=self._context.host,
            hint="the file was changed on the host after it was announced; other checkpoints are not affected",
        )

    def _noting(
        self, checkpoint: Checkpoint, linked_bytes: int, progress: Callable[[TransferProgress], None]
    ) -> Callable[[TransferProgress], None]:
        """Report to the store too, about once a second."""
        noted_at = 0.0

        def note(seen: TransferProgress) -> None:
            nonlocal noted_at
            total = None if seen.total_bytes is None else linked_bytes + seen.total_bytes
            shown = TransferProgress(linked_bytes + seen.done_bytes, total, seen.rate_bytes_per_s)
            progress(shown)
            if time.monotonic() - noted_at >= _NOTE_EVERY_S:
                noted_at = time.monotonic()
                transfers.progress(
                    self._context.database,
                    checkpoint.run_id,
                    checkpoint.digest,
                    shown.done_bytes,
                    seen.rate_bytes_per_s,
                )

        return note


def prepare_staging(
    database: Database, staging: Path, checkpoint: Checkpoint, files: Sequence[File]
) -> tuple[list[File], dict[str, Look]]:
    """Link files that home already has into a checkpoint's staging folder, and check that the rest fits.

    Returns:
        The files that have to be transferred, and the linked ones as in `link_known`.

    Raises:
        DiskFull: They do not fit.
        FolderAway: Home's disk went away since the run's lock was taken.
        ArmadaError: The staging folder is a link.
    """
    require_same(database, checkpoint.run_id)
    make_staging(staging)
    linked = published.link_known(database, staging, files)
    missing = [file for file in files if file.path not in linked]
    needed_bytes = sum(file.size for file in missing) - held_bytes(staging, missing)
    coming_bytes = transfers.coming_bytes(database, but=checkpoint.digest)
    check_space(staging, f"checkpoint-{checkpoint.step}", needed_bytes, coming_bytes=coming_bytes)
    return missing, linked
