"""Warn about a job whose log fills the disk, while there is still space. Logs on the host are never truncated."""

import os
from typing import Optional

_FIRST_BYTES = 1000**3
_STEP = 10


class LogSize:
    """Reports that a log has become long, and again each time that it is ten times longer.

    Args:
        path: The log.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = _FIRST_BYTES
        while self._size() >= self._next:  # an earlier attempt reported this
            self._next *= _STEP

    def look(self) -> Optional[str]:
        """Return a warning if the log has just become long, otherwise None."""
        size = self._size()
        if size < self._next:
            return None
        while self._next <= size:
            self._next *= _STEP
        return "output.log is %.1f GB long and is never shortened; its disk has %.1f GB free" % (
            size / 1e9,
            self._free() / 1e9,
        )

    def _size(self) -> int:
        try:
            return os.lstat(self._path).st_size
        except OSError:
            return 0

    def _free(self) -> int:
        try:
            disk = os.statvfs(os.path.dirname(self._path))
        except OSError:
            return 0
        return disk.f_bavail * disk.f_frsize
