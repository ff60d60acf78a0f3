"""Read the metrics in W&B's own files (`run-*.wandb`), which it writes online and offline: records in the log format of LevelDB.

A file begins with seven bytes and consists of blocks of 32 KiB. Each piece in a block has a checksum, a length and a
type: a whole record, or its first, middle or last piece. A record is a `Record` of Protocol Buffers, of which only the
history is read.
"""

import json
import os
import struct
import time
import zlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from armada_agent.metrics import lightning, values, wire
from armada_agent.metrics.find import MOST_FILES, Finder
from armada_agent.metrics.recorder import Recorder, now_or
from armada_agent.metrics.source import Source
from armada_agent.metrics.tail import Tail

BELOW = "*run-*/run-*.wandb"
PATTERN = "**/wandb/" + BELOW
_BLOCK = 32768
_HEAD, _PIECE_HEAD = 7, 7
_IDENT = b":W&B"
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_PIECE_BYTES = 32 * _BLOCK
_MOST_PIECES = 256
_LONGEST_RECORD = 1024 * 1024
_MOST_ITEMS = 500
_STEPS = ("train/global_step", lightning.WANDB_STEP, "global_step", "step", "iteration")


class WandbSource(Source):
    """All W&B files below a run's working folder, and below the folder that armada passes to W&B.

    Args:
        top: The folder that contains both.
        finder: Finds files below it.
        mark: The positions up to which an earlier supervisor has read, by path.
        is_first: No job of the run has written yet: existing files came with the code.
        clock: Returns unix time, for records without a time.
        name: The name of this source, if there are two.
    """

    rank = 6
    name = "wandb"

    def __init__(
        self,
        top: str,
        finder: Finder,
        mark: Optional[Dict[str, Any]],
        is_first: bool,
        clock: Callable[[], float] = time.time,
        name: str = name,
    ) -> None:
        self.name = name
        self._top = top
        self._finder = finder
        self._clock = clock
        self._marks: Dict[str, Any] = dict(mark) if isinstance(mark, dict) else {}
        self._files: Dict[str, WandbFile] = {}
        if is_first:
            for path in finder.find(WandbSource.name):
                self._open(path).skip_to_end()

    @property
    def mark(self) -> Any:
        """The position up to which each file was read."""
        return dict(self._marks, **{path: each.mark for path, each in self._files.items()})

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read the new rows of each file's history."""
        for path in self._finder.find(WandbSource.name):
            if path not in self._files and len(self._files) >= MOST_FILES:
                recorder.tell("wandb files", "more than %d files of W&B: the others are not read" % MOST_FILES)
                continue
            try:
                file = self._open(path)
                for rows in file.pieces(final):
                    for row in rows:
                        self._add(row, file, recorder)
                    if recorder.is_full:
                        break
            except ValueError as error:
                recorder.note_unreadable(path[-60:], str(error))

    def _add(self, row: "Row", file: "WandbFile", recorder: Recorder) -> None:
        counted, found = row
        counted = values.whole(found.get("_step")) if counted is None else counted
        said = next((step for step in (values.whole(found.get(name)) for name in _STEPS) if step is not None), None)
        step = counted if said is None else said
        if step is None:
            return
        is_counted = said is None and file.counts(step)
        moment = now_or(values.number(found.get("_timestamp")), self._clock)
        numbers = {name: value for name, value in found.items() if not name.startswith("_") and name not in _STEPS}
        if said is not None and said == values.whole(found.get(lightning.WANDB_STEP)):
            step, numbers = lightning.correct(step, numbers)
        recorder.add((self.rank, WandbSource.name), step, values.numbers(numbers), moment, is_counted=is_counted)

    def _open(self, path: str) -> "WandbFile":
        if path not in self._files:
            self._files[path] = WandbFile(self._top, path, self._marks.pop(path, None))
        return self._files[path]


Row = Tuple[Optional[int], Dict[str, Any]]


