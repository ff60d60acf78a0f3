"""Parse data files into rows, each with its place: JSON and tables (plain or gzip), parquet, and folders of `datasets`."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from armada_train.data.arrays import LARGEST_BYTES, is_array, read_array
from armada_train.data.places import LONGEST_LINE_BYTES, DataFailure, Place, decode
from armada_train.data.tables import is_table, read_table
from armada_train.failure import PayloadFailure

_PARQUET = b"PAR1"
_GZIP = b"\x1f\x8b"
_PEEKED = 256


def unreadable(path: Path, error: Exception) -> DataFailure:
    """Return the failure for a data file or folder that does not exist or cannot be read."""
    if isinstance(error, FileNotFoundError):
        return DataFailure(Place(path), "this file does not exist")
    return DataFailure(Place(path), f"it cannot be read: {getattr(error, 'strerror', None) or error}")


def is_lines(path: Path) -> bool:
    """Tell whether it is a text file, plain or gzip, which the standard library can read.

    Raises:
        OSError: It cannot be read.
    """
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(4) != _PARQUET


def read_file(path: Path) -> Iterator[tuple[Place, Any]]:
    """Read a data file or folder row by row; its content determines the format, and its name only that of a table.

    Yields:
        The row's place, as a user would look it up, and the row.

    Raises:
        PayloadFailure: `data_error`: it cannot be read, or a line is not JSON.
    """
    try:
        if path.is_dir():
            yield from _read_folder(path)
            return
        with path.open("rb") as file:
            start = file.read(4)
        if start == _PARQUET:
            yield from _read_parquet(path)
        elif is_table(path):
            yield from read_table(path, compressed=start.startswith(_GZIP))
        else:
            yield from _read_lines(path, compressed=start.startswith(_GZIP))
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from error


def _read_lines(path: Path, *, compressed: bool) -> Iterator[tuple[Place, Any]]:
    blank: Place | None = None
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        if is_array(file.peek(_PEEKED)[:_PEEKED]):
            yield from read_array(path, file.read(LARGEST_BYTES + 1), _DECODER.raw_decode)
            return
        for number, line in enumerate(_bounded(file, path), start=1):
            where = Place(path, number)
            if not line.strip():
                blank = blank or where
                continue
            if blank is not None:
                raise DataFailure(blank, "it is empty, and more rows follow")
            yield where, _parse_line(line, where)


def _bounded(file: BinaryIO | gzip.GzipFile, path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        if len(line) > LONGEST_LINE_BYTES:
            raise DataFailure(
                Place(path, number),
                f"the line is longer than {LONGEST_LINE_BYTES >> 20} MiB",
                "one row per line is needed; the file may be .json instead of .jsonl",
            )
        yield line


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise ValueError(message)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse_line(line: bytes, where: Place) -> Any:
    if where.number == 1 and line.startswith(b"\xef\xbb\xbf"):
        raise DataFailure(
            where, "the file begins with a byte order mark", "`sed -i '1s/^\\xef\\xbb\\xbf//'` removes it"
        )
    try:
        return _DECODER.decode(decode(line, where))
    except json.JSONDecodeError as error:
        raise DataFailure(where, f"not JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise DataFailure(where, "not JSON that can be read: nested too deeply") from error
    except ValueError as error:
        is_number = "integer string conversion" in str(error)
        what = "not JSON that can be read: a number too long" if is_number else str(error)
        raise DataFailure(where, what) from error


def _read_parquet(path: Path) -> Iterator[tuple[Place, Any]]:
    _require("pyarrow", path)
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        for batch in ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield Place(path, number, "row"), without_nulls(row)
    except pa.ArrowInvalid as error:
        raise DataFailure(Place(path), f"it cannot be read: {error}") from error


def _read_folder(path: Path) -> Iterator[tuple[Place, Any]]:
    if (path / "dataset_dict.json").exists():
        splits = ", ".join(sorted(entry.name for entry in path.iterdir() if entry.is_dir()))
        raise DataFailure(Place(path), f"it has several splits: name the folder of one of them ({splits})")
    if not (path / "state.json").exists():
        raise DataFailure(Place(path), "it has no state.json, so `Dataset.save_to_disk` did not write it")
    _require("datasets", path)
    from datasets import load_from_disk

    for number, row in enumerate(load_from_disk(str(path)), start=1):
        yield Place(path, number, "row"), without_nulls(row)


def without_nulls(value: Any) -> Any:
    """Remove keys whose value is null: columnar formats give every row every key, so null means absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _require(package: str, path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        raise PayloadFailure("env_error", f"the environment lacks {package}, which {path} needs")
