"""Verify that a content's folder matches its hash: every byte, and no additional files.

Code is read completely at each check: it is executed, and it is at most 200 MB. Data and models may be terabytes. They
are read completely on arrival; later, size, both times and inode show whether a file changed. Contents of an older
armada have no record of these; they are read completely once.
"""

import errno
import hashlib
import json
import os
import stat
import time
from typing import Any, Callable, Dict, List, Tuple

from armada_agent.foundation import files

Entry = Tuple[str, int, str, int]
Say = Callable[[str, float], None]
_BLOCK = 1024 * 1024
_LARGE = 64 * _BLOCK
_RECORD_LIMIT = 256 * 1024 * 1024


def note(record: str, folder: str, manifest: List[Entry]) -> None:
    """Record a content's manifest and the metadata of its files, which have just been verified."""
    found, _ = _walk(folder)
    _write(record, manifest, found)


def find_problems(folder: str, sha: str, record: str, every_byte: bool, say: Say) -> List[str]:
    """Check a content against its hash.

    Args:
        folder: The content, or a copy of it.
        sha: Its hash.
        record: The file that `note` wrote; contents of an older armada have none.
        every_byte: Also read files whose metadata has not changed.
        say: Receives messages about slow steps, with the fraction done.

    Returns:
        The problems, a few words each; empty if the content is right.
    """
    found, strange = _walk(folder)
    expected, seals = _read(record, sha)
    problems = ["%s is not a regular file" % name for name in strange]
    if expected:
        problems += ["%s is missing" % name for name in sorted(set(expected) - set(found))]
        problems += ["%s does not belong to it" % name for name in sorted(set(found) - set(expected))]
    if problems:
        return problems
    manifest, was_read = [], False
    total, done = sum(status.st_size for status in found.values()) or 1, 0
    for name, status in sorted(found.items()):
        known = expected.get(name)
        if known is not None and not every_byte and seals.get(name) == _seal(status):
            manifest.append(known)
        else:
            was_read = True
            # The mode in the manifest: some network file systems have no modes.
            mode = known[3] if known is not None else _mode_of(status)
            manifest.append((name, status.st_size, hash_file(os.path.join(folder, native(name))), mode))
            if known is not None and known != manifest[-1]:
                problems.append("%s has the wrong content" % name)
        done += status.st_size
        if status.st_size >= _LARGE:
            say("checked %s" % name, done / float(total))
    if not problems and digest(manifest) != sha:
        problems.append("its %d files do not match its hash" % len(manifest))
    if not problems and was_read and not every_byte:
        _write(record, manifest, found)
    return problems


def find_changed(folder: str, sha: str, record: str, within_s: float) -> List[str]:
    """List the files that are not as they were when a content was verified last; empty without a record of that.

    Only files whose metadata changed are read.

    Raises:
        OSError: The content cannot be read, or not within the time.
    """
    ends_at = time.monotonic() + within_s
    expected, seals = _read(record, sha)
    if not expected or not os.path.isdir(folder):
        return []
    changed, left = set(), set(expected)
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            relative = os.fsencode(os.path.relpath(path, folder)).decode("utf-8", "surrogateescape")
            left.discard(relative)
            if time.monotonic() > ends_at:
                raise OSError(errno.ETIMEDOUT, "this takes longer than %.0f s" % within_s, folder)
            status, known = os.lstat(path), expected.get(relative)
            is_alike = known is not None and stat.S_ISREG(status.st_mode) and status.st_size == known[1]
            is_sealed = is_alike and seals.get(relative) == _seal(status)
            if known is None or not (is_sealed or (is_alike and hash_file(path, ends_at) == known[2])):
                changed.add(relative)
    return sorted(changed | left)


def protect(folder: str) -> None:
    """Make a content's files read-only. Their modes in the manifest stay: these name the content."""
    for name, status in _walk(folder)[0].items():
        os.chmod(os.path.join(folder, native(name)), stat.S_IMODE(status.st_mode) & ~0o222)


def loosen(folder: str) -> None:
    """Make files writable again that were about to be published, so that they can be sent again."""
    for name, status in _walk(folder)[0].items():
        os.chmod(os.path.join(folder, native(name)), stat.S_IMODE(status.st_mode) | 0o200)


def _mode_of(status: os.stat_result) -> int:
    """Return the mode that a manifest has of a file, which may have become read-only since."""
    return 0o755 if status.st_mode & 0o100 else 0o644


def digest(manifest: List[Entry]) -> str:
    """Return the hash of a manifest in its one canonical form."""
    listed = [list(entry) for entry in sorted(manifest)]
    return hashlib.sha256(json.dumps(listed, separators=(",", ":"), ensure_ascii=True).encode("ascii")).hexdigest()


def hash_file(path: str, ends_at: float = float("inf")) -> str:
    """Return a file's SHA-256, in hex.

    Raises:
        OSError: It cannot be read, or not until a moment of the monotonic clock.
    """
    found = hashlib.sha256()
    with files.open_regular(path) as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            if time.monotonic() > ends_at:
                raise OSError(errno.ETIMEDOUT, "reading it takes too long", path)
            found.update(block)
    return found.hexdigest()


def read_manifest(record: str, sha: str) -> Dict[str, Entry]:
    """Return the files of a content by path; empty if their record is missing or wrong."""
    return _read(record, sha)[0]


def native(path: str) -> str:
    """Encode a path so that its bytes on disk are UTF-8 in any locale (Python 3.6 with LANG=C uses ASCII)."""
    return os.fsdecode(path.encode("utf-8", "surrogateescape"))


def _walk(folder: str) -> Tuple[Dict[str, os.stat_result], List[str]]:
    """List the regular files below a folder by path, and the paths of everything else that is not a folder."""
    found: Dict[str, os.stat_result] = {}
    strange: List[str] = []
    for parent, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            relative = os.fsencode(os.path.relpath(path, folder)).decode("utf-8", "surrogateescape")
            if stat.S_ISREG(status.st_mode):
                found[relative] = status
            elif not stat.S_ISDIR(status.st_mode):
                strange.append(relative)
    return found, sorted(strange)


def _read(record: str, sha: str) -> Tuple[Dict[str, Entry], Dict[str, Any]]:
    """Read the files that belong to a content, and their recorded metadata. Both are empty if the record is missing or wrong."""
    try:
        noted = files.read_json(record, limit=_RECORD_LIMIT) or {}
        manifest: List[Entry] = [(path, size, sha256, mode) for path, size, sha256, mode in noted.get("manifest") or []]
        seals = noted.get("seals")
        if digest(manifest) != sha:
            return {}, {}
        return {entry[0]: entry for entry in manifest}, seals if isinstance(seals, dict) else {}
    except (files.UnreadableError, TypeError, ValueError):
        return {}, {}


def _write(record: str, manifest: List[Entry], found: Dict[str, os.stat_result]) -> None:
    seals = {name: _seal(status) for name, status in found.items()}
    files.keep_json(record, {"manifest": [list(entry) for entry in manifest], "seals": seals})


def _seal(status: os.stat_result) -> List[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
