"""A bench's rows in metrics.jsonl: a cell's row is written anew after each of its turns, and when the bench has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armada_train.bench.cells import Cell
from armada_train.bench.child import TIMED_OUT
from armada_train.bench.spread import Spread
from armada_train.bench.turns import Turns, figures_of
from armada_train.failure import GENERIC
from armada_train.records import UnreadableRecord, find_object, is_whole
from armada_train.reporting.metrics import History, Metrics, read_lines
from armada_train.runfolder import RunFolder
from armada_train.training.step_times import describe_steps

MEASURED, OOM, FAILED, TIMEOUT = "measured", "oom", "failed", "timeout"
CODES = {MEASURED: 0, OOM: 1, FAILED: 2, TIMEOUT: 3}
"""As numbers, which is what home keeps of metrics."""

_FORKED_CUDA = "re-initialize CUDA in forked subprocess"
_RESULT = "result.json"


@dataclass(frozen=True)
class Row:
    """What became of a cell.

    Attributes:
        number: The cell's.
        status: measured, oom, failed or timeout.
        reason: Why not measured, in a word.
        message: The same in a sentence; of a measured cell, why it has fewer turns than it should.
        values: What was measured.
        is_final: Whether no turn is left.
    """

    number: int
    status: str
    reason: str = ""
    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    is_final: bool = True

    @property
    def needs_own_process(self) -> bool:
        """Whether the cell failed only because it was forked."""
        return _FORKED_CUDA in self.message

    def describe(self, label: str, cells: int) -> str:
        """Say the row in one line, for the log."""
        begin = f"cell {self.number}/{cells} {label}: "
        if self.message:
            return f"{begin}{self.status}: {self.message}"
        if (asked := self.values.get("turns_asked", 1)) > 1:
            begin += f"turn {self.values['turns']}/{asked}: "
        tokens, step = self.values.get("tokens_per_s", math.nan), self.values.get("step_time_s", math.nan)
        return f"{begin}{tokens:,.0f} tokens/s, {step:.4g} s a step"


class Rows:
    """The rows in metrics.jsonl, with those of earlier attempts.

    Args:
        run: The bench's.
    """

    def __init__(self, run: RunFolder) -> None:
        self._path = run.metrics
        self._metrics = Metrics(run.metrics, run.attempt, time.time)

    def read(self) -> dict[int, Row]:
        """Return the newest row of each cell. A line that a kill cut off is none.

        Cells that failed have none, because they are measured again. One with fewer turns than it should is not final.
        """
        found: dict[int, Row] = {}
        for _, entry in read_lines(self._path):
            if isinstance(entry, UnreadableRecord) or entry.get("kind") != "bench" or not is_whole(entry.get("step")):
                continue
            number, status = entry["step"], str(entry.get("status"))
            found.pop(number, None)
            if status in CODES and status != FAILED:
                left = _whole(entry.get("turns_asked")) - _whole(entry.get("turns"))
                found[number] = Row(
                    number, status, str(entry.get("reason")), str(entry.get("message")), is_final=left <= 0
                )
        self._metrics.begin(History())
        return found

    def append(self, row: Row) -> None:
        """Write a row."""
        told = {"status": row.status, "status_code": CODES[row.status]}
        if row.message:
            told |= {"reason": row.reason, "message": row.message}
        self._metrics.append("bench", row.number, {**told, **row.values})


def measured_row(cell: Cell, turns: Turns, spread: Spread) -> Row:
    """Make the row of a cell that was measured in at least one turn."""
    steps = describe_steps([step for turn in turns.done for step in turn.steps_s])
    values = {**steps, **figures_of(turns.done), **_shape(cell), "turns_asked": turns.asked}
    return Row(cell.number, MEASURED, values={**values, **spread.told()}, is_final=len(turns.done) >= turns.asked)


def failed_row(cell: Cell, folder: Path, code: int, seconds: float, timeout_s: float) -> Row:
    """Make the row of a cell that ended without a result.

    Args:
        cell: The cell.
        folder: Its folder.
        code: How it ended.
        seconds: How long it took, with everything.
        timeout_s: How long it might have taken.
    """
    shape = {**_shape(cell), "cell_s": seconds}
    if code == TIMED_OUT:
        return Row(cell.number, TIMEOUT, TIMEOUT, f"it did not end within {timeout_s:g} s", shape)
    failure = _read_failure(folder)
    reason, message = str(failure.get("reason") or GENERIC), str(failure.get("message") or "")
    if reason in {"oom", "host_oom"}:
        return Row(cell.number, OOM, reason, message, shape)
    if code < 0 and not message:
        return Row(cell.number, FAILED, f"signal_{-code}", f"signal {-code} ended it{_memory_hint(code)}", shape)
    return Row(cell.number, FAILED, reason, message or f"it ended with exit code {code}", shape)


def read_result(folder: Path) -> dict[str, Any]:
    """Return what a training measured; nothing if it did not get that far. It counts more than the exit code."""
    return find_object(folder / _RESULT)


def _shape(cell: Cell) -> dict[str, int]:
    batch = cell.training.batch
    return {
        "gpus": batch.processes if cell.training.device == "cuda" else 0,
        "processes": batch.processes,
        "micro_batch_size": batch.micro,
        "accumulation": batch.accumulation,
        "global_batch_size": batch.overall,
    }


def _whole(value: object) -> int:
    return value if is_whole(value) else 1


def _memory_hint(code: int) -> str:
    return ": probably the machine's memory ran out" if code == -9 else ""


def _read_failure(folder: Path) -> dict[str, Any]:
    """Return the failure of the cell's attempt, which has the number of the bench's attempt."""
    found = sorted(folder.glob("attempts/*/failure.json"))
    return find_object(found[-1]) if found else {}
