"""Compare a host's listing of a run's outputs with the files at home."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from armada.foundation.atomic_write import write_atomically
from armada.foundation.regular_files import open_regular
from armada.store.files_home import Look
from armada.sync.outputs.long_logs import Listed, cut, left_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.paths import HomePaths
    from armada.protocol.sync import RunListing

FOLDER = "outputs"
STAGING = ".staging"
INDEX = ".index.json"
END_AT = ".end-at"
"""Where in the index the offset of the end of a cut log is."""
_CTIME = 6
"""Where in an entry of the index the host's time of change is, behind its size, its time, and what `touched` says of the file here."""
_LONGEST_NAME = 1024


def coming(home: HomePaths, run_id: str, entry: RunListing, limit_bytes: int | None) -> tuple[list[Listed], list[str]]:
    """Return the files of a host's listing that belong at home, and the names that are invalid: `read_listing`, with a long log cut."""
    listed, skipped = read_listing(entry)
    return cut(home.run(run_id) / FOLDER, listed, limit_bytes), skipped


def read_listing(entry: RunListing) -> tuple[list[Listed], list[str]]:
    """Check a host's listing; names that could mean something else at home are left out and returned separately."""
    found, skipped = [], []
    seen: set[str] = set()
    for item in entry.outputs:
        path = item.path
        parts = path.split("/")
        bad = any(part in ("", ".", "..") or part.startswith(STAGING) for part in parts) or parts[0] in (INDEX, END_AT)
        if bad or not path.isprintable() or len(path) > _LONGEST_NAME or path in seen:
            skipped.append(path)
        else:
            seen.add(path)
            found.append(Listed(path, item.size_bytes, item.mtime, ctime_us=item.ctime_us))
    taken = {listed.path for listed in found}
    clashing = {path for path in taken if any(parent.as_posix() in taken for parent in Path(path).parents)}
    return [listed for listed in found if listed.path not in clashing], [*skipped, *sorted(clashing)]


def count_left(
    home: HomePaths, run_id: str, entry: RunListing, limit_bytes: int | None, *, ended: bool = False
) -> int | None:
    """Count what a host has of a run that no sync brings, finished checkpoints aside; None if it does not say.

    Files that no `sync.outputs` names, links that lead elsewhere, invalid names, and the middle of a long log. Of a run
    that has ended, announced checkpoints that nobody hashes, too.
    """
    if entry.others is None or entry.others.count is None:
        return None
    listed, skipped = coming(home, run_id, entry, limit_bytes)
    middle, _ = left_there(listed)
    outside = (entry.outside.count or 0) if entry.outside is not None else 0
    unhashed = max(0, (entry.announced or 0) - (entry.finishing or 0)) if ended else 0
    return entry.others.count + outside + len(skipped) + (middle > 0) + entry.truncated + unhashed


def stale(home: HomePaths, run_id: str, listed: Sequence[Listed]) -> list[Listed]:
    """Return the files that are not at home as listed, or that were touched here since they were fetched."""
    folder = home.run(run_id) / FOLDER
    index = read_index(folder)
    return [item for item in listed if not _is_as_fetched(item, index.get(item.path, ()), folder)]


def only_touched_there(home: HomePaths, run_id: str, listed: Sequence[Listed]) -> list[Listed]:
    """Return the files of which `stale` knows no more than another time of change on the host, as a disk that was copied gives them."""
    folder = home.run(run_id) / FOLDER
    index = read_index(folder)
    return [
        item
        for item in stale(home, run_id, listed)
        if _is_as_fetched(dataclasses.replace(item, ctime_us=None), index.get(item.path, ()), folder)
    ]


def entry_for(item: Listed, look: Look | None) -> list[float]:
    """Return what the index says of a file that looks like this here; of an agent of an earlier release it lacks the last number."""
    known = [item.size_bytes, item.mtime, *_numbers(look)]
    return known if item.ctime_us is None else [*known, item.ctime_us]


def touched_when_fetched(entry: Sequence[float]) -> list[float]:
    """Return what `touched` said of a file when it was fetched."""
    return list(entry[2:_CTIME])


def _is_as_fetched(item: Listed, entry: Sequence[float], folder: Path) -> bool:
    """Whether a file is unchanged on both sides.

    A program may set a file's size and time on the host (`cp -p`, `tar`), not the time of its change. What an earlier
    release fetched has no such time.
    """
    listed = entry_for(item, Look.at(folder / item.path))
    known = min(len(entry), len(listed))
    return known >= _CTIME and list(entry[:known]) == listed[:known]


def output_log(home: HomePaths, run_id: str) -> Path | None:
    """Return the fetched part of a run's output; None if nothing was fetched."""
    place = home.run(run_id) / FOLDER / "output.log"
    return place if place.is_file() and not place.is_symlink() else None


def touched(path: Path) -> list[int]:
    """Return the values of `stat` that change whenever a file is written or replaced."""
    return _numbers(Look.at(path))


def _numbers(look: Look | None) -> list[int]:
    return [] if look is None else [look.size, look.mtime_ns, look.ctime_ns, look.inode]


def read_index(folder: Path) -> dict[str, list[float]]:
    """Return what was fetched, with the `stat` values since; nothing if the index cannot be read or is no regular file."""
    try:
        with open_regular(folder / INDEX) as stream:
            value = json.loads(stream.read())
    except (OSError, ValueError, RecursionError):
        return {}
    entries = value.items() if isinstance(value, dict) else ()
    return {path: entry for path, entry in entries if _is_entry(entry, least=1 if path == END_AT else 2)}


def _is_entry(entry: object, least: int) -> bool:
    """Whether something is a list of at least so many numbers."""
    return isinstance(entry, list) and len(entry) >= least and all(type(each) in (int, float) for each in entry)


def write_index(folder: Path, index: dict[str, list[float]]) -> None:
    write_atomically(folder / INDEX, json.dumps(index), mode=0o666, durable=False, unique=False)
