"""Hash what a training reads: files, folders, datasets of the hub, and the file of a hook."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from armada_train.data.hooks import hook_file
from armada_train.data.hub import hash_hub
from armada_train.data.readers import unreadable
from armada_train.specification.values import Source


def hash_source(source: Source) -> str:
    """Hash a source's content; for a hook, the file that defines it."""
    if source.hook:
        return hash_data(hook_file(source.hook))
    return hash_hub(source.hub) if source.hub else hash_data(source.path)


def hash_data(path: Path) -> str:
    """Hash a data file, or the files of a folder with their names.

    Raises:
        DataFailure: It does not exist, or cannot be read.
    """
    try:
        if not path.is_dir():
            return _hash_file(path)
        digest = hashlib.sha256()
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            digest.update(f"{file.relative_to(path).as_posix()}\0{_hash_file(file)}\n".encode())
        return digest.hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def _hash_file(path: Path) -> str:
    found = path.stat()
    return _hash_version(path, found.st_size, found.st_mtime_ns)


@functools.cache  # called for a resume and for prepared data
def _hash_version(path: Path, _size_bytes: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
