"""Read tables of text, .csv and .tsv, plain or gzip: the first line names the columns, and each record is a row."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from armada_train.data.places import LONGEST_LINE_BYTES, DataFailure, Place, decode

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BOM = b"\xef\xbb\xbf"


def is_table(path: Path) -> bool:
    """Tell by a file's name whether it is a table of text, as nothing in its content does."""
    return _suffix(path) in _DELIMITERS


def read_table(path: Path, *, compressed: bool) -> Iterator[tuple[Place, Any]]:
    """Read a table row by row; every value is text.

    Yields:
        The line on which the row begins, and the row.

    Raises:
        DataFailure: The header cannot be used, a row has another number of values, or the quotes are wrong.
        OSError: It cannot be read.
    """
    delimiter = _DELIMITERS[_suffix(path)]
    csv.field_size_limit(LONGEST_LINE_BYTES)  # Python's own limit is 128 KiB
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        records = _records(path, csv.reader(_lines(file, path), delimiter=delimiter, strict=True))
        header = _header(*next(records, (Place(path, 1), [])), delimiter)
        blank: Place | None = None
        for where, values in records:
            if not values:
                blank = blank or where
                continue
            if blank is not None:
                raise DataFailure(blank, "it is empty, and more rows follow")
            if len(values) != len(header):
                raise DataFailure(
                    where,
                    f"the row has {len(values)} values, and the header names {len(header)} columns",
                    "put quotes around values that hold separators, quotes or line breaks",
                )
            yield where, dict(zip(header, values, strict=True))


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _lines(file: Any, path: Path) -> Iterator[str]:
    """Decode a file line by line; programs for tables put a byte order mark before the first."""
    number = 0
    while line := file.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        where = Place(path, number)
        if len(line) > LONGEST_LINE_BYTES:
            raise DataFailure(where, f"the line is longer than {LONGEST_LINE_BYTES >> 20} MiB")
        yield decode(line.removeprefix(_BOM) if number == 1 else line, where)


def _records(path: Path, reader: Any) -> Iterator[tuple[Place, list[str]]]:
    """Yield each record with the line on which it begins; one with quoted line breaks ends on another."""
    while True:
        where = Place(path, reader.line_num + 1)
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataFailure(where, *_explain(error)) from error
        yield where, values


def _explain(error: csv.Error) -> tuple[str, str | None]:
    said = str(error)
    if "unexpected end of data" in said or "field larger" in said:
        return "a quote opens a value here and is never closed", 'write a quote inside a quoted value twice ("")'
    if "new-line character" in said:
        return "a line ends with a carriage return alone", "save it with line feeds, as all programs of today do"
    if "expected after" in said:
        return "text follows the quote that closes a value", 'write a quote inside a quoted value twice ("")'
    return f"it cannot be read: {said}", None


def _header(where: Place, names: list[str], delimiter: str) -> list[str]:
    if not names:
        raise DataFailure(where, "it has no header", "the first line names the columns")
    named = [name.strip() or f"column {number}" for number, name in enumerate(names, start=1)]
    for number, name in enumerate(named):
        if name in named[:number]:
            raise DataFailure(where, f"the header names the column {name} twice", "give each column a name of its own")
    other = next((sign for sign in (";", "\t", "|", ",") if sign != delimiter and sign in named[0]), None)
    if len(named) == 1 and other is not None:
        shown = "a tab" if delimiter == "\t" else f"`{delimiter}`"
        raise DataFailure(
            where,
            f"the header names one column, {named[0]!r}, as nothing in it is separated by {shown}",
            "save it with commas (.csv) or tabs (.tsv) between the values",
        )
    return named
