"""Record the verified files of published checkpoints by SHA-256, so that they are not sent or read again.

Each record holds the size, times and inode that the file had when its bytes were read. While these are unchanged, the
bytes are taken as unchanged: whoever writes a file changes its times, and whoever resets those changes its ctime.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from armada.store import places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class Look:
    """What `stat` shows of a regular file; times in nanoseconds."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> Look | None:
        """Return what `stat` shows, or None if the path is not a regular file."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        return cls.of(found) if stat.S_ISREG(found.st_mode) else None

    @classmethod
    def of(cls, found: os.stat_result) -> Look:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def is_of_the_same_bytes(self, now: Look | None) -> bool:
        """Whether nobody wrote to the file since. Its ctime also changes where armada links it."""
        return now is not None and (self.size, self.mtime_ns, self.inode) == (now.size, now.mtime_ns, now.inode)


def record(
    database: Database, files: Iterable[tuple[str, Path, int]], seen: Mapping[Path, Look] = MappingProxyType({})
) -> None:
    """Record verified files, as (sha256, path, size in bytes), with their current `stat` values.

    Args:
        database: The store.
        files: The files.
        seen: What `stat` showed of files that others can change, before their bytes were read. One that was written to
            since is not recorded: it is read again before anything relies on it.
    """
    with database.transaction() as connection:
        for sha256, path, size in files:
            look = Look.at(path)
            if look is None or look.size != size or not seen.get(path, look).is_of_the_same_bytes(look):
                continue
            connection.execute(
                "INSERT OR REPLACE INTO files_home (sha256, path, size, mtime_ns, ctime_ns, inode) VALUES (?, ?, ?, ?, ?, ?)",
                (sha256, places.write(database, path), size, look.mtime_ns, look.ctime_ns, look.inode),
            )
            # Hard links share an inode: creating the link changed the ctime of both names.
            connection.execute(
                "UPDATE files_home SET mtime_ns = ?, ctime_ns = ? WHERE sha256 = ? AND inode = ?",
                (look.mtime_ns, look.ctime_ns, sha256, look.inode),
            )


def linked_to(database: Database, folder: Path) -> list[tuple[str, Path, int]]:
    """List proven files outside a folder that share an inode with files inside it. Deleting the folder changes only their ctime."""
    below = f"{places.write(database, folder)}/"
    rows = database.connection.execute(
        """SELECT other.sha256, other.path, other.size FROM files_home one JOIN files_home other USING (sha256, inode)
           WHERE substr(one.path, 1, ?) = ? AND substr(other.path, 1, ?) != ?""",
        (len(below), below, len(below), below),
    ).fetchall()
    found = [(row["sha256"], places.read(database, row["path"]), row["size"]) for row in rows]
    return [(sha256, path, size) for sha256, path, size in found if path is not None and proven(database, path, sha256)]


def find(database: Database, sha256: str) -> list[Path]:
    rows = database.connection.execute("SELECT path FROM files_home WHERE sha256 = ?", (sha256,))
    return [path for row in rows if (path := places.read(database, row["path"])) is not None]


def proven(database: Database, path: Path, sha256: str) -> bool:
    """Whether a file's bytes were verified against this hash and the file was not touched since."""
    row = database.connection.execute(
        "SELECT size, mtime_ns, ctime_ns, inode FROM files_home WHERE sha256 = ? AND path = ?",
        (sha256, places.write(database, path)),
    ).fetchone()
    look = Look.at(path)
    return row is not None and look is not None and tuple(row) == (look.size, look.mtime_ns, look.ctime_ns, look.inode)


def forget(database: Database, path: Path) -> None:
    """Forget a file, or all files below a folder."""
    text = places.write(database, path)
    below = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_") + "/%"
    with database.transaction() as connection:
        connection.execute(r"DELETE FROM files_home WHERE path = ? OR path LIKE ? ESCAPE '\'", (text, below))
