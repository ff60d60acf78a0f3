"""Published checkpoints looked over, as restic's `check` does: what is damaged is fetched again while a host still has it."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from armada.config.sync import settings_of
from armada.errors import ArmadaError, NotFound
from armada.store import checkpoints, files_home, runs, transfers
from armada.sync.checkpoints import staging as places
from armada.sync.checkpoints.manifest import NAME, File, ManifestRejected, parse_manifest
from armada.sync.transfer.download import Fetcher
from armada.sync.transfer.transfer import ChosenTransfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.transfer.transfer import Transfer
    from armada.transport.interface import TransferProgress

_FILES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One published checkpoint: `damaged` are its files that are missing or wrong; `manifest` too, where that is so."""

    checkpoint: Checkpoint
    place: Path
    damaged: tuple[File, ...]
    manifest_damaged: bool = False

    @property
    def good(self) -> bool:
        return not self.damaged and not self.manifest_damaged


def without_damage(finding: Finding) -> Finding:
    """The same checkpoint, repaired."""
    return replace(finding, damaged=(), manifest_damaged=False)


def look_over(database: Database, run_id: str, *, read_data: bool, told: Callable[[str], None]) -> list[Finding]:
    """Hold every published checkpoint of a run against its manifest.

    Args:
        database: The store.
        run_id: Which run.
        read_data: Read every byte; otherwise sizes and the manifest's own hash.
        told: Given the name of what is being looked at.
    """
    found = []
    right = places.is_right if read_data else places.has_size
    for checkpoint in checkpoints.of_run(database, run_id):
        place = checkpoint.home_path
        if place is None:
            continue
        told(place.name)
        try:
            _, files = places.read_published(place, checkpoint.digest)
        except ManifestRejected:
            found.append(Finding(checkpoint, place, (), manifest_damaged=True))
            continue
        damaged = tuple(file for file in files if not right(place, file))
        for file in damaged:
            files_home.forget(database, place / file.path)
        found.append(Finding(checkpoint, place, damaged))
    return found


def repair_from_home(database: Database, home: HomePaths, finding: Finding) -> Finding:
    """Put right what another checkpoint at home has the bytes of; no host is asked.

    Returns:
        What is still damaged.

    Raises:
        OSError: Home's disk would not take it.
    """
    checkpoint, place = finding.checkpoint, finding.place
    if finding.manifest_damaged:
        return finding
    with places.only_one(home.checkpoints(checkpoint.run_id)):
        staging = home.staging(checkpoint.run_id, checkpoint.digest)
        staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        missing = places.link_known(database, staging, finding.damaged)
        _put(database, staging, place, [file for file in finding.damaged if file not in missing])
        shutil.rmtree(staging)
        places.clear(staging)
        if not missing:
            checkpoints.mark_home(database, checkpoint.run_id, checkpoint.digest, place)
    return replace(finding, damaged=tuple(missing))


def repair(
    database: Database,
    session: HostSession,
    home: HomePaths,
    finding: Finding,
    progress: Callable[[TransferProgress], None],
    *,
    locked: bool = False,
) -> None:
    """Fetch what is damaged anew; each file takes the place of the bad one only once its hash is right, whatever others are.

    Raises:
        NotFound: The host does not have the checkpoint any more.
        ArmadaError: The host's copy is not what the manifest says either.
        HostUnreachable: It does not answer.
    """
    checkpoint, place = finding.checkpoint, finding.place
    run_id, digest = checkpoint.run_id, checkpoint.digest
    with contextlib.nullcontext() if locked else places.only_one(home.checkpoints(run_id)):
        if finding.manifest_damaged:
            answer = session.call("outbox.manifest", {"run_id": run_id, "digest": digest})
            manifest = parse_manifest(str(answer.get("text")), digest)
            _replace_manifest(place, manifest.text)
            _, files = places.read_published(place, digest)
            damaged: Sequence[File] = [file for file in files if not places.is_right(place, file)]
        else:
            damaged = finding.damaged
        _bring_into(database, session, home, checkpoint, place, damaged, progress)
        checkpoints.mark_home(database, run_id, digest, place)


