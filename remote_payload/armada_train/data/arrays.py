"""Read a JSON file that is one list of rows, as ShareGPT's and Alpaca's files are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from armada_train.data.places import DataFailure, Place

LARGEST_BYTES = 1 << 30
"""A list is held in memory as text while it is read; files of lines are not."""

_SPACE = re.compile(r"\s*")


def is_array(start: bytes) -> bool:
    """Tell by the first bytes of a file whether it is one list."""
    return start.lstrip().startswith(b"[")


def read_array(
    path: Path, content: bytes, decode: Callable[[str, int], tuple[Any, int]]
) -> Iterator[tuple[Place, Any]]:
    """Read the rows of a list, one by one.

    Args:
        path: The file's, for places.
        content: All of it, at most one byte more than `LARGEST_BYTES`.
        decode: Reads one JSON value at a position, and returns it with the position of its end.

    Yields:
        The line on which the row begins, and the row.

    Raises:
        DataFailure: It is no list, or too large.
    """
    if len(content) > LARGEST_BYTES:
        raise DataFailure(
            Place(path),
            f"the file is one JSON list of more than {LARGEST_BYTES >> 30} GiB",
            f"`jq -c '.[]' {path.name}` makes lines of it, which are read one by one",
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataFailure(Place(path, line), f"byte 0x{content[error.start]:02x} is not UTF-8") from error
    at, line = text.index("[") + 1, 1
    counted, is_first = 0, True
    while True:
        at = _skip_space(text, at)
        if text[at : at + 1] == "]" and is_first:
            break
        line, counted = line + text.count("\n", counted, at), at
        where = Place(path, line)
        try:
            row, at = decode(text, at)
        except json.JSONDecodeError as error:
            line += text.count("\n", counted, error.pos)
            column = error.pos - text.rfind("\n", 0, error.pos)
            raise DataFailure(Place(path, line), f"not JSON: {error.msg} (column {column})") from error
        except RecursionError as error:
            raise DataFailure(where, "not JSON that can be read: nested too deeply") from error
        except ValueError as error:
            raise DataFailure(where, f"not JSON that can be read: {error}") from error
        yield where, row
        is_first = False
        at = _skip_space(text, at)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            where = Place(path, text.count("\n", 0, at) + 1)
            raise DataFailure(where, "not JSON: the list goes on without a comma, or ends without `]`")
        at += 1
    if text[at + 1 :].strip():
        where = Place(path, text.count("\n", 0, _skip_space(text, at + 1)) + 1)
        raise DataFailure(where, "the file is a JSON list, and more follows its end", "one list, or one row per line")


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
