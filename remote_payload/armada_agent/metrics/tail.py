"""Read what was added to a file that somebody else writes: in bounded pieces, whole lines, each once."""

import hashlib
import os
from typing import Any, BinaryIO, Dict, List, Optional

from armada_agent.foundation import files

LONGEST_LINE = 64 * 1024
MOST_BEHIND = 64 * 1024 * 1024
_JUMP_TO = 1024 * 1024
_HEAD_BYTES = 4096


class Tail:
    """A place in a file that grows.

    A file that is shorter than before, or begins otherwise, is read from its beginning. One that was written anew with the same
    beginning is read on.

    Args:
        path: The file; it may not be there yet.
        within: A folder that the file may not lie outside of, whatever links lead there. None: it is armada's own.
        mark: Where an earlier reader stopped, as `mark` gave it.
        may_jump: Pass over the middle of what grew faster than it is read; its records must be lines.

    Attributes:
        size: Of the file, when it was last read.
        generation: Goes up whenever the file begins anew.
        too_long: How many lines were passed over because they are longer than 64 KiB.
        skipped_bytes: How much was passed over because the file grew faster than it is read.
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
        known = mark if isinstance(mark, dict) else {}
        offset, head = known.get("offset"), known.get("head")
        self.offset, self._head = 0, ""
        if isinstance(offset, int) and offset >= 0 and isinstance(head, str):
            self.offset, self._head = offset, head
        self.generation = 0
        self.too_long = 0
        self.skipped_bytes = 0
        self._in_long_line = False

    @property
    def mark(self) -> Dict[str, Any]:
        """Where this reader stopped."""
        return {"offset": self.offset, "head": self._head}

    def skip_to_end(self) -> None:
        """Pass over what is there now."""
        try:
            with files.open_regular(self.path) as stream:
                self.offset = os.fstat(stream.fileno()).st_size
                self._head = _sign(stream, self.offset)
        except OSError:
            return

    def read(self, limit: int) -> bytes:
        """Give the next bytes, at most `limit`, without going past them; nothing where the file cannot be read."""
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
        """Go past bytes that were read."""
        before, self.offset = self.offset, self.offset + count
        if count and before < _HEAD_BYTES:
            try:
                with files.open_regular(self.path) as stream:
                    self._head = _sign(stream, self.offset)
            except OSError:
                return

    def _is_same(self, stream: BinaryIO) -> bool:
        """Tell whether the file still begins as it did: it may have been written anew, in place or under its name."""
        return _sign(stream, self.offset) == self._head

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


def _sign(stream: BinaryIO, offset: int) -> str:
    """Sign the beginning of a file, as far as it was read."""
    stream.seek(0)
    return hashlib.sha256(stream.read(min(offset, _HEAD_BYTES))).hexdigest()[:32]


def is_within(path: str, folder: str) -> bool:
    """Tell whether a path leads below a folder, wherever the links on its way lead."""
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
