"""Repair damaged checkpoints, from other checkpoints at home, or from the host while it still has the bytes."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from armada.config.sync import settings_of
from armada.errors import ArmadaError, NotFound
from armada.foundation.atomic_write import write_atomically
from armada.store import checkpoints, files_home, runs
from armada.sync.checkpoints import published
from armada.sync.checkpoints.download import prepare_staging
from armada.sync.checkpoints.folders import only_one_there, require_same
from armada.sync.checkpoints.manifest import NAME, fetch_manifest
from armada.sync.checkpoints.names import find_hidden, not_apart
from armada.sync.checkpoints.verify import without_damage
from armada.sync.transfer.chosen_transfer import ChosenTransfer
from armada.sync.transfer.staging import clear_staging, is_right, make_staging
from armada.sync.transfer.stream_transfer import Fetcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from armada.foundation.progress import TransferProgress
    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.files_home import Look
    from armada.sync.checkpoints.verify import Finding
    from armada.sync.context import SyncContext
    from armada.sync.transfer.interface import File, Transfer

_FILES_AT_ONCE = 200


def repair_from_home(database: Database, home: HomePaths, finding: Finding) -> Finding:
    """Repair files whose bytes another checkpoint at home has; no host is contacted.

    Returns:
        What is still damaged.

    Raises:
        ArmadaError: A person put a link in the place of a folder.
        OSError: Home's disk cannot store them.
    """
    checkpoint, place = finding.checkpoint, finding.place
    if finding.manifest_damaged:
        return finding
    with only_one_there(database, home, checkpoint.run_id):
        finding = _read_in_doubt(database, finding)
        staging = home.staging(checkpoint.run_id, checkpoint.digest)
        require_same(database, checkpoint.run_id)
        make_staging(staging)
        mendable = [file for file in finding.damaged if published.is_reachable(place, file.path)]
        linked = published.link_known(database, staging, mendable)
        missing = [file for file in finding.damaged if file.path not in linked]
        _put(database, checkpoint, staging, place, [file for file in finding.damaged if file.path in linked], linked)
        shutil.rmtree(staging)
        clear_staging(staging)
        if not missing and finding.is_read:
            require_same(database, checkpoint.run_id)
            checkpoints.mark_home(database, checkpoint.run_id, checkpoint.digest, place)
    return replace(finding, damaged=tuple(missing))


def repair(
    context: SyncContext,
    finding: Finding,
    progress: Callable[[TransferProgress], None],
    *,
    locked: bool = False,
) -> Finding:
    """Fetch damaged files again. Each good file replaces the bad one as soon as its hash is correct, even if others fail.

    Returns:
        The finding for the repaired checkpoint.

    Raises:
        NotFound: The host no longer has the checkpoint.
        ArmadaError: The host's copy does not match the manifest either.
        HostUnreachable: The host does not answer.
    """
    checkpoint, place = finding.checkpoint, finding.place
    run_id, digest = checkpoint.run_id, checkpoint.digest
    with contextlib.nullcontext() if locked else only_one_there(context.database, context.home, run_id):
        if finding.manifest_damaged:
            manifest = fetch_manifest(context.session, checkpoint)
            require_same(context.database, run_id)
            _replace_manifest(place, manifest.text)
            published.forget_damaged_partial(place)
            _, files = published.read_published(place, digest)
            damaged = tuple(file for file in files if not is_right(place, file))
            finding = replace(finding, damaged=damaged, is_read=True)
        else:
            finding = _read_in_doubt(context.database, finding)
        _bring_into(context, checkpoint, place, finding.damaged, progress)
        if finding.is_read:
            require_same(context.database, run_id)
            checkpoints.mark_home(context.database, run_id, digest, place)
    return without_damage(finding)


def _read_in_doubt(database: Database, finding: Finding) -> Finding:
    """Read every file of a checkpoint in doubt, unless that was done since: or its repair would end the doubt of another file.

    Raises:
        ManifestRejected: Its manifest has changed in the meantime.
    """
    digest, before = finding.checkpoint.digest, finding.checkpoint.trouble
    known = {each.digest: each for each in checkpoints.of_run(database, finding.checkpoint.run_id)}
    trouble = known[digest].trouble if digest in known else None
    if trouble is None or (finding.is_read and trouble == before):
        return finding
    _, files = published.read_published(finding.place, digest)
    damaged = tuple(file for file in files if not is_right(finding.place, file))
    for file in damaged:
        files_home.forget(database, finding.place / file.path)
    return replace(finding, damaged=damaged, is_read=True)


def complete(context: SyncContext, checkpoint: Checkpoint, progress: Callable[[TransferProgress], None]) -> int:
    """Fetch what `include_optimizer` left out of a published checkpoint. Call it with the run's lock held.

    Returns:
        The number of fetched files; 0 if it was complete.

    Raises:
        NotFound, ArmadaError, HostUnreachable: As in `repair`; the files at home are unchanged.
    """
    place = checkpoint.home_path
    if place is None:
        raise NotFound(f"checkpoint-{checkpoint.step} is not home")
    missing = published.left_out(place)
    if not missing:
        return 0
    manifest, _ = published.read_published(place, checkpoint.digest)
    files = [file for file in manifest.files if file.path in missing]
    _bring_into(context, checkpoint, place, files, progress)
    require_same(context.database, checkpoint.run_id)
    published.mark_whole(place)
    return len(files)


def _bring_into(
    context: SyncContext,
    checkpoint: Checkpoint,
    place: Path,
    files: Sequence[File],
    progress: Callable[[TransferProgress], None],
) -> None:
    """Fetch files of a published checkpoint; each is moved into place only once its hash is correct.

    Those behind a person's link are not fetched, as there is nowhere to put them.
    """
    behind = [file for file in files if not published.is_reachable(place, file.path)]
    files = [file for file in files if file not in behind]
    database, session = context.database, context.session
    staging = context.home.staging(checkpoint.run_id, checkpoint.digest)
    missing, linked = prepare_staging(database, staging, checkpoint, files)
    failed: dict[str, ArmadaError] = {}
    settings = settings_of(runs.spec(database, checkpoint.run_id))
    with Fetcher(session, streams=settings.streams, bytes_per_s=settings.bytes_per_s) as fetcher:
        transfer = ChosenTransfer(database, session, settings, fetcher)
        for start in range(0, len(missing), _FILES_AT_ONCE):
            fetch = _Fetch(transfer, session.host.name, checkpoint, staging, progress)
            failed |= fetch.some(missing[start : start + _FILES_AT_ONCE])
    _put(database, checkpoint, staging, place, [file for file in files if file.path not in failed], linked)
    shutil.rmtree(staging)
    clear_staging(staging)
    for error in failed.values():
        raise error
    if behind:
        raise published.no_folder((place / behind[0].path).parent)


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Fetches files of one checkpoint into staging."""

    transfer: Transfer
    host: str
    checkpoint: Checkpoint
    staging: Path
    progress: Callable[[TransferProgress], None]

    def some(self, files: Sequence[File]) -> dict[str, ArmadaError]:
        """Fetch files. Return the reason for each file that cannot be fetched; the others are fetched all the same.

        Raises:
            HostUnreachable: The link stayed down.
            OSError: Home's disk cannot store them.
        """
        try:
            folder = f"outbox/{self.checkpoint.digest}/"
            wrong = self.transfer.bring(self.checkpoint.run_id, folder, self.staging, files, self.progress)
        except NotFound:
            if len(files) == 1:
                why = f"{self.host} no longer has {files[0].path} of checkpoint-{self.checkpoint.step}"
                return {files[0].path: NotFound(why, host=self.host)}
            failed: dict[str, ArmadaError] = {}
            for file in files:
                failed |= self.some([file])
            return failed
        return {file.path: ArmadaError(f"{file.path} is damaged on the host too", host=self.host) for file in wrong}


def _put(
    database: Database,
    checkpoint: Checkpoint,
    staging: Path,
    place: Path,
    files: Sequence[File],
    linked: Mapping[str, Look],
) -> None:
    """Replace the damaged files by the correct ones in staging; `linked` as in `published.link_known`.

    Raises:
        ArmadaError: One of them took the place of another: home's disk takes their names for one.
    """
    require_same(database, checkpoint.run_id)
    published.replace(staging, place, files)
    if files:
        _, all_files = published.read_published(place, checkpoint.digest)
        if (hidden := find_hidden(place, all_files)) is not None:
            raise not_apart(f"checkpoint-{checkpoint.step}", place, hidden)
        seen = {place / path: look for path, look in linked.items()}
        files_home.record(database, [(file.sha256, place / file.path, file.size) for file in files if file.size], seen)


def _replace_manifest(place: Path, text: str) -> None:
    published.require_folder(place)
    place.mkdir(mode=0o700, exist_ok=True)  # the user may have deleted the whole folder
    write_atomically(place / NAME, text, mode=0o666, unique=False)
