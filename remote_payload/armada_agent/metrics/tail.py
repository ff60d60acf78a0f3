"""Read the data that another program appends to a file: in bounded pieces, as whole lines, each of them once."""

import hashlib
import os
from typing import Any, BinaryIO, Dict, List, Optional

from armada_agent.foundation import files

LONGEST_LINE = 64 * 1024
MOST_BEHIND = 64 * 1024 * 1024
_JUMP_TO = 1024 * 1024
_HEAD_BYTES = 4096


class Tail:
    """A position in a growing file.

    A file that is shorter than before, or whose beginning has changed, is read from its beginning. A rewritten file
    with the same beginning is read from the present position.

    Args:
        path: The file. It may not exist yet.
        within: The folder in which the file must lie, after all links are resolved. None: the file is armada's own.
        mark: The position of an earlier reader, from its `mark`.
        may_jump: Skip the middle of data that grows faster than it is read. The records must be lines.

    Attributes:
        size: The file's size at the last read.
        generation: Increases each time the file starts again.
        too_long: The number of skipped lines longer than 64 KiB.
        skipped_bytes: The number of bytes that were skipped because the file grew too fast.
    """

    def __init__(
        self,
        path: str,
        within: Optional[str] = None,
        mark: Optional[Dict[str, Any]] = None,
        may_jump: bool = True,
    ) -> None:
        self.path = path
        self._within = within
        self._may_jump = may_jump
        self.size = 0
        self.offset, self._head = 0, ""
        if mark is not None and is_position(mark):
            self.offset, self._head = mark["offset"], mark["head"]
        self.generation = 0
        self.too_long = 0
        self.skipped_bytes = 0
        self._in_long_line = False

    @property
    def mark(self) -> Dict[str, Any]:
        """The position of this reader."""
        return {"offset": self.offset, "head": self._head}

    def skip_to_end(self) -> None:
        """Skip the present content."""
        try:
            with files.open_regular(self.path) as stream:
                self.offset = os.fstat(stream.fileno()).st_size
                self._head = _sign(stream, self.offset)
        except OSError:
            return

    def read(self, limit: int) -> bytes:
        """Return the next bytes, at most `limit`, without advancing; empty if the file cannot be read."""
        if self._within is not None and not is_within(self.path, self._within):
            return b""
        try:
            with files.open_regular(self.path) as stream:
                size = self.size = os.fstat(stream.fileno()).st_size
                if self.offset and (size < self.offset or not self._is_same(stream)):
                    self.generation += 1
                    self.offset, self._head, self._in_long_line = 0, "", False
                if self._may_jump and size - self.offset > MOST_BEHIND:
                    self.skipped_bytes += size - _JUMP_TO - self.offset
                    self.offset = size - _JUMP_TO
                    self._in_long_line = True
                    self._head = _sign(stream, self.offset)
                stream.seek(self.offset)
                return stream.read(limit)
        except OSError:
            return b""

    def go_past(self, count: int) -> None:
        """Advance past bytes that were read."""
        before, self.offset = self.offset, self.offset + count
        if count and before < _HEAD_BYTES:
            try:
                with files.open_regular(self.path) as stream:
                    self._head = _sign(stream, self.offset)
            except OSError:
                return

    def _is_same(self, stream: BinaryIO) -> bool:
        """Return whether the file's beginning is unchanged: it may have been rewritten or replaced."""
        return _sign(stream, self.offset) == self._head

    def lines(self, limit: int, final: bool = False, at_returns: bool = False) -> List[bytes]:
        r"""Return whole lines and advance past them.

        Args:
            limit: The largest number of bytes to read; more than the longest line.
            final: The file is complete, so a last line without a newline counts.
            at_returns: A `\r` also ends a line, as in progress bars.
        """
        block = self.read(limit)
        if at_returns:
            block = block.replace(b"\r", b"\n")
        if self._in_long_line:
            end = block.find(b"\n") + 1
            self.go_past(end or len(block))
            self._in_long_line = not end
            block = block[end:] if end else b""
        end = block.rfind(b"\n") + 1
        if final and len(block) < limit and len(block) - end < LONGEST_LINE:
            end = len(block)
        elif not end and len(block) >= LONGEST_LINE:
            self.go_past(len(block))
            self._in_long_line = True
            self.too_long += 1
            return []
        self.go_past(end)
        found = block[:end].split(b"\n")
        self.too_long += sum(1 for line in found if len(line) > LONGEST_LINE)
        return [line for line in found if line and len(line) <= LONGEST_LINE]


def is_position(mark: Any) -> bool:
    """Return whether a mark names a position in a file: a job may have written it."""
    known = mark if isinstance(mark, dict) else {}
    offset, head = known.get("offset"), known.get("head")
    return isinstance(offset, int) and offset >= 0 and isinstance(head, str)


def _sign(stream: BinaryIO, offset: int) -> str:
    """Return a signature of the file's beginning, up to the present position."""
    stream.seek(0)
    return hashlib.sha256(stream.read(min(offset, _HEAD_BYTES))).hexdigest()[:32]


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is below a folder after all links are resolved."""
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
