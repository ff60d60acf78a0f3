"""Which home this is. Hosts keep apart what each home has fetched, so two that call themselves one could lose what one has not.

`home.json` beside the store holds the id, and how `home.mark`, made with it, and their folder are known to the file system:

| what became of the folder                           | mark's inode and ctime, folder's inode | it is    |
|-----------------------------------------------------|----------------------------------------|----------|
| moved or renamed on its file system                 | the same                               | the home |
| on NFS, used from another machine or mount point    | the same                               | the home |
| copied, to anywhere; moved to another file system   | others                                 | a copy   |
| put back from a backup, to the same path too        | others                                 | a copy   |
| `chmod -R`, `chown -R`                              | another ctime                          | a copy   |

Paths, host names and machine ids are no evidence: a backup keeps the path, containers share the machine id, laptops change
their name. A copy gets an id of its own, so what is uncertain makes two homes of one: hosts then keep more. What no file shows is a cloned
disk, of a virtual machine or in a container's image: delete `home.json` in the clone.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import logging
import os
import re
import socket
from typing import TYPE_CHECKING, NamedTuple

from armada.foundation.atomic_write import fsync, write_atomically
from armada.foundation.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from armada.paths import HomePaths

log = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-f]{32}")
_MOST_FORMER = 50


class Home(NamedTuple):
    """A home, as hosts and people know it: `label` is user@machine, `path` where it lies now."""

    id: str
    label: str
    path: str

    @property
    def named(self) -> str:
        return f"{self.label} (home {self.id[:8]})"

    def as_json(self) -> dict[str, str]:
        return {"id": self.id, "label": self.label, "path": self.path}


class _Evidence(NamedTuple):
    """How the mark and its folder are known to the file system."""

    mark_inode: int
    mark_ctime_ns: int
    folder_inode: int


class _Record(NamedTuple):
    """What `home.json` says. `evidence` is None where it is incomplete: then this is no original."""

    id: str
    label: str | None
    path: str | None
    evidence: _Evidence | None
    former: tuple[str, ...] = ()


def own(paths: HomePaths) -> Home:
    """Say which home this is; a new one, or a copy, gets its id here, and a copy says so once.

    Raises:
        OSError: It has none yet, and the disk takes none.
    """
    known = _read(paths.home_record)
    if known is None or not _is_original(known, paths):
        with _alone(paths):
            known = _read(paths.home_record)  # again: another process may have been first
            if known is None or not _is_original(known, paths):
                known = _begin(paths, known)
    return Home(known.id, _label(), str(paths.state))


def copied_from(paths: HomePaths) -> frozenset[str]:
    """The ids of the homes of which this one is a copy; none if it is an original. Call `own` first, which gives a copy its own id."""
    known = _read(paths.home_record)
    return frozenset(known.former if known is not None else ())


def launched_by(spec: Mapping[str, object]) -> Home | None:
    """The home that launched a run, by its plan; None for runs of the first release, which do not say."""
    told = spec.get("home")
    if not isinstance(told, dict):
        return None
    parts = [told.get(name) for name in ("id", "label", "path")]
    if not all(isinstance(part, str) for part in parts) or not _ID.fullmatch(str(parts[0])):
        return None
    return Home(*(_plain(str(part)) for part in parts))


def _plain(text: str) -> str:
    from armada.foundation.sanitize import sanitize_line

    return sanitize_line(text, 200)


def _begin(paths: HomePaths, former: _Record | None) -> _Record:
    import secrets  # with hmac and hashlib: 8 ms that only a new home needs

    paths.home_mark.unlink(missing_ok=True)
    paths.home_mark.touch(mode=0o600, exist_ok=False)
    fsync(paths.home_mark)
    home, evidence = Home(secrets.token_hex(16), _label(), str(paths.state)), _seen(paths)
    copied: dict[str, object] = {}
    if former is not None:
        before = [each for each in former.former if each != former.id][:_MOST_FORMER]
        copied["copy_of"] = {"id": former.id, "label": former.label, "path": former.path, "before": before}
    text = json.dumps({"format": 1, **home.as_json(), **evidence._asdict(), **copied}, indent=1) + "\n"
    write_atomically(paths.home_record, text, mode=0o666)
    if former is not None:
        other = f"{_plain(str(former.label))}, {_plain(str(former.path))} (home {former.id[:8]})"
        log.warning(
            "armada: this home, %s, is a copy of %s, or was restored from one. From now on it is home %s. Hosts keep what either home "
            "has not fetched.\n  → if the other one is gone: armada hosts forget-home HOST %s",
            paths.state,
            other,
            home.id[:8],
            former.id[:8],
        )
    return _Record(home.id, home.label, home.path, evidence, (former.id, *former.former) if former is not None else ())


def _is_original(known: _Record, paths: HomePaths) -> bool:
    try:
        return known.evidence == _seen(paths)
    except OSError:
        return False


def _seen(paths: HomePaths) -> _Evidence:
    mark, folder = paths.home_mark.lstat(), paths.state.stat()
    return _Evidence(mark.st_ino, mark.st_ctime_ns, folder.st_ino)


def _read(path: Path) -> _Record | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    told = found.get("id") if isinstance(found, dict) else None
    if not isinstance(told, str) or not _ID.fullmatch(told):
        return None
    label, path_then = (found.get(name) for name in ("label", "path"))
    numbers = [found.get(name) for name in _Evidence._fields]
    return _Record(
        told,
        label if isinstance(label, str) else None,
        path_then if isinstance(path_then, str) else None,
        _Evidence(*numbers) if all(isinstance(number, int) for number in numbers) else None,
        _former(found.get("copy_of")),
    )


def _former(told: object) -> tuple[str, ...]:
    """Return the ids of the homes of which a home is a copy, the newest first."""
    if not isinstance(told, dict):
        return ()
    before = told.get("before")
    named = [told.get("id"), *(before[:_MOST_FORMER] if isinstance(before, list) else ())]
    return tuple(each for each in named if isinstance(each, str) and _ID.fullmatch(each))


def _label() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())  # a container's user may have no name
    return f"{user}@{socket.gethostname()}"[:200]


@contextlib.contextmanager
def _alone(paths: HomePaths) -> Iterator[None]:
    with FileLock(paths.lock("home")) as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            lock.acquire()
        yield
