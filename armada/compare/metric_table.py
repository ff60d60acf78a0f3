"""Write the metrics of runs as one long table: a row for each point, as CSV or Parquet."""

from __future__ import annotations

import csv
import datetime as dt
import importlib
import itertools
from typing import IO, TYPE_CHECKING, Any

from armada.errors import UsageError
from armada.foundation.extras import install_command
from armada.foundation.sanitize import sanitize_line
from armada.foundation.spreadsheet import plain_cell
from armada.foundation.validation import YEAR_10000
from armada.store import metrics
from armada.store.queries.curves import read_curve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from armada.store.database import Database

COLUMNS = ("run", "step", "time", "metric", "value")

Row = tuple[str, int, float, str, float]
"""Run id, step, unix time, metric, value; NaN and infinities are values, too."""

_ROWS_AT_ONCE = 50_000


def rows_of(database: Database, run_ids: Iterable[str], names: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the points of runs, ordered by run, metric and step.

    Args:
        database: The store.
        run_ids: The runs.
        names: Only these metrics; none for all.
    """
    for run_id in run_ids:
        for name in names or metrics.names(database, run_id):
            shown = sanitize_line(name, 200)
            for step, moment, value in read_curve(database, run_id, name):
                yield run_id, int(step), moment, shown, float("nan") if value is None else value


def write_csv(rows: Iterable[Row], stream: IO[str]) -> int:
    """Write rows as CSV (RFC 4180): times in UTC as ISO 8601; `nan`, `inf` and `-inf` as Python and pandas read them.

    Returns:
        The number of rows.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for run_id, step, moment, name, value in rows:
        writer.writerow((run_id, step, _stamp(moment), plain_cell(name), repr(float(value))))
        count += 1
    return count


def load_parquet() -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError("there is no pyarrow here to write Parquet with", hint=install_command("parquet")) from None


def write_parquet(rows: Iterable[Row], path: Path) -> int:
    """Write rows as Parquet: times as timestamps in UTC.

    Returns:
        The number of rows.

    Raises:
        UsageError: pyarrow is not installed.
    """
    arrow, parquet = load_parquet()
    types = (
        arrow.dictionary(arrow.int32(), arrow.string()),
        arrow.int64(),
        arrow.timestamp("us", tz="UTC"),
        arrow.dictionary(arrow.int32(), arrow.string()),
        arrow.float64(),
    )
    schema = arrow.schema(list(zip(COLUMNS, types, strict=True)))
    count, source = 0, iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while part := list(itertools.islice(source, _ROWS_AT_ONCE)):
            columns = [list(column) for column in zip(*part, strict=True)]
            columns[2] = [_microseconds(moment) for moment in columns[2]]
            arrays = [arrow.array(column, type=kind) for column, kind in zip(columns, types, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(part)
    return count


def _stamp(moment: float) -> str:
    shown = dt.datetime.fromtimestamp(_microseconds(moment) / 1e6, dt.UTC)
    return shown.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _microseconds(moment: float) -> int:
    """Return a moment of a host's clock, which the store limits to years with four digits."""
    return int(min(max(moment, 0.0), YEAR_10000 - 1) * 1e6)
