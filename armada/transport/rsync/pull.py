"""Fetch files from hosts by rsync.

Nothing that rsync reports is proof. 3.2.4 and older also write any file name that a hostile host sends below the
destination (CVE-2022-29154). So the destination must contain nothing verified, and callers check digests.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from armada.errors import ArmadaError, NotFound, RsyncUnusable
from armada.paths import HomePaths
from armada.transport.interface import ProgressCallback, Pull
from armada.transport.rsync.errors import explain_exit
from armada.transport.rsync.program import over_ssh, run_rsync
from armada.transport.ssh.host_keys import pinned_keys
from armada.transport.ssh.names import checked_names, checked_remote_folder
from armada.transport.ssh.resolve import HostSpec

# Partial files must be writable to continue them, and private, whatever their mode on the host.
_OPTIONS = ["--perms", "--chmod=D700,F600"]
_DISK = 11
_SOURCE = {23, 24}
_SHORTER = "read errors mapping"  # rsync prints it for a file that became shorter while it was read, and for bad disks
_BAD_DISK = "Input/output error"
_MISSING = ("No such file", "vanished")
_FULL = {"Disk quota exceeded": errno.EDQUOT, "File too large": errno.EFBIG, "No space left": errno.ENOSPC}


def pull(spec: HostSpec, home: HomePaths, wanted: Pull, progress: ProgressCallback | None = None) -> None:
    """Copy files from a host; see Transport.pull."""
    source = f"{spec.alias}:{_checked(wanted.source, spec.name)}/"
    status, said = _run(wanted, [*over_ssh(spec, home), source], spec.name, home.ssh, progress)
    if status:
        raise _explain_here(status, said, wanted, spec.name) or explain_exit(
            status, said, host=spec.name, pinned=pinned_keys(home), reuse_only=spec.reuse_only
        )


def pull_here(host: str, wanted: Pull, progress: ProgressCallback | None = None) -> None:
    """Copy files from another folder of this machine; see Transport.pull."""
    status, said = _run(wanted, [f"{_checked(wanted.source, host)}/"], host, Path("/"), progress)
    if status:
        raise _explain_here(status, said, wanted, host) or explain_exit(status, said, host=host, pinned={})


def _checked(folder: str, host: str) -> str:
    try:
        return checked_remote_folder(folder, host=host)
    except ArmadaError as error:  # copying without rsync may still work
        raise RsyncUnusable(error.message, hint=error.hint, host=host) from error


def _run(
    wanted: Pull, arguments: Sequence[str], host: str, folder: Path, progress: ProgressCallback | None
) -> tuple[int, str]:
    names = checked_names(wanted.files, host=host)
    # In units of 1,024 bytes, which every release supports; never 0, which means no limit.
    limit = [] if wanted.bytes_per_s is None else [f"--bwlimit={max(1, int(wanted.bytes_per_s / 1024))}"]
    options = [*_OPTIONS, *limit, *arguments, f"{wanted.destination.absolute()}/"]
    status, said = run_rsync(options, names, host, folder, progress, wanted.size_bytes, keep_open=wanted.keep_open)
    if status in _SOURCE and _SHORTER in said and _BAD_DISK not in said and not any(w in said for w in _MISSING):
        return 0, said  # the digest will not match either, and the file is requested again
    return status, said


def _explain_here(status: int, said: str, wanted: Pull, host: str) -> Exception | None:
    """Return the error if it concerns files: those on the host, or this machine's disk."""
    full = [number for words, number in _FULL.items() if words in said]
    if full or status == _DISK:
        number = full[0] if full else errno.EIO
        return OSError(number, os.strerror(number), str(wanted.destination))
    if status in _SOURCE:
        last = next((line for line in said.splitlines() if line.strip()), "it printed nothing")[:500]
        kind = NotFound if any(words in said for words in _MISSING) else ArmadaError
        return kind(f"not every file could be read: {last}", host=host)
    return None
