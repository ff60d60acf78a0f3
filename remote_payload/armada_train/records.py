"""Read JSON files that a killed attempt, a disk or a person may have damaged: an object, or a sentence why there is none."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import TypeGuard  # noqa: UP035  # in typing since Python 3.10; scripts bring older ones

MOST_BYTES = 1 << 30
"""The largest file that is read: trainer_state.json of a training that logs a million steps has a third of it."""

_DEEPEST = 100
_LONGEST_SHOWN = 300
_MOST = 1 << 63


class UnreadableRecord(Exception):
    """A file does not have what it should."""


def open_file(path: Path) -> BinaryIO:
    """Open a file, also where a link leads to one. Opening a pipe, for example, would wait for ever.

    Raises:
        UnreadableRecord: There is none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnreadableRecord(f"{show(path)} cannot be opened: {why}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableRecord(f"{show(path)} is not a file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path) -> bytes:
    """Read a file.

    Raises:
        UnreadableRecord: There is none, or it is larger than any record.
    """
    with open_file(path) as file:
        try:
            content = file.read(MOST_BYTES + 1) if os.fstat(file.fileno()).st_size <= MOST_BYTES else None
        except OSError as error:
            raise UnreadableRecord(f"{path} cannot be read: {error.strerror}") from error
    if content is None or len(content) > MOST_BYTES:
        raise UnreadableRecord(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    return content


def read_object(path: Path) -> dict[str, Any]:
    """Read a file with one JSON object.

    Raises:
        UnreadableRecord: There is no such file, or something else is in it.
    """
    content = read_bytes(path)
    try:
        return parse_object(content)
    except UnreadableRecord as error:
        raise UnreadableRecord(f"{path}: {error}") from error


def find_object(path: Path) -> dict[str, Any]:
    """Read a file with one JSON object; an empty one if that is not possible."""
    try:
        return read_object(path)
    except UnreadableRecord:
        return {}


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse a JSON object, which can be written and printed again. Its numbers may be NaN, as a loss may.

    Raises:
        UnreadableRecord: It is something else.
    """
    try:
        value = json.loads(content.decode("utf-8"))
        if b"\\u" in content:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"it is not JSON: {show(error)}") from error
    if not isinstance(value, dict):
        raise UnreadableRecord("it is not a JSON object")
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        parts = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [item for part in parts for item in part]
        if not level:
            return value
    raise UnreadableRecord("it is nested too deep")


def is_whole(value: object, least: int = 0) -> TypeGuard[int]:
    """Tell whether a value is a whole number of at least `least` that fits into 64 bits, as torch's do."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _MOST


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a number that can be computed with, which may be NaN."""
    return isinstance(value, float) or is_whole(value, -_MOST)


def show(value: object) -> str:
    """Return a value as one short line that can be printed."""
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value)[: 2 * _LONGEST_SHOWN])
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
