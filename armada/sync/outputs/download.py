"""Download what a run wrote besides checkpoints: logs, metrics, W&B files, merged models, the files its experiment names.

They are stored in `runs/<run_id>/outputs/` under their names on the host. A file that is still being written is fetched
at the length it was listed with. Each is checked against the host's SHA-256 for that length before it replaces an older
copy. What a host that was put back to an older disk has no later copy of is kept in `runs/<run_id>/replaced/`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.regular_files import is_special, open_regular
from armada.protocol import sync as protocol
from armada.store.files_home import Look
from armada.sync.outputs.listing import (
    END_AT,
    FOLDER,
    INDEX,
    STAGING,
    coming,
    entry_for,
    only_touched_there,
    read_index,
    stale,
    write_index,
)
from armada.sync.outputs.long_logs import END, LOG, Listed
from armada.sync.outputs.replaced import Keeper
from armada.sync.transfer.block_writer import BLOCK_BYTES, BlockWriter
from armada.sync.transfer.interface import File
from armada.sync.transfer.staging import check_space, flush, read_right
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.foundation.progress import TransferProgress
    from armada.protocol.sync import RunListing
    from armada.sync.context import SyncContext
    from armada.sync.transfer.stream_transfer import Fetcher

_BATCH = 200
_HASHING_TIMEOUT_S = 1800.0
_AHEAD_BYTES = 64 << 20
"""How many bytes the host may hash while checkpoints are transferred; more could slow down the disk they are read from."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one sync fetched of a run's outputs; `skipped` are names that are not valid at home, `kept` what was not replaced."""

    fetched: tuple[str, ...] = ()
    size_bytes: int = 0
    unsettled: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def then(self, later: Outputs) -> Outputs:
        """Combine this result with a later one; a file that was fetched twice counts once."""
        news = tuple(path for path in later.fetched if path not in self.fetched)
        size_bytes = self.size_bytes + later.size_bytes
        return Outputs(self.fetched + news, size_bytes, later.unsettled, later.skipped, self.kept + later.kept)


@dataclass(frozen=True, slots=True)
class Hashes:
    """A request to the host for hashes, and the call that waits for its answer."""

    batch: tuple[Listed, ...]
    answer: Callable[[], protocol.Hashes]


def ask_ahead(context: SyncContext, entry: RunListing, log_limit_bytes: int | None) -> Hashes | None:
    """Request the hashes that `download_outputs` will need, before checkpoints are fetched. None if there is nothing or too much to hash.

    Raises:
        HostUnreachable: The request could not be sent.
    """
    home, run_id = context.home, context.run_id
    listed, _ = coming(home, run_id, entry, log_limit_bytes)
    wanted = stale(home, run_id, listed)
    if not wanted or len(wanted) > _BATCH or sum(item.size_bytes for item in wanted) > _AHEAD_BYTES:
        return None
    answer = context.session.begin(_to_hash(run_id, wanted), timeout_s=_HASHING_TIMEOUT_S)
    return Hashes(tuple(wanted), answer)


def not_at_home(context: SyncContext, listed: Sequence[Listed]) -> list[Listed]:
    """Return the files that are not at home as listed. Where times alone say so, the bytes are read, here and on the host.

    Raises:
        HostUnreachable: Nothing can be said.
    """
    home, run_id = context.home, context.run_id
    same: dict[str, Look] = {}
    touched = only_touched_there(home, run_id, listed)
    for start in range(0, len(touched), _BATCH):
        batch = touched[start : start + _BATCH]
        answer = context.session.call(_to_hash(run_id, batch), timeout_s=_HASHING_TIMEOUT_S)
        for item, sha256 in zip(batch, answer.sha256, strict=False):
            look = _look_at(home.run(run_id) / FOLDER / item.path, item.size_bytes, sha256)
            if look is not None:
                same[item.path] = look
    return [
        item
        for item in stale(home, run_id, listed)
        if item.path not in same or Look.at(home.run(run_id) / FOLDER / item.path) != same[item.path]
    ]


