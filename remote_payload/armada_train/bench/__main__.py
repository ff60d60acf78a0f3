"""`python -m armada_train.bench --spec …`: measure every cell of a bench that has no row yet, one after the other.

A cell with one process is forked from this process, which has imported torch once; without that, importing takes longer
than many a cell. A cell with several processes is started by accelerate's launcher, as a training is.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from armada_train.bench.cells import Bench, Cell, read_bench
from armada_train.bench.child import Child, fork_cell, start_cell
from armada_train.bench.rows import FAILED, MEASURED, Row, Rows, row_of
from armada_train.failure import GENERIC, INTERRUPTED, PREEMPTED, PayloadFailure, recorded, write_failure
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder
from armada_train.training.libraries import configure_libraries
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

    def measure(self) -> int:
        """Measure what has no row, and return the exit code."""
        for number in SIGNALS:
            signal.signal(number, self._stop)
        done = self._rows.read()
        left = [cell for cell in self._bench.cells if cell.number not in done]
        if done:
            print(f"{len(done)} of {len(self._bench.cells)} cells were measured before", flush=True)
        self._heartbeat.beat("loading", len(done), len(self._bench.cells))
        can_fork = any(cell.processes == 1 for cell in left) and _import_once(left, self._run)
        for cell in left:
            row = self._measure(cell, can_fork=can_fork)
            done[cell.number] = row
            self._rows.append(row)
            print(row.describe(cell.label, len(self._bench.cells)), flush=True)
        self._heartbeat.beat("ended", len(done))
        if done and all(row.status == FAILED for row in done.values()):
            first = done[min(done)]
            raise PayloadFailure(first.reason or GENERIC, f"no cell could be measured; cell 1: {first.message}")
        return 0

    def _measure(self, cell: Cell, *, can_fork: bool) -> Row:
        forks = can_fork and cell.processes == 1
        row = self._one(cell, forks=forks)
        if forks and row.needs_own_process:
            row = self._one(cell, forks=False)
        return row

    def _one(self, cell: Cell, *, forks: bool) -> Row:
        cell.clear(self._run)
        folder = cell.write(self._run)
        child = self._child = (fork_cell if forks else start_cell)(cell, folder)
        done = cell.number - 1

        def beat() -> None:
            self._heartbeat.beat("training", done, len(self._bench.cells))

        code = child.wait(self._bench.timeout_s, beat)
        self._child = None
        row = row_of(cell, folder, code, child.seconds, self._bench.timeout_s)
        if row.status == MEASURED:
            cell.clear(self._run)  # a model made for it may be large
        return row

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
