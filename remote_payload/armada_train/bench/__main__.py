"""`python -m armada_train.bench --spec …`: measure every cell of a bench that has no row yet, in turns.

Where a start takes little of the time, each cell is measured in several short trainings over the whole bench, 1 2 3 1 2 3:
a machine whose speed changes then changes it for all cells. A start that takes much leaves one turn for each cell.

A cell with one process is forked from this process, which has imported torch once; without that, importing takes longer
than many a cell. A cell with several processes is started by accelerate's launcher, as a training is.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from armada_train.bench.cells import Bench, Cell, read_bench
from armada_train.bench.child import Child, fork_cell, start_cell
from armada_train.bench.rows import FAILED, MEASURED, Row, Rows, failed_row, measured_row, read_result
from armada_train.bench.spread import Spread, spreads
from armada_train.bench.turns import Turns, clear_turns, read_turns, turn_of, write_turns
from armada_train.failure import GENERIC, INTERRUPTED, PREEMPTED, PayloadFailure, recorded, write_failure
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder
from armada_train.training.libraries import configure_libraries, needed_packages
from armada_train.training.preemption import SIGNALS


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="armada_train.bench", description="Measure the cells of a bench.")
    parser.add_argument("--spec", type=Path, required=True, help="spec.json in the run's folder")
    spec = parser.parse_args(words).spec.absolute()
    run = RunFolder.from_environment(spec.parent, os.environ)
    return recorded(run.attempt_folder, lambda: _Driver(read_bench(spec), run).measure())


class _Driver:
    def __init__(self, bench: Bench, run: RunFolder) -> None:
        self._bench = bench
        self._run = run
        self._rows = Rows(run)
        self._heartbeat = Heartbeat(run)
        self._child: Child | None = None
        self._turns: dict[int, Turns] = {}
        self._unforked: set[int] = set()

    def measure(self) -> int:
        """Measure what has no row, and return the exit code."""
        for number in SIGNALS:
            signal.signal(number, self._stop)
        cells = self._bench.cells
        rows = self._rows.read()
        for cell in cells:
            self._take_up(cell, rows)
        left = [cell for cell in cells if cell.number not in rows or not rows[cell.number].is_final]
        if rows:
            print(f"{len(cells) - len(left)} of {len(cells)} cells were measured before", flush=True)
        self._heartbeat.beat("loading", *self._progress(rows))
        if not (any(cell.processes == 1 for cell in left) and _import_once(left, self._run)):
            self._unforked = {cell.number for cell in left}
        else:
            self._unforked = {cell.number for cell in left if "bitsandbytes" in needed_packages(cell.training)}
        if left:
            self._measure(left, rows)
        self._heartbeat.beat("ended", *self._progress(rows))
        if rows and all(row.status == FAILED for row in rows.values()):
            first = rows[min(rows)]
            raise PayloadFailure(first.reason or GENERIC, f"no cell could be measured; cell 1: {first.message}")
        return 0

    def _measure(self, left: Sequence[Cell], rows: dict[int, Row]) -> None:
        """Give each cell a turn, until none needs another; then write all rows with the spread of the whole bench."""
        while left:
            for cell in left:
                row = rows[cell.number] = self._turn(cell, rows)
                self._rows.append(row)
                print(row.describe(cell.label, len(self._bench.cells)), flush=True)
            left = [cell for cell in left if not rows[cell.number].is_final]
        found = self._spreads()
        for cell in self._bench.cells:
            if cell.number in found and rows[cell.number].status == MEASURED:
                row = rows[cell.number]
                self._rows.append(replace(row, values={**row.values, **found[cell.number].told()}))

    def _take_up(self, cell: Cell, rows: dict[int, Row]) -> None:
        """Read the turns of the attempts before; a row with turns left and without them is none."""
        row = rows.get(cell.number)
        if row is not None and row.status == MEASURED:
            turns = read_turns(self._run, cell.number)
            if turns.done:
                self._turns[cell.number] = turns
                rows[cell.number] = measured_row(cell, turns, self._spreads()[cell.number])
                return
            if not row.is_final:
                del rows[cell.number]
        clear_turns(self._run, cell.number)

    def _progress(self, rows: Mapping[int, Row]) -> tuple[int, int]:
        """Return how many turns are over, and how many there are, as far as that is known."""
        most = max((turns.asked for turns in self._turns.values()), default=1)
        done = total = 0
        for cell in self._bench.cells:
            turns, row = self._turns.get(cell.number), rows.get(cell.number)
            asked = turns.asked if turns else most
            total += asked
            done += asked if row and row.is_final else len(turns.done) if turns else 0
        return done, total

    def _spreads(self) -> dict[int, Spread]:
        machines = {cell.number: cell.machine for cell in self._bench.cells}
        return spreads({number: turns.done for number, turns in self._turns.items()}, machines)

    def _turn(self, cell: Cell, rows: Mapping[int, Row]) -> Row:
        """Measure a cell's next turn and return its row."""
        forks = cell.processes == 1 and cell.number not in self._unforked
        before = self._turns.get(cell.number, Turns())
        ended = self._one(cell, before, rows, forks=forks)
        if forks and isinstance(ended, Row) and ended.needs_own_process:
            self._unforked.add(cell.number)
            ended = self._one(cell, before, rows, forks=False)
        if isinstance(ended, Turns):
            self._turns[cell.number] = ended
            write_turns(self._run, cell.number, ended)
            return measured_row(cell, ended, self._spreads()[cell.number])
        if not before.done:
            return ended
        words = f"turn {len(before.done) + 1} of {before.asked}: {ended.status}: {ended.message}"
        row = measured_row(cell, before, self._spreads()[cell.number])
        return replace(row, reason=ended.reason, message=words, is_final=True)

    def _one(self, cell: Cell, before: Turns, rows: Mapping[int, Row], *, forks: bool) -> Turns | Row:
        """Train once; return the cell's turns with the new one, or the row of a cell that ended without a result."""
        cell.clear(self._run)
        folder = cell.write(self._run, before.next(cell.asked, time.monotonic()))
        child = self._child = (fork_cell if forks else start_cell)(cell, folder)
        done, total = self._progress(rows)

        def beat() -> None:
            self._heartbeat.beat("training", done, total)

        timeout_s = max(0.0, self._bench.timeout_s - math.fsum(turn.cell_s for turn in before.done))
        code = child.wait(timeout_s, beat)
        self._child = None
        result = read_result(folder)
        if not result:
            return failed_row(cell, folder, code, child.seconds, self._bench.timeout_s)
        cell.clear(self._run)  # a model made for it may be large
        return before.and_then(turn_of(result, child.seconds, time.time()), int(result["turns"]))

    def _stop(self, number: int, _frame: FrameType | None) -> NoReturn:
        """A cell that is interrupted has nothing to save: it is measured again by the next attempt."""
        if self._child is not None:
            self._child.kill()
        name = signal.Signals(number).name
        message = f"{name} requested a stop: cells that have a row are kept, and a resume measures the others"
        write_failure(self._run.attempt_folder, PREEMPTED, message)
        print(f"armada_train: {PREEMPTED}: {message}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(INTERRUPTED)


def _import_once(cells: list[Cell], run: RunFolder) -> bool:
    """Import what a training imports, without starting CUDA; return whether cells can be forked from here."""
    trainings = [cell.training for cell in cells]
    fetching = [each for each in trainings if not (each.model_is_local and each.data_is_local)]
    configure_libraries((fetching or trainings)[0], run, os.environ)
    # With it torch asks NVML whether there are GPUs: CUDA once started cannot be used after a fork.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    # PEFT imports it wherever it is installed, which starts CUDA; a cell that needs it is a process of its own.
    sys.modules["bitsandbytes"] = None  # type: ignore[assignment]
    try:
        import accelerate.commands.launch  # noqa: F401 - the forked cells use it
        import torch

        import armada_train.tasks.train  # noqa: F401 - the forked cells use it
    except Exception as error:
        print(f"finding: each cell imports torch itself: {type(error).__name__}: {error}", flush=True)
        return False
    return not torch.cuda.is_initialized()


if __name__ == "__main__":
    sys.exit(main())
