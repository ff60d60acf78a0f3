"""Read the CSV and JSONL files that an experiment names under `metrics`, such as the metrics.csv of Lightning's CSVLogger."""

import csv
import os
import time
from typing import Any, Callable, Dict, List, Optional

from armada_agent.metrics import lightning, values
from armada_agent.metrics.find import MOST_FILES, Finder
from armada_agent.metrics.recorder import Recorder, now_or
from armada_agent.metrics.records import parse, pieces
from armada_agent.metrics.source import Source
from armada_agent.metrics.tail import LONGEST_LINE, Tail

_MOST_COLUMNS = 500
_SEPARATORS = ",;\t"


class TableSource(Source):
    """All files that match the patterns.

    Args:
        work: The job's working folder.
        finder: Finds files below it.
        mark: The positions up to which an earlier supervisor has read, by path.
        is_first: No job of the run has written yet: existing files came with the code, and are read from their present
            end on.
        clock: Returns unix time, for rows without a time.
    """

    rank = 2
    name = "file"

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
        self._files: Dict[str, Table] = {}
        if is_first:
            for path in self._finder.find(self.name):
                self._open(path).skip_to_end()

    @property
    def mark(self) -> Any:
        """The position up to which each file was read."""
        return dict(self._marks, **{path: table.mark for path, table in self._files.items()})

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read the new rows of each file."""
        for path in self._finder.find(self.name):
            if path in self._files or len(self._files) < MOST_FILES:
                self._open(path).look(recorder, final)
            else:
                recorder.tell("files", "more than %d files fit `metrics`; the others are not read" % MOST_FILES)

    def _open(self, path: str) -> "Table":
        if path not in self._files:
            self._files[path] = Table(self._work, path, self._marks.pop(path, None), self._clock)
        return self._files[path]


class Table:
    """One CSV or JSONL file.

    Args:
        work: The job's working folder.
        path: The file's path below it.
        mark: The position up to which it was read.
        clock: Returns unix time.
    """

    def __init__(self, work: str, path: str, mark: Any, clock: Callable[[], float]) -> None:
        known = mark if isinstance(mark, dict) else {}
        self._work = work
        self._path = path
        self._tail = Tail(os.path.join(work, path), within=work, mark=known.get("tail"))
        header = known.get("header")
        self._header: List[str] = [str(name) for name in header][:_MOST_COLUMNS] if isinstance(header, list) else []
        rows = known.get("rows")
        self._rows = rows if isinstance(rows, int) else 0
        self._clock = clock
        self._read_at = 0.0
        self._lightning: Optional[bool] = None
        self._is_json = path.lower().endswith((".jsonl", ".ndjson", ".json"))
        self._generation = self._tail.generation

    @property
    def mark(self) -> Dict[str, Any]:
        """The position up to which the file was read."""
        return {"tail": self._tail.mark, "header": self._header, "rows": self._rows}

    def skip_to_end(self) -> None:
        """Skip the rows that exist now, except the names of their columns."""
        first = self._tail.read(LONGEST_LINE).split(b"\n")[0]
        if not self._is_json and len(first) < LONGEST_LINE:
            self._header = _cells(first.decode("utf-8", "replace"))
        self._tail.skip_to_end()

    def look(self, recorder: Recorder, final: bool = False) -> None:
        """Read the new rows. Rows without a time get that of this reading: between them no speed is computed."""
        self._read_at = self._clock()
        for lines in pieces(self._tail, final, recorder):
            if self._tail.generation != self._generation:
                self._generation, self._header, self._rows = self._tail.generation, [], 0
            for line in lines:
                try:
                    self._take(line, recorder)
                except (ValueError, RecursionError, csv.Error) as error:
                    recorder.note_unreadable(self._path[:60], str(error))
        if self._tail.too_long:
            recorder.note_unreadable(self._path[:60], "longer than 64 KiB", self._tail.too_long)
            self._tail.too_long = 0

    @property
    def _is_of_lightning(self) -> bool:
        """Whether Lightning's CSVLogger writes it; the file hparams.yaml is beside it before its first row."""
        if self._lightning is None:
            self._lightning = lightning.is_of_lightning(self._work, self._path)
        return self._lightning

    def _take(self, line: bytes, recorder: Recorder) -> None:
        if self._is_json:
            self._add(_flat(parse(line)), recorder)
            return
        cells = _cells(line.decode("utf-8-sig", "replace").rstrip("\r"))
        if not self._header:
            self._header = cells
        elif len(cells) > len(self._header):
            raise ValueError("%d cells under %d columns" % (len(cells), len(self._header)))
        elif cells != self._header:
            self._add(dict(zip(self._header, cells)), recorder)

    def _add(self, row: Dict[Any, Any], recorder: Recorder) -> None:
        row = {name: value for name, value in row.items() if not values.is_empty(value)}
        self._rows += 1
        step_name, time_name = values.step_column(row), values.time_column(row)
        step = values.whole(row.get(step_name))
        moment = now_or(values.number(row.get(time_name)), lambda: self._read_at)
        metrics = {name: value for name, value in row.items() if name not in (step_name, time_name)}
        if step is not None and self._is_of_lightning:
            step, metrics = lightning.correct(step, metrics)
        numbers = values.numbers(metrics)
        if step_name is not None and step_name.lower() == "epoch":
            numbers["epoch"] = values.number(row[step_name]) or 0.0
        if step is None:
            recorder.tell(
                "counted " + self._path, "%.60s names no steps: those of its curves count its rows" % self._path
            )
        recorder.add(
            (TableSource.rank, TableSource.name),
            self._rows if step is None else step,
            numbers,
            moment,
            is_counted=step is None,
        )


def _cells(line: str) -> List[str]:
    separator = max(_SEPARATORS, key=line.count)
    return next(csv.reader([line], delimiter=separator), [])[:_MOST_COLUMNS]


def _flat(record: Dict[Any, Any]) -> Dict[Any, Any]:
    """Flatten one level: `{"train": {"loss": 1}}` becomes `train/loss`."""
    found: Dict[Any, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            found.update({"%s/%s" % (key, inner): each for inner, each in value.items()})
        else:
            found[key] = value
    return found
