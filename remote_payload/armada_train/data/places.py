"""Where a row stands, and the failure that names the place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armada_train.failure import PayloadFailure

LONGEST_LINE_BYTES = 64 << 20
"""A line is one row; without this limit, a file without line ends would be read into memory whole."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a row, or a whole file; `unit` is what its number counts if not lines."""

    path: Path
    number: int | None = None
    unit: str = ""

    def __str__(self) -> str:
        if self.number is None:
            return str(self.path)
        return f"{self.path}: {self.unit} {self.number}" if self.unit else f"{self.path}:{self.number}"


class DataFailure(PayloadFailure):
    """A row or file that cannot be used for training.

    Args:
        where: A `Place`, or another name for messages.
        what: What is wrong there.
        hint: What to do about it.
    """

    def __init__(self, where: object, what: str, hint: str | None = None) -> None:
        super().__init__("data_error", f"{where}: {what}" + (f"; {hint}" if hint else ""))
        self.where, self.what, self.hint = where, what, hint


def show(value: Any) -> str:
    """Show a value in a message: as JSON, and short."""
    try:
        text = json.dumps(value, default=str)
    except (RecursionError, ValueError):
        return "a value nested too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."


def decode(line: bytes, where: Place) -> str:
    """Decode a line of a file.

    Raises:
        DataFailure: It is not UTF-8.
    """
    if where.number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataFailure(where, "the file is UTF-16, not UTF-8", "`iconv -f UTF-16 -t UTF-8` converts it")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataFailure(
            where,
            f"byte 0x{line[error.start]:02x} at {error.start + 1} is not UTF-8",
            "save the file as UTF-8; `iconv -f LATIN1 -t UTF-8` converts what older programs wrote",
        ) from error
