"""The code of a launch at home: `runs/<run id>/launch/code.tar.gz`. Launches of the same code share one file by hard links."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from armada.foundation.atomic_write import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.paths import HomePaths
    from armada.records.launch_record import KeptContent, KeptFile

LARGEST_FILE_BYTES = 10_000_000
LARGEST_BYTES = 100_000_000
"""Of larger files, and of what is beyond the total, only name, size and hash are recorded."""

_ARCHIVE = "code.tar.gz"
_DAMAGE = (OSError, EOFError, tarfile.TarError, zlib.error, ValueError)


def keep_code(home: HomePaths, run_id: str, code: KeptContent, former: Iterable[str] = ()) -> None:
    """Keep the files of a run's code that are small enough and still as they were sent.

    Args:
        home: Home's folders.
        run_id: The run.
        code: Its code.
        former: Runs that were sent the same code.

    Raises:
        OSError: The disk refuses it.
    """
    place = home.launch_record(run_id) / _ARCHIVE
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = _chosen(code)
    for other in former:
        if len(read_code(home, other, code)) < len(kept):
            continue  # files were changed while they were sent, or the archive is damaged
        with contextlib.suppress(OSError), replacing(place) as temporary:
            os.link(home.launch_record(other) / _ARCHIVE, temporary, follow_symlinks=False)
            return
    with (
        replacing(place) as temporary,
        os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream,
        tarfile.open(fileobj=stream, mode="w:gz", compresslevel=6) as archive,
    ):
        for file in kept:
            data = _read(code.source, file)
            if data is not None:
                entry = tarfile.TarInfo(file.path)
                entry.size, entry.mode = len(data), 0o755 if file.executable else 0o644
                archive.addfile(entry, io.BytesIO(data))


def _chosen(code: KeptContent) -> list[KeptFile]:
    """Return the files that are small enough, in order, as many as there is room for."""
    chosen, left = [], LARGEST_BYTES
    for file in code.files or ():
        if file.size_bytes <= min(LARGEST_FILE_BYTES, left):
            left -= file.size_bytes
            chosen.append(file)
    return chosen


def read_code(home: HomePaths, run_id: str, code: KeptContent, wanted: Iterable[str] | None = None) -> dict[str, bytes]:
    """Return the kept files of a run's code by path. A file that is not as it was sent is left out.

    Args:
        home: Home's folders.
        run_id: The run.
        code: Its code, from the run's record.
        wanted: The paths to return; None for all.
    """
    files = {file.path: file for file in code.files or ()}
    names = set(files) if wanted is None else set(wanted) & set(files)
    found: dict[str, bytes] = {}
    # A damaged archive gives what can be read of it: the hash of each file decides.
    with contextlib.suppress(*_DAMAGE), tarfile.open(home.launch_record(run_id) / _ARCHIVE, "r:gz") as archive:
        for entry in archive:
            file = files.get(entry.name)
            if file is None or entry.name not in names or not entry.isreg() or entry.size != file.size_bytes:
                continue
            stream = archive.extractfile(entry)
            data = stream.read() if stream is not None else b""
            if hashlib.sha256(data).hexdigest() == file.sha256:
                found[file.path] = data
    return found


def has_code(home: HomePaths, run_id: str) -> bool:
    """Whether the code of a run was kept."""
    return (home.launch_record(run_id) / _ARCHIVE).is_file()


def _read(source: str, file: KeptFile) -> bytes | None:
    """Return a file's bytes; None if they are not those that were sent."""
    try:
        descriptor = os.open(Path(source) / file.path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(file.size_bytes + 1)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == file.sha256 else None
