"""The folders of a run's checkpoints at home: whether they are there, and the marks that tell it (`verdicts/folders.py`).

`runs`, the run's folder and its `checkpoints` may each be a mount point or a link to another disk. Each gets a mark.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from armada.foundation.atomic_write import write_atomically
from armada.foundation.locks import locked
from armada.foundation.regular_files import open_regular
from armada.store import checkpoints, home_folders, runs
from armada.sync.checkpoints.lock import LOCK, MARK, only_one
from armada.sync.checkpoints.manifest import NAME
from armada.sync.errors import FolderAway
from armada.verdicts.folders import Seen, Standing, judge_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

_ID = re.compile(r"[0-9a-f]{32}")
_MOST_ASKED = 200
"""Folders that are looked at for their marks, where the one above them has lost its own."""


class _Judged(NamedTuple):
    """One of the folders; `path` is relative to the home."""

    path: str
    seen: Seen
    standing: Standing


def find_away(database: Database, run_id: str) -> FolderAway | None:
    """Say which folder of a run's checkpoints is not seen here; None if all are there, or were removed by a person."""
    last = _judge(database, run_id)[-1]
    return _away(database, run_id, last) if last.standing is Standing.AWAY else None


def require_there(database: Database, run_id: str) -> None:
    """Refuse to conclude anything from folders that are not seen.

    Raises:
        FolderAway: One is not.
    """
    if (away := find_away(database, run_id)) is not None:
        raise away


def find_changed(database: Database, run_id: str) -> FolderAway | None:
    """Say which of a run's folders is no longer the one that `prepare` left: its mark is not seen there. None if all are."""
    for path in _paths(run_id):
        folder, recorded = database.below / path, home_folders.mark_of(database, path)
        if not folder.is_dir() if recorded is None else _read(folder / MARK) != recorded:
            return _away(database, run_id, _Judged(path, _look(folder), Standing.AWAY))
    return None


def require_same(database: Database, run_id: str) -> None:
    """Refuse to go on in folders whose disk went away since `only_one_there` found them.

    It is asked before anything is put there, recorded as home or said to the host, and after what that builds on was seen.

    Raises:
        FolderAway: One is another now, such as the empty folder where the disk was mounted.
    """
    if (away := find_changed(database, run_id)) is not None:
        raise away


def is_deleted(place: Path) -> bool:
    """Whether a published checkpoint was deleted, if its folder is there: ask `require_there` after this, not before.

    A link that leads nowhere, and an error, tell nothing.
    """
    try:
        mode = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode)


def is_seen(place: Path) -> bool:
    """Whether a folder is there, and its disk says so without an error."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except OSError:
        return False


def require_deleted(database: Database, checkpoint: Checkpoint) -> None:
    """Refuse to fetch a checkpoint again that is at home by the store's records, and that is not seen there, unless a person deleted it.

    Raises:
        FolderAway: It may be there.
    """
    deleted = checkpoint.home_path is None or is_deleted(checkpoint.home_path)
    require_there(database, checkpoint.run_id)
    if not deleted:
        raise not_seen(checkpoint)


def not_seen(checkpoint: Checkpoint) -> FolderAway:
    """Return the error for a checkpoint that is at home by the store's records, and that is not seen there."""
    return FolderAway(
        f"checkpoint-{checkpoint.step} of {checkpoint.run_id} cannot be read at home: {checkpoint.home_path} is a link to a "
        "disk that may not be mounted, or its own disk gives errors",
        hint=f"mount that disk; if the checkpoint is gone, delete {checkpoint.home_path}",
    )


