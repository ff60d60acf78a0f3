"""Fetch files of a checkpoint by rsync, over one connection.

rsync writes into a separate folder beside staging, which contains nothing verified or shared: rsync writes in place, a
hostile host may name arbitrary files to an old rsync, and an rsync that outlived its armada may still write. Files move
to staging once the last of its processes has ended and their SHA-256 was correct.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from armada.errors import HostUnreachable, RsyncUnusable
from armada.foundation.locks import FileLock
from armada.foundation.progress import TransferProgress
from armada.foundation.regular_files import open_regular
from armada.sync.errors import SourceChanged
from armada.sync.transfer.block_writer import BLOCK_BYTES, blocks_in, read_journal
from armada.sync.transfer.retries import Retries
from armada.sync.transfer.staging import BLOCKS, incoming
from armada.transport.interface import Pull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from armada.rpc.session import HostSession
    from armada.sync.transfer.interface import File

_ENDS_S = 20.0
"""Seconds to wait for a killed process, which may have to finish a write first."""
_PIECE_BYTES = 1 << 20
_HASHERS = 2
_REPORT_EVERY_S = 0.5
_SLACK_BYTES = 64 << 20


class RsyncTransfer:
    """Fetches files with rsync, continues partial files at their end, and limits the bandwidth with `--bwlimit`.

    Args:
        session: A session with the host.
        bytes_per_s: The run's own limit; None for none.
    """

    def __init__(self, session: HostSession, bytes_per_s: float | None = None) -> None:
        self._session = session
        self._bytes_per_s = bytes_per_s

    def warm(self, size_bytes: int) -> None:
        """Do nothing: rsync opens its own connection."""

    def bring(
        self,
        run_id: str,
        source: str,
        staging: Path,
        files: Sequence[File],
        progress: Callable[[TransferProgress], None],
    ) -> list[File]:
        """See `Transfer.bring`.

        Raises:
            RsyncUnusable: rsync is missing or cannot be used, on either machine.
        """
        area = _StagingArea(staging)
        total = sum(file.size for file in files)
        with area.alone(_ENDS_S):
            missing = area.take_over(files, lambda: progress(TransferProgress(0, total, None)))
        before = total - sum(file.size for file in missing)
        held = area.held_bytes(missing)

        def shifted(seen: TransferProgress) -> None:
            if seen.done_bytes > 2 * total + _SLACK_BYTES:  # twice, because rsync may send a file again
                raise SourceChanged("the host sends more than the manifest lists", host=self._session.host.name)
            progress(TransferProgress(min(total, before + max(held, seen.done_bytes)), total, seen.rate_bytes_per_s))

        if missing:
            folder = str(self._session.paths.run(run_id) / source.rstrip("/"))
            self._pull(folder, missing, area, shifted)
        with area.alone(_ENDS_S):
            return area.verify(missing, lambda: progress(TransferProgress(total, total, None)))

    @staticmethod
    def give_back(staging: Path, files: Sequence[File]) -> None:
        """Convert what rsync left so that the stream can continue it, unless an rsync still writes there."""
        area = _StagingArea(staging)
        if area.incoming.is_dir():
            with contextlib.suppress(RsyncUnusable), area.alone(0.0):
                area.give_back(files)

    def _pull(
        self, folder: str, files: Sequence[File], area: _StagingArea, progress: Callable[[TransferProgress], None]
    ) -> None:
        """Run rsync until everything has arrived, retrying broken links within the session's patience."""
        retries, held = Retries(), area.held_bytes(files)
        names, size = [file.path for file in files], sum(file.size for file in files)
        while True:
            try:
                with area.alone(_ENDS_S) as lock:
                    wanted = Pull(folder, names, area.incoming, size, self._bytes_per_s, (lock,))
                    self._session.pull(wanted, progress)
            except HostUnreachable as error:
                before, held = held, area.held_bytes(files)
                retries.wait(error, patience_s=self._session.patience_s, has_come=held > before)
            else:
                return