def complete(
    database: Database,
    session: HostSession,
    home: HomePaths,
    checkpoint: Checkpoint,
    progress: Callable[[TransferProgress], None],
) -> int:
    """Fetch what `include_optimizer` left out of a published checkpoint.

    Returns:
        How many files came; 0 where it was whole.

    Raises:
        NotFound, ArmadaError, HostUnreachable: As in `repair`; what was home stays as it was.
    """
    place = checkpoint.home_path
    if place is None:
        raise NotFound(f"checkpoint-{checkpoint.step} is not home")
    with places.only_one(home.checkpoints(checkpoint.run_id)):
        missing = places.left_out(place)
        if not missing:
            return 0
        manifest, _ = places.read_published(place, checkpoint.digest)
        files = [file for file in manifest.files if file.path in missing]
        _bring_into(database, session, home, checkpoint, place, files, progress)
        places.mark_whole(place)
    return len(files)


def _bring_into(
    database: Database,
    session: HostSession,
    home: HomePaths,
    checkpoint: Checkpoint,
    place: Path,
    files: Sequence[File],
    progress: Callable[[TransferProgress], None],
) -> None:
    """Fetch files of a published checkpoint; each takes its place only once its hash is right."""
    run_id, digest = checkpoint.run_id, checkpoint.digest
    staging = home.staging(run_id, digest)
    staging.mkdir(mode=0o700, parents=True, exist_ok=True)
    missing = places.link_known(database, staging, files)
    needed = sum(file.size for file in missing) - places.held_bytes(staging, missing)
    coming = transfers.coming_bytes(database, but=digest)
    places.check_space(staging, f"checkpoint-{checkpoint.step}", needed, coming_bytes=coming)
    failed: dict[str, ArmadaError] = {}
    settings = settings_of(runs.spec(database, run_id))
    with Fetcher(session, streams=settings.streams, bytes_per_s=settings.bytes_per_s) as fetcher:
        transfer = ChosenTransfer(database, session, settings, fetcher)
        for start in range(0, len(missing), _FILES_AT_ONCE):
            fetch = _Fetch(transfer, session.host.name, checkpoint, staging, progress)
            failed |= fetch.some(missing[start : start + _FILES_AT_ONCE])
    _put(database, staging, place, [file for file in files if file.path not in failed])
    shutil.rmtree(staging)
    places.clear(staging)
    for error in failed.values():
        raise error


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Brings files of one checkpoint into staging."""

    transfer: Transfer
    host: str
    checkpoint: Checkpoint
    staging: Path
    progress: Callable[[TransferProgress], None]

    def some(self, files: Sequence[File]) -> dict[str, ArmadaError]:
        """Fetch files; those that cannot be had are named with the reason, and keep the others from nothing.

        Raises:
            HostUnreachable: The link stayed down.
            OSError: Home's disk would not take it.
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


def _put(database: Database, staging: Path, place: Path, files: Sequence[File]) -> None:
    """Give files that are right in staging the places of the bad ones."""
    for file in files:
        source, target = staging / file.path, place / file.path
        source.chmod(0o444)
        places.fsync(source)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        source.replace(target)
    if files:
        places.fsync(place)
        files_home.record(database, [(file.sha256, place / file.path, file.size) for file in files if file.size])


def _replace_manifest(place: Path, text: str) -> None:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)  # somebody may have deleted the whole folder
    temporary = place / f".{NAME}.tmp"
    temporary.write_text(text)
    places.fsync(temporary)
    temporary.replace(place / NAME)


def note_damage(database: Database, finding: Finding, why: str) -> None:
    """Keep what is known of a checkpoint that could not be repaired."""
    checkpoint = finding.checkpoint
    if not finding.place.is_dir():
        files_home.forget(database, finding.place)
        trouble = None if checkpoint.on_host else checkpoints.WAS_HOME
        checkpoints.mark_not_home(database, checkpoint.run_id, checkpoint.digest, trouble)
        return
    checkpoints.mark_trouble(database, checkpoint.run_id, checkpoint.digest, f"damaged at home: {why}")