def find_deleted(database: Database, known: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return those of a run's checkpoints that were home, and whose folder a person deleted since."""
    gone = [each for each in known if each.home_path is not None and is_deleted(each.home_path)]
    return gone if gone and find_away(database, gone[0].run_id) is None else []


@contextlib.contextmanager
def only_one_there(
    database: Database, home: HomePaths, run_id: str, wait: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Hold the lock on a run's checkpoints (`only_one`), in folders that are there; those that a person removed are made anew.

    Raises:
        FolderAway: One is not seen: what is put there would be hidden once its disk is mounted.
    """
    prepare(database, home, run_id)
    with only_one(home.checkpoints(run_id), wait) as waited:
        yield waited


def prepare(database: Database, home: HomePaths, run_id: str) -> None:
    """Have a run's folders at home, with their marks.

    Raises:
        FolderAway: One is not seen.
        OSError: The disk refuses a folder.
    """
    if not runs.is_known(database, run_id):
        return
    if all(each.standing is Standing.THERE for each in _judge(database, run_id)):
        return
    with locked(home.lock("folders")):  # or two that begin at once would record each other's marks
        for path in _paths(run_id):
            judged = _judge(database, run_id)
            found = next((each for each in judged if each.path == path), judged[-1])
            if found.standing is Standing.AWAY:
                raise _away(database, run_id, found)
            if found.standing is Standing.REMOVED:
                _require_above(database, found.path, run_id)
                _make(database, found.path, run_id)
            elif found.standing is Standing.TO_MARK:
                _mark(database, found, run_id)


def look_of(place: Path) -> str:
    """Return what `stat` shows of all files of a published checkpoint, as one hash: it changes once somebody touches one."""
    told = hashlib.sha256()
    for folder, inner, names in os.walk(place):
        inner.sort()
        for path in (Path(folder, name) for name in sorted(names)):
            numbers: tuple[int, ...] = ()
            with contextlib.suppress(OSError):  # its disk does not say
                found = path.lstat()
                numbers = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            told.update(repr((str(path.relative_to(place)), numbers)).encode())
    return told.hexdigest()


def _paths(run_id: str) -> tuple[str, str, str]:
    return "runs", f"runs/{run_id}", f"runs/{run_id}/checkpoints"


def _judge(database: Database, run_id: str) -> list[_Judged]:
    """Judge the folders from the outermost on, down to one that is not there."""
    at_home = [c for c in checkpoints.of_run(database, run_id) if c.home_path is not None]
    judged: list[_Judged] = []
    for path in _paths(run_id):
        seen, recorded = _look(database.below / path), home_folders.mark_of(database, path)
        is_doubtful = recorded is not None and seen.exists and not seen.problem and seen.mark != recorded
        holds_known = is_doubtful and (_has_marked(database, path) or any(map(_is_published, at_home)))
        standing = judge_folder(seen, recorded, holds_known=holds_known, has_checkpoints=bool(at_home))
        judged.append(_Judged(path, seen, standing))
        if standing in (Standing.AWAY, Standing.REMOVED):
            break
    return judged


def _look(folder: Path) -> Seen:
    try:
        folder.lstat()
    except FileNotFoundError:
        return Seen(exists=False)
    except OSError as error:
        return Seen(problem=error.strerror or str(error))
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return Seen(problem="the link leads nowhere" if folder.is_symlink() else "it has just been removed")
    except OSError as error:
        return Seen(problem=error.strerror or str(error))
    return Seen(mark=_read(folder / MARK) if MARK in names else None, is_empty=names <= {MARK, LOCK})


def _read(path: Path) -> str | None:
    try:
        with open_regular(path) as stream:
            text = stream.read(100).decode("ascii", "replace").strip()
    except OSError:
        return None
    return text if _ID.fullmatch(text) else None


def _is_published(checkpoint: Checkpoint) -> bool:
    """Whether the folder of a checkpoint is here, with its manifest."""
    if checkpoint.home_path is None:
        return False
    try:
        with open_regular(checkpoint.home_path / NAME) as stream:
            return hashlib.sha256(stream.read()).hexdigest() == checkpoint.digest
    except OSError:
        return False


def _has_marked(database: Database, path: str) -> bool:
    """Whether a folder below has the mark that is recorded for it: whoever copied all may have left out hidden files."""
    below = [(each, mark) for each, mark in home_folders.marks(database).items() if each.startswith(f"{path}/")]
    return any(_read(database.below / each / MARK) == mark for each, mark in below[:_MOST_ASKED])


def _require_above(database: Database, path: str, run_id: str) -> None:
    """Refuse to make a folder anew where the disk that it was on went away since it was seen to be missing."""
    judged = _judge(database, run_id)[-1]
    if judged.standing is Standing.AWAY or judged.path != path:
        raise _away(database, run_id, judged)


def _make(database: Database, path: str, run_id: str) -> None:
    """Make a folder that has its mark from the first moment: without it, it would be taken for an empty mount point."""
    folder, mark = database.below / path, secrets.token_hex(16)
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)  # left by a process that was killed here
    new.mkdir(mode=0o700)
    try:
        write_atomically(new / MARK, f"{mark}\n")
        _require_above(database, path, run_id)  # its disk may have gone away just before it was made
        home_folders.record_mark(database, path, mark, _owner(path, run_id))
        new.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise  # else somebody was faster: the next sync judges what is there
        raise FolderAway(f"{run_id}: {folder} has just been created by another program") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _mark(database: Database, judged: _Judged, run_id: str) -> None:
    """Mark a folder that is there, or record the mark that it has. On a disk that takes no mark, it stays without."""
    mark = judged.seen.mark
    if mark is None:
        mark = secrets.token_hex(16)
        try:
            write_atomically(database.below / judged.path / MARK, f"{mark}\n")
        except OSError:
            return
    home_folders.record_mark(database, judged.path, mark, _owner(judged.path, run_id))


def _owner(path: str, run_id: str) -> str | None:
    return run_id if "/" in path else None


def _away(database: Database, run_id: str, judged: _Judged) -> FolderAway:
    folder = database.below / judged.path
    problem = judged.seen.problem
    why = f"cannot be read ({problem})" if problem else "is not the folder that armada put its checkpoints into"
    return FolderAway(
        f"{run_id}: {folder} {why}: its disk may not be mounted. Nothing is fetched or forgotten until it is",
        hint=f"mount its disk; if you deleted what was in {folder}, delete the folder, too",
    )