class WandbFile:
    """One W&B file.

    Args:
        top: The run's folder.
        path: The file's path below it.
        mark: The position up to which it was read.
    """

    def __init__(self, top: str, path: str, mark: Any) -> None:
        self._tail = Tail(os.path.join(top, path), within=top, mark=mark, may_jump=False)
        self._begun: Optional[bytearray] = None
        self._last: Optional[int] = None
        self._is_given = False
        self._is_broken = False
        self.mark = self._tail.mark if mark else {}

    def skip_to_end(self) -> None:
        """Skip the rows that exist now. A later run of W&B does not continue this file."""
        self._tail.skip_to_end()
        self._is_broken = True
        self.mark = self._tail.mark

    def counts(self, step: int) -> bool:
        """Return whether W&B may have counted its calls up to a row's step because the job gave no step (0, 1, 2, …)."""
        expected = (0, 1) if self._last is None else (self._last, self._last + 1)
        self._is_given = self._is_given or step not in expected
        self._last = step
        return not self._is_given

    def pieces(self, final: bool) -> Iterator[List[Row]]:
        """Yield the new rows: one piece of the file per poll, and everything that is left at the last one.

        Raises:
            ValueError: It is not a file of W&B, or it is damaged. It is not read any further.
        """
        for _ in range(_MOST_PIECES if final else 1):
            if self._is_broken:
                return
            before = self._tail.offset
            try:
                yield self._read()
            except ValueError:
                self._is_broken = True
                raise
            if self._tail.offset == before:
                return

    def _read(self) -> List[Row]:
        block = self._tail.read(_PIECE_BYTES)
        start, place = self._tail.offset, 0
        found: List[Row] = []
        if start == 0:
            if len(block) < _HEAD:
                return []
            if not block.startswith(_IDENT):
                raise ValueError("not a file of W&B")
            place = _HEAD
        while True:
            left = _BLOCK - (start + place) % _BLOCK
            if left < _PIECE_HEAD:
                place += left  # the end of a block, too short for a piece
                continue
            if len(block) - place < _PIECE_HEAD:
                break
            check, length, kind = struct.unpack_from("<IHB", block, place)
            if not check and not length and not kind:
                break  # space that was allocated but not written yet
            if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or length > left - _PIECE_HEAD:
                raise ValueError("a damaged file of W&B")
            if len(block) - place < _PIECE_HEAD + length:
                break
            data = block[place + _PIECE_HEAD : place + _PIECE_HEAD + length]
            place += _PIECE_HEAD + length
            if check not in _checks(kind, data):
                self._begun = None  # this record is lost, and the next one begins where its length says
                continue
            record = self._join(kind, data)
            found.extend(() if record is None else history(record))
        self._tail.go_past(min(place, len(block)))
        if self._begun is None:
            self.mark = self._tail.mark  # a later supervisor starts at a whole record
        return found

    def _join(self, kind: int, data: bytes) -> Optional[bytes]:
        """Join a record's pieces. Return the record at its last piece, otherwise None."""
        if kind == _WHOLE:
            self._begun = None
            return data
        if kind == _FIRST:
            self._begun = bytearray(data)
            return None
        if self._begun is None:
            return None
        self._begun += data
        if len(self._begun) > _LONGEST_RECORD:
            self._begun = None
            return None
        if kind == _MIDDLE:
            return None
        whole, self._begun = bytes(self._begun), None
        return whole


def history(record: bytes) -> List[Row]:
    """Parse the row of a record's history: its step, and values by key. An invalid record has no row."""
    found: List[Row] = []
    try:
        for number, kind, value in wire.fields(record):
            if number == 2 and kind == wire.BYTES:
                found.append(_row(value))
    except ValueError:
        return []
    return found


def _row(data: bytes) -> Row:
    step: Optional[int] = None
    row: Dict[str, Any] = {}
    for number, kind, value in wire.fields(data):
        if number == 1 and kind == wire.BYTES and len(row) < _MOST_ITEMS:
            name, text = _item(value)
            if name:
                row[name] = _number(text)
        elif number == 2 and kind == wire.BYTES:
            step = 0  # zero is not written
            for inner, inner_kind, each in wire.fields(value):
                if inner == 1 and inner_kind == wire.VARINT:
                    step = wire.signed(each)
    return (step if step is not None and 0 <= step <= values.MOST_STEP else None), row


def _item(data: bytes) -> Tuple[str, bytes]:
    parts: List[str] = []
    text = b""
    for number, kind, value in wire.fields(data):
        if kind == wire.BYTES and number in (1, 2) and len(parts) < 8 and value:
            parts.append(value[:200].decode("utf-8", "replace"))
        elif kind == wire.BYTES and number == 16:
            text = value
    return "/".join(parts), text


def _number(text: bytes) -> Any:
    """Parse a JSON value if it is a number. W&B writes NaN as text."""
    if len(text) > 40:
        return None
    try:
        return values.number(json.loads(text.decode("utf-8")))
    except (ValueError, RecursionError):
        return None


def _checks(kind: int, data: bytes) -> Tuple[int, int]:
    """Return the checksums of a piece as W&B's Python wrote it, and as its Go program writes it since 0.18."""
    crc = zlib.crc32(data, zlib.crc32(bytes([kind]))) & 0xFFFFFFFF
    return crc, ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
