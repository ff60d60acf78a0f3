"""Read the scalars of TensorBoard's event files. They consist of TFRecord records, each an `Event` of Protocol Buffers."""

import os
import struct
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from armada_agent.metrics import lightning, values, wire
from armada_agent.metrics.find import MOST_FILES, Finder
from armada_agent.metrics.recorder import Recorder, now_or
from armada_agent.metrics.source import Source
from armada_agent.metrics.tail import Tail

PATTERN = "**/events.out.tfevents.*"
_PIECE_BYTES = 1024 * 1024
_MOST_PIECES = 256
_LONGEST_RECORD = 64 * 1024  # a scalar has some hundred bytes; graphs, images and histograms are skipped
_HEAD, _FOOT = 12, 4
_FLOAT, _DOUBLE = 1, 2
_MOST_TAGS = 256


class EventSource(Source):
    """All event files anywhere below the working folder.

    Args:
        work: The job's working folder.
        finder: Finds files below it.
        mark: The positions up to which an earlier supervisor has read, by path.
        is_first: No job of the run has written yet: existing files came with the code.
        clock: Returns unix time, for events without a time.
    """

    rank = 5
    name = "tensorboard"

    def __init__(
        self,
        work: str,
        finder: Finder,
        mark: Optional[Dict[str, Any]],
        is_first: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._work = work
        self._finder = finder
        self._clock = clock
        self._marks: Dict[str, Any] = dict(mark) if isinstance(mark, dict) else {}
        self._files: Dict[str, EventFile] = {}
        self._owners: Dict[str, str] = {}
        if is_first:
            for path in finder.find(self.name):
                self._open(path).skip_to_end()

    @property
    def mark(self) -> Any:
        """The position up to which each file was read."""
        return dict(self._marks, **{path: each.mark for path, each in self._files.items()})

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read the new events of each file."""
        for path in self._finder.find(self.name):
            if path not in self._files and len(self._files) >= MOST_FILES:
                recorder.tell(
                    "event files", "more than %d event files of TensorBoard: the others are not read" % MOST_FILES
                )
                continue
            try:
                for events in self._open(path).pieces(final):
                    self._give(path, events, recorder)
                    if recorder.is_full:
                        break
            except ValueError as error:
                recorder.note_unreadable(path[-60:], str(error))

    def _give(self, path: str, events: "List[Scalar]", recorder: Recorder) -> None:
        """Record events in their order. Events of one step are recorded together, because many programs write each scalar separately."""
        steps: Dict[int, Dict[str, float]] = {}
        moments: Dict[int, float] = {}
        is_of_lightning = bool(events) and lightning.is_of_lightning(self._work, path)
        for logged, moment, tag, value in events:
            step, known = lightning.correct(logged, {tag: value}) if is_of_lightning else (logged, {tag: value})
            for name in filter(None, (self._name(path, each) for each in known)):
                steps.setdefault(step, {})[name] = value
                moments[step] = now_or(moment, self._clock)
        for step, numbers in steps.items():
            recorder.add((self.rank, self.name), step, numbers, moments[step])

    def _name(self, path: str, tag: str) -> Optional[str]:
        """Return the name of a curve. If files in several folders have the same tag, the later folders' names are added."""
        name = values.clean_name(tag)
        if name is None:
            return None
        folder = os.path.dirname(path)
        if len(self._owners) < _MOST_TAGS:
            self._owners.setdefault(name, folder)
        if self._owners.get(name, folder) == folder:
            return name
        return values.clean_name("%s/%s" % (os.path.basename(folder), tag))

    def _open(self, path: str) -> "EventFile":
        if path not in self._files:
            self._files[path] = EventFile(self._work, path, self._marks.pop(path, None))
        return self._files[path]


Scalar = Tuple[int, float, str, float]  # step, unix time, tag, value


class EventFile:
    """One event file.

    Args:
        work: The job's working folder.
        path: The file's path below it.
        mark: The position up to which it was read.
    """

    def __init__(self, work: str, path: str, mark: Any) -> None:
        self._tail = Tail(os.path.join(work, path), within=work, mark=mark, may_jump=False)
        self._is_broken = False
        self.mark = self._tail.mark if mark else {}

    def skip_to_end(self) -> None:
        """Skip the events that exist now."""
        self._tail.skip_to_end()
        self.mark = self._tail.mark

    def pieces(self, final: bool) -> Iterator[List[Scalar]]:
        """Yield the new scalars: one piece per poll, and everything that is left at the last one.

        Raises:
            ValueError: It is not an event file, or it is damaged. It is not read any further.
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
            finally:
                self.mark = self._tail.mark
            if self._tail.offset == before:
                return

    def _read(self) -> List[Scalar]:
        block = self._tail.read(_PIECE_BYTES)
        found: List[Scalar] = []
        place = 0
        while len(block) - place >= _HEAD:
            (length,) = struct.unpack_from("<Q", block, place)
            (check,) = struct.unpack_from("<I", block, place + 8)
            if not length and not check:
                break  # space that was allocated but not written yet
            if masked_crc(block[place : place + 8]) != check:
                self._tail.go_past(place)
                raise ValueError("not an event file of TensorBoard, or damaged")
            whole = _HEAD + length + _FOOT
            if whole > len(block) - place:
                if length > _LONGEST_RECORD and self._tail.size >= self._tail.offset + place + whole:
                    place += whole  # skip the whole record
                break
            if length <= _LONGEST_RECORD:
                data = block[place + _HEAD : place + _HEAD + length]
                if masked_crc(data) == struct.unpack_from("<I", block, place + _HEAD + length)[0]:
                    found.extend(scalars(data))
            place += whole
        self._tail.go_past(place)
        return found


def scalars(data: bytes) -> List[Scalar]:
    """Parse the scalars of one event; an invalid event has none."""
    step, moment = 0, 0.0
    found: List[Tuple[str, float]] = []
    try:
        for number, kind, value in wire.fields(data):
            if number == 1 and kind == wire.FIXED_64:
                moment = wire.double(value)
            elif number == 2 and kind == wire.VARINT:
                step = wire.signed(value)
            elif number == 5 and kind == wire.BYTES:
                for inner, inner_kind, each in wire.fields(value):
                    if inner == 1 and inner_kind == wire.BYTES:
                        found.extend(_scalar(each))
    except ValueError:
        return []
    if not 0 <= step <= values.MOST_STEP:
        return []
    return [(step, moment, tag, value) for tag, value in found]


def _scalar(data: bytes) -> Iterator[Tuple[str, float]]:
    """Parse a `Summary.Value`: a plain number, or a tensor with one number."""
    tag, number = "", None
    for field, kind, value in wire.fields(data):
        if field == 1 and kind == wire.BYTES:
            tag = value[:400].decode("utf-8", "replace")
        elif field == 2 and kind == wire.FIXED_32:
            number = wire.single(value)
        elif field == 8 and kind == wire.BYTES:
            number = _tensor(value)
    if tag and number is not None:
        yield tag, number


def _tensor(data: bytes) -> Optional[float]:
    """Parse a `TensorProto` with one float or double; return None for any other."""
    dtype = 0
    contents: Dict[int, bytes] = {}
    for field, kind, value in wire.fields(data):
        if field == 1 and kind == wire.VARINT:
            dtype = value
        elif field in (4, 5, 6) and kind != wire.VARINT:
            contents[field] = value  # its raw bytes, its floats, its doubles
    if dtype == _FLOAT:
        content = contents.get(4) or contents.get(5) or b""
        return wire.single(content) if len(content) == 4 else None
    content = contents.get(4) or contents.get(6) or b""
    return wire.double(content) if dtype == _DOUBLE and len(content) == 8 else None


def masked_crc(data: bytes) -> int:
    """Return the checksum of TFRecord: CRC-32C, rotated by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> List[int]:
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        found.append(crc)
    return found


_TABLE = _table()
