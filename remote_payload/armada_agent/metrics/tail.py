"""Read what was added to a file that somebody else writes: in bounded pieces, whole lines, each once."""

import os
from typing import Any, Dict, List, Optional

from armada_agent.host import files

LONGEST_LINE = 64 * 1024
MOST_BEHIND = 64 * 1024 * 1024
_JUMP_TO = 1024 * 1024


class Tail:
    """A place in a file that grows. A file that is shorter, or another one, than before is read from its beginning.

    Args:
        path: The file; it may not be there yet.
        within: A folder that the file may not lie outside of, whatever links lead there. None: it is armada's own.
        mark: Where an earlier reader stopped, as `mark` gave it.

    Attributes:
        generation: Goes up whenever the file begins anew.
        too_long: How many lines were passed over because they are longer than 64 KiB.
        skipped_bytes: How much was passed over because the file grew faster than it is read.
    """

    def __init__(self, path: str, within: Optional[str] = None, mark: Optional[Dict[str, Any]] = None) -> None:
        self.path = path
        self._within = within
        known = mark if isinstance(mark, dict) else {}
        self._inode = known.get("inode") if isinstance(known.get("inode"), int) else None
        offset = known.get("offset")
        self.offset = offset if self._inode is not None and isinstance(offset, int) and offset >= 0 else 0
        self.generation = 0
        self.too_long = 0
        self.skipped_bytes = 0
        self._in_long_line = False

    @property
    def mark(self) -> Dict[str, Any]:
        """Where this reader stopped."""
        return {"inode": self._inode, "offset": self.offset}

    def skip_to_end(self) -> None:
        """Pass over what is there now."""
        try:
            found = os.lstat(self.path)
        except OSError:
            return
        self._inode, self.offset = found.st_ino, found.st_size

    def read(self, limit: int) -> bytes:
        """Give the next bytes, at most `limit`, without going past them; nothing where the file cannot be read."""
        if self._within is not None and not is_within(self.path, self._within):
            return b""
        try:
            with files.open_regular(self.path) as stream:
                found = os.fstat(stream.fileno())
                if found.st_ino != self._inode or found.st_size < self.offset:
                    if self._inode is not None:
                        self.generation += 1
                    self._inode, self.offset, self._in_long_line = found.st_ino, 0, False
                if found.st_size - self.offset > MOST_BEHIND:
                    self.skipped_bytes += found.st_size - _JUMP_TO - self.offset
                    self.offset = found.st_size - _JUMP_TO
                    self._in_long_line = True
                stream.seek(self.offset)
                return stream.read(limit)
        except OSError:
            return b""

    def lines(self, limit: int, final: bool = False, at_returns: bool = False) -> List[bytes]:
        r"""Give whole lines and go past them.

        Args:
            limit: Bytes to read at most; more than the longest line.
            final: Nobody writes any more: a last line without an end counts.
            at_returns: A `\r` ends a line too, as where progress bars are drawn.
        """
        block = self.read(limit)
        if at_returns:
            block = block.replace(b"\r", b"\n")
        if self._in_long_line:
            end = block.find(b"\n") + 1
            self.offset += end or len(block)
            self._in_long_line = not end
            block = block[end:] if end else b""
        end = block.rfind(b"\n") + 1
        if final and len(block) < limit and len(block) - end < LONGEST_LINE:
            end = len(block)
        elif not end and len(block) >= LONGEST_LINE:
            self.offset += len(block)
            self._in_long_line = True
            self.too_long += 1
            return []
        self.offset += end
        found = block[:end].split(b"\n")
        self.too_long += sum(1 for line in found if len(line) > LONGEST_LINE)
        return [line for line in found if line and len(line) <= LONGEST_LINE]


def is_within(path: str, folder: str) -> bool:
    """Tell whether a path leads below a folder, wherever the links on its way lead."""
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