def _to_hash(run_id: str, batch: Sequence[Listed]) -> protocol.HashFiles:
    asked = ((item.source, item.size_bytes, *((item.offset,) if item.offset else ())) for item in batch)
    return protocol.HashFiles(run_id=run_id, files=tuple(asked))


def download_outputs(
    context: SyncContext,
    listed: Sequence[Listed],
    fetcher: Fetcher,
    progress: Callable[[TransferProgress], None],
    asked: Hashes | None = None,
    *,
    require_same: Callable[[], None],
) -> Outputs:
    """Fetch the outputs that changed.

    Args:
        context: The run and its host.
        listed: The host's files.
        fetcher: Fetches from the same host.
        progress: Receives the progress of each batch.
        asked: The result of `ask_ahead`.
        require_same: Raises where home's disk is another one than at the beginning; called before anything is put there.

    Raises:
        DiskFull: The files do not fit; nothing was fetched.
        FolderAway: Home's disk went away since the run's lock was taken.
        HostUnreachable: The link stayed down; complete files are kept.
        ArmadaError: Something that is no file is in the place of one; all others were fetched.
    """
    home, run_id = context.home, context.run_id
    folder = home.run(run_id) / FOLDER
    if is_special(folder / INDEX):
        raise _in_the_way(folder / INDEX, "no output comes home", run_id)
    if (folder / STAGING).is_symlink():
        what = f"{folder / STAGING} is a link, so no output comes home"
        raise ArmadaError(what, hint=f"move it away, then armada sync now {run_id}")
    missing = stale(home, run_id, listed)
    wanted = [item for item in missing if not is_special(folder / item.path)]
    require_same()
    folder.mkdir(mode=0o700, exist_ok=True)
    check_space(folder, "the run's files other than checkpoints", sum(item.size_bytes for item in wanted))
    index = read_index(folder)
    keeper = Keeper(home.run(run_id), index)
    fetched: list[str] = []
    unsettled: list[str] = []
    size_bytes = 0
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        if asked is not None and asked.batch == tuple(batch):
            answer = asked.answer()
        else:
            answer = context.session.call(_to_hash(run_id, batch), timeout_s=_HASHING_TIMEOUT_S)
        require_same()
        came = _bring_batch(answer.sha256, keeper, folder, run_id, batch, fetcher, progress)
        for item in batch:
            look = came.get(item.path)
            if look is not None and look == Look.at(folder / item.path):  # else somebody wrote to it meanwhile
                index[item.path] = entry_for(item, look)
                if item.path == END:
                    index[END_AT] = [item.offset]
                fetched.append(item.path)
                size_bytes += item.size_bytes
            else:
                unsettled.append(item.path)
        require_same()
        write_index(folder, index)
    if keeper.kept:  # a link that was set aside took others with it, which had been read through it
        unsettled = list(dict.fromkeys((*unsettled, *(item.path for item in stale(home, run_id, listed)))))
    if LOG in {item.path for item in listed} - set(unsettled) and END not in {item.path for item in listed}:
        keeper.drop_part(END, LOG)  # the log is complete here now
    if blocked := [item.path for item in missing if item not in wanted]:
        raise _in_the_way(folder / blocked[0], f"{counted(len(blocked), 'output')} cannot come home", run_id)
    return Outputs(tuple(fetched), size_bytes, tuple(unsettled), kept=tuple(keeper.kept))


def _in_the_way(place: Path, so: str, run_id: str) -> ArmadaError:
    what = f"{place} is not a regular file, so {so}"
    return ArmadaError(what, hint=f"move it away, then armada sync now {run_id}")


