"""Validate the names of files and folders before a transfer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from armada.errors import ArmadaError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def has_control_characters(text: str) -> bool:
    return _CONTROL.search(text) is not None


def checked_names(files: Sequence[str], *, host: str) -> list[str]:
    """Return the names of files to transfer, each guaranteed to name a file below a folder.

    Raises:
        ArmadaError: A name is absolute, contains `..`, `.` or a control character, or is not UTF-8.
    """
    for name in files:
        if has_control_characters(name):
            raise ArmadaError(
                f"the file name {name!a} has a control character or is not UTF-8; armada does not transfer it",
                hint="rename the file, or leave it out",
                host=host,
            )
        if not name or name.startswith("/") or any(part in {"", ".", ".."} for part in name.split("/")):
            raise ArmadaError(f"{name!r} is not a plain path below a folder; armada does not transfer it", host=host)
    return list(files)


def checked_remote_folder(path: str, *, host: str) -> str:
    """Return an absolute folder on a host, without a trailing slash.

    Raises:
        ArmadaError: The folder is relative, or contains characters that the remote rsync would expand.
    """
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise ArmadaError(f"{path!r} is not an absolute folder", host=host)
    if has_control_characters(path) or any(mark in path for mark in "*?[\\"):
        raise ArmadaError(
            f"the folder {path!a} has a control character or one of * ? [ \\; rsync would read it as a pattern",
            hint="choose another `root` for this host",
            host=host,
        )
    return path.rstrip("/") or "/"
