"""Flush files, folders and whole file systems to disk, so that what is said to be there survives a power failure."""

import errno
import os
import stat

from armada_agent.foundation import files


def flush_or_remove(descriptor: int, path: str) -> None:
    """Flush a file that has arrived to disk; delete it if the disk refuses that, so that it is fetched again.

    The kernel tells an error once: afterwards its cache would show the right bytes, and the next fsync would report nothing.
    """
    try:
        os.fsync(descriptor)
    except OSError:
        files.remove(path)
        raise


def fsync_folders(top: str) -> None:
    """Flush a folder and the folders below it to disk, but not their files."""
    for parent, _, _ in os.walk(top):
        files.fsync_folder(parent)


def fsync_tree(top: str) -> None:
    """Flush a folder and everything below it to disk."""
    for parent, _, names in os.walk(top):
        for name in names:
            path = os.path.join(parent, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                files.fsync_folder(path)
        files.fsync_folder(parent)


def fsync_disk(top: str) -> None:
    """Flush a folder with tens of thousands of files to disk, with all else on its file system: an fsync of each takes minutes.

    Raises:
        OSError: The disk refuses it.
    """
    descriptor = os.open(top, os.O_RDONLY)
    try:
        if not _syncfs(descriptor):
            fsync_tree(top)
    finally:
        os.close(descriptor)


def _syncfs(descriptor: int) -> bool:
    """Return whether the kernel flushed the file system of a descriptor. `os.sync` would wait for every other mount, too."""
    try:
        import ctypes  # missing in a Python built without libffi

        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(descriptor) == 0:
            return True
    except (ImportError, AttributeError, OSError):
        return False  # no such function on macOS
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
        return False  # a sandbox forbids it
    raise OSError(code, os.strerror(code))