def _bring_batch(
    hashes: Sequence[str | None],
    keeper: Keeper,
    folder: Path,
    run_id: str,
    batch: Sequence[Listed],
    fetcher: Fetcher,
    progress: Callable[[TransferProgress], None],
) -> dict[str, Look]:
    """Fetch a batch.

    Returns:
        What `stat` shows of the files whose bytes are at home as they were listed, by path.
    """
    files = [
        File(item.path, item.size_bytes, sha256, item.source, item.offset)
        for item, sha256 in zip(batch, hashes, strict=False)
        if sha256 is not None
    ]
    items = {item.path: item for item in batch}
    looks = {file.path: _look_at(folder / file.path, file.size, file.sha256) for file in files}
    missing = [file for file in files if looks[file.path] is None]
    staging, journal = folder / STAGING, folder / f"{STAGING}.blocks"
    _clear_the_way(staging, journal, missing)
    for file in missing:
        if file.offset:
            continue  # the end of this log begins at a different offset than the copy here
        _seed(folder, staging, journal, file)
    for _ in range(2):  # the second time without the local beginning, which did not match
        if not missing:
            break
        with contextlib.closing(BlockWriter(staging, journal, missing)) as writer:
            fetcher.fetch(run_id, "", writer, progress)
            wrong = writer.wrong()
        for file in missing:
            if file not in wrong:
                _clear_folders(folder, file.path, keeper)
                keeper.before(items[file.path], staging / file.path)
                flush(staging, staging / file.path)
                looks[file.path] = _move(staging / file.path, folder / file.path)
        missing = wrong
    journal.unlink(missing_ok=True)
    shutil.rmtree(staging, ignore_errors=True)
    return {path: look for path, look in looks.items() if look is not None}


def _move(source: Path, target: Path) -> Look | None:
    """Move a file; return what `stat` shows of it then. Its ctime is another one."""
    before = Look.at(source)
    source.replace(target)
    now = Look.at(target)
    return now if before is not None and before.is_of_the_same_bytes(now) else None


def _clear_the_way(staging: Path, journal: Path, files: Sequence[File]) -> None:
    """Delete what a sync that was killed had received, if a file there became a folder since, or a folder a file."""
    places = [staging / file.path for file in files]
    above = {parent for place in places for parent in place.parents if parent.is_relative_to(staging)}
    if any(place.is_dir() for place in places) or any(parent.is_file() for parent in above):
        journal.unlink(missing_ok=True)
        shutil.rmtree(staging)


def _seed(folder: Path, staging: Path, journal: Path, file: File) -> None:
    """Start with the local copy of a log that has grown; the hash over the whole file shows whether that was right."""
    old = folder / file.path
    try:
        size = old.lstat().st_size if old.is_file() and not old.is_symlink() else 0
    except OSError:
        return
    if not BLOCK_BYTES <= size < file.size:
        return
    target = staging / file.path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    blocks = _copy_blocks(old, target, size // BLOCK_BYTES)
    if not blocks:
        return
    os.truncate(target, file.size)
    with journal.open("a") as stream:
        stream.writelines(f"{block} {file.path}\n" for block in range(blocks))


def _copy_blocks(old: Path, target: Path, most: int) -> int:
    """Copy the whole blocks of a file up to the first that its disk cannot read. Return how many were copied."""
    try:
        stream = open_regular(old)
    except OSError:
        return 0
    with stream, target.open("wb") as copy:
        for block in range(most):
            try:
                data = stream.read(BLOCK_BYTES)
            except OSError:
                return block
            if len(data) < BLOCK_BYTES:
                return block
            copy.write(data)
    return most


def _look_at(path: Path, size: int, sha256: str | None) -> Look | None:
    """Return what `stat` showed of a file before its bytes were read; None if they are others, or cannot be read."""
    return None if sha256 is None else read_right(path.parent, File(path.name, size, sha256))


def _clear_folders(folder: Path, name: str, keeper: Keeper) -> None:
    """Have the folders of an output; move aside what is in the place of one, so that nothing is moved through a link."""
    for parent in reversed(Path(name).parents[:-1]):
        place = folder / parent
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            keeper.keep(str(parent))  # a file on the host became a folder, or somebody put a link here
        place.mkdir(mode=0o700, exist_ok=True)
