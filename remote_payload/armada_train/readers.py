"""Data files as parsed rows, each with its place: JSONL (plain or gzip), parquet, and folders that `datasets` saved."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from armada_train.failure import PayloadFailure

_PARQUET = b"PAR1"
_GZIP = b"\x1f\x8b"


def read_file(path: Path) -> Iterator[tuple[str, Any]]:
    """Read a data file or folder row by row; what it is decides its content, not its name.

    Yields:
        Where the row stands, as a person would look it up, and the row.

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
        else:
            yield from _read_lines(path, compressed=start.startswith(_GZIP))
    except (OSError, EOFError) as error:
        cause = getattr(error, "strerror", None) or error
        raise PayloadFailure("data_error", f"{path} cannot be read: {cause}") from error


def _read_lines(path: Path, *, compressed: bool) -> Iterator[tuple[str, Any]]:
    with gzip.open(path, "rb") if compressed else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                yield where, json.loads(line)
            except ValueError as error:
                raise PayloadFailure("data_error", f"{where}: is not JSON: {error}") from error


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    _require("pyarrow", path)
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        for batch in ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield f"{path}: row {number}", without_nulls(row)
    except pa.ArrowInvalid as error:
        raise PayloadFailure("data_error", f"{path} cannot be read: {error}") from error


def _read_folder(path: Path) -> Iterator[tuple[str, Any]]:
    if (path / "dataset_dict.json").exists():
        splits = ", ".join(sorted(entry.name for entry in path.iterdir() if entry.is_dir()))
        raise PayloadFailure("data_error", f"{path} holds several splits: name the folder of one of them ({splits})")
    if not (path / "state.json").exists():
        message = f"{path} has no state.json: it is no folder that `Dataset.save_to_disk` wrote"
        raise PayloadFailure("data_error", message)
    _require("datasets", path)
    from datasets import load_from_disk

    for number, row in enumerate(load_from_disk(str(path)), start=1):
        yield f"{path}: row {number}", without_nulls(row)


def without_nulls(value: Any) -> Any:
    """Take out keys whose value is null: in columns every row has every key, so that null means there is none."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _require(package: str, path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        raise PayloadFailure("env_error", f"the environment lacks {package}, which {path} needs")