class _StagingArea:
    """Where files of one checkpoint arrive, and the conversion of partial files between the stream and rsync."""

    def __init__(self, staging: Path) -> None:
        self._staging = staging
        self._journal = staging.with_name(staging.name + BLOCKS)
        self.incoming = incoming(staging)

    @contextlib.contextmanager
    def alone(self, wait_s: float) -> Iterator[int]:
        """Hold the lock that every rsync writing here holds; yield its descriptor.

        Raises:
            RsyncUnusable: One still writes.
        """
        for folder in (self.incoming.parent, self.incoming):  # none above: its disk may have gone away
            folder.mkdir(mode=0o700, exist_ok=True)
        with FileLock(self.incoming.with_name("lock"), follow_links=False) as lock:
            try:
                lock.acquire(timeout_s=wait_s)
            except TimeoutError:
                raise RsyncUnusable(f"another rsync still writes to {self.incoming}") from None
            yield lock.descriptor

    def held_bytes(self, files: Sequence[File]) -> int:
        """Return how many bytes of these files are here."""
        return sum(found.st_size for file in files if (found := _look(self.incoming / file.path)) is not None)

    def take_over(self, files: Sequence[File], tick: Callable[[], None]) -> list[File]:
        """Prepare rsync's folder with the beginning of each file. Return the files that are not yet correct in staging."""
        kept: dict[str, set[int]] = {}
        if self._journal.exists():
            with self._journal.open("rb+") as stream:
                kept = read_journal(stream.fileno())
        whole = [file for file in files if self._seems_whole(file, kept.get(file.path))]
        right = {file.path for file, is_right in zip(whole, _hash(self._staging, whole, tick), strict=True) if is_right}
        missing = [file for file in files if file.path not in right]
        for file in missing:
            self._take(file, kept.get(file.path))
        if kept:
            with self._journal.open("a") as stream:
                stream.writelines(f"- {file.path}\n" for file in missing if file.path in kept)
        return missing

    def _seems_whole(self, file: File, blocks: set[int] | None) -> bool:
        found = _look(self._staging / file.path)
        is_whole = blocks is None or len(blocks) >= blocks_in(file.size)
        return found is not None and found.st_size == file.size and is_whole

    def _take(self, file: File, blocks: set[int] | None) -> None:
        """Move the beginning of a file to rsync's folder, so that rsync can continue it; nothing of it stays in staging."""
        staged, target = self._staging / file.path, self.incoming / file.path
        _make_folders(self.incoming, file)
        if (found := _look(target)) is None or found.st_size > file.size:
            _remove(target)
        found, begins = _look(staged), _beginning(blocks or set())
        if found is not None and found.st_size == file.size and 0 < begins < blocks_in(file.size):
            # The stream allocates a file's full size at once; rsync would take that for a complete file.
            os.truncate(staged, begins * BLOCK_BYTES)
            if self.held_bytes([file]) < begins * BLOCK_BYTES:
                staged.replace(target)
        _remove(staged)

    def verify(self, files: Sequence[File], tick: Callable[[], None]) -> list[File]:
        """Move correct files to staging; delete the others and return them."""
        wrong = []
        for file, is_right in zip(files, _hash(self.incoming, files, tick), strict=True):
            arrived, staged = self.incoming / file.path, self._staging / file.path
            if is_right:
                staged.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                arrived.replace(staged)
            else:
                _remove(arrived)
                wrong.append(file)
        return wrong

    def give_back(self, files: Sequence[File]) -> None:
        """Move beginnings to staging in the stream's format: full size, with a journal of complete blocks."""
        with self._journal.open("a") as journal:
            for file in files:
                arrived, staged = self.incoming / file.path, self._staging / file.path
                found, old = _look(arrived), _look(staged)
                is_plain = found is not None and _has_plain_folders(self.incoming, file)
                if found is None or not is_plain or found.st_size > file.size or old is not None:
                    continue
                staged.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.truncate(arrived, file.size)
                arrived.replace(staged)
                is_whole = found.st_size == file.size
                whole = blocks_in(file.size) if is_whole else found.st_size // BLOCK_BYTES
                journal.write(f"- {file.path}\n")
                journal.writelines(f"{block} {file.path}\n" for block in range(whole))


def _hash(folder: Path, files: Sequence[File], tick: Callable[[], None]) -> list[bool]:
    """Return which of these files in a folder are correct; `tick` may end it by raising."""
    given_up = threading.Event()
    with ThreadPoolExecutor(_HASHERS, thread_name_prefix="hashing what rsync brought") as pool:
        try:
            verdicts = [pool.submit(_is_right, folder, file, given_up) for file in files]
            while wait(verdicts, _REPORT_EVERY_S).not_done:
                tick()
        finally:
            given_up.set()
            pool.shutdown(wait=False, cancel_futures=True)
    return [verdict.result() for verdict in verdicts]


def _is_right(folder: Path, file: File, given_up: threading.Event) -> bool:
    found = _look(folder / file.path)
    if found is None or found.st_size != file.size or not _has_plain_folders(folder, file):
        return False
    digest = hashlib.sha256()
    try:
        with open_regular(folder / file.path) as stream:
            while piece := stream.read(_PIECE_BYTES):
                if given_up.is_set():
                    return False
                digest.update(piece)
    except OSError:
        return False  # a bad sector: what is fetched again gets other ones
    return digest.hexdigest() == file.sha256


def _look(path: Path) -> os.stat_result | None:
    """Return the status of a file without other hard links, or None; links into published checkpoints must never be written through."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _parents(folder: Path, file: File) -> list[Path]:
    return [folder / parent for parent in reversed((folder / file.path).relative_to(folder).parents)]


def _make_folders(folder: Path, file: File) -> None:
    for parent in _parents(folder, file):
        if parent.is_symlink() or not parent.is_dir():
            parent.unlink(missing_ok=True)
            parent.mkdir(mode=0o700)


def _has_plain_folders(folder: Path, file: File) -> bool:
    return all(parent.is_dir() and not parent.is_symlink() for parent in _parents(folder, file))


def _beginning(blocks: set[int]) -> int:
    """Return how many blocks from the beginning are complete without a gap."""
    count = 0
    while count in blocks:
        count += 1
    return count
