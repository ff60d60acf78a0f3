"""Cut a log that is longer than `sync.log_limit`: its beginning comes home, and its end in a separate file.

The middle stays on the host. A release reports that and asks the user; no code here treats it as unwanted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOG = "output.log"
END = "output.log.end"
"""The file beside the log at home with its newest part, if the middle stays on the host. No run has a file of this name there."""
_END_SHARE = 4
_LARGEST_END_BYTES = 16 << 20
"""The limit of the end part: it is fetched again with each sync while the run prints."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the host lists it, or a part of one.

    Attributes:
        path: Its name at home, relative to the run's outputs.
        size_bytes: Its size at home.
        mtime: The host's modification time, unix time.
        offset: Where in the host's file it begins.
        ctime_us: The host's time of its change, in microseconds; None from an agent of an earlier release.
    """

    path: str
    size_bytes: int
    mtime: float
    offset: int = 0
    ctime_us: int | None = None

    @property
    def source(self) -> str:
        """Its name on the host."""
        return LOG if self.path == END else self.path


def cut(folder: Path, listed: Sequence[Listed], limit_bytes: int | None) -> list[Listed]:
    """Split a log beyond the limit into two parts; nothing of it that is at home is cut off.

    Args:
        folder: The run's outputs at home.
        listed: The host's files.
        limit_bytes: The limit for both parts together; None: no limit.
    """
    found: list[Listed] = []
    for item in listed:
        if item.path == END:
            continue
        if item.path != LOG or limit_bytes is None or item.size_bytes <= limit_bytes:
            found.append(item)
            continue
        end_bytes = min(limit_bytes // _END_SHARE, _LARGEST_END_BYTES)
        here_bytes = _size(folder / LOG)  # an older armada, or another limit, may have fetched more
        begin_bytes = max(limit_bytes - end_bytes, here_bytes if here_bytes <= item.size_bytes else 0)
        found.append(dataclasses.replace(item, size_bytes=begin_bytes))
        if begin_bytes < item.size_bytes:
            found.append(dataclasses.replace(item, path=END, size_bytes=end_bytes, offset=item.size_bytes - end_bytes))
    return found


def left_there(listed: Sequence[Listed]) -> tuple[int, int]:
    """Return how many bytes of the log `cut` leaves on the host, and the log's length there; both are 0 if the log is not cut."""
    begin = next((item.size_bytes for item in listed if item.path == LOG), 0)
    end = next((item for item in listed if item.path == END), None)
    return (max(0, end.offset - begin), end.offset + end.size_bytes) if end is not None else (0, 0)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
