"""`armada bench --array`: the cells of a bench as one array of a cluster."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from armada.cli.bench_views import Rows, rows_of, show_rows
from armada.cli.sweep_launch import caller, dry_run, say_plan
from armada.errors import ArmadaError, RunFailed
from armada.foundation.sanitize import sanitize_line
from armada.store import runs, sweeps
from armada.sweeps.benches import ArrayOrder, bench_array, is_bench
from armada.sweeps.counts import count_states, newest_runs
from armada.units import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.launch.bench.grid import GridCell
    from armada.launch.plans.bench import Pace
    from armada.store.runs import Run
    from armada.store.sweeps import SweepRecord

_EVERY_S = 5.0
"""Seconds between two looks at the cells."""


def measure_array(
    context: Context,
    options: argparse.Namespace,
    experiment: Path,
    cells: Sequence[GridCell],
    pace: Pace,
    reporter: Reporter,
) -> int:
    """Hand the cells of a bench over as one array, wait for them and show the rows. Return the exit code.

    Raises:
        UsageError: The host has no batch system.
        RunFailed: Cells failed; the rows that there are were shown.
    """
    from armada.cli.daemon import start_for_launch
    from armada.paths import new_run_id
    from armada.sweeps.service import launch_sweep

    title = options.name or f"{cells[0].experiment.name}: bench"
    with context.session(options.host) as session:
        order = ArrayOrder(
            new_run_id(title),
            title,
            experiment.absolute(),
            session,
            context.home,
            context.database,
            options.profile,
            options.parallel,
        )
        asked = bench_array(order, cells, pace)
        if options.dry_run:
            return dry_run(asked, reporter, as_json=options.json)
        outcome = launch_sweep(asked, caller(reporter), lambda plan: say_plan(reporter, asked, plan))
    if outcome.taken and not options.no_daemon and start_for_launch(context.home):
        reporter.stage("daemon", "started; it watches the runs (armada daemon status)")
    outcome.raise_if_incomplete()
    show = f"armada bench --show {outcome.name}"
    if options.detach:
        reporter.line(f" rows       {show}")
        return show_array(context, sweeps.find(context.database, outcome.name), options) if options.json else 0
    try:
        _wait(context, outcome.name, reporter)
    except KeyboardInterrupt:
        reporter.line()
        reporter.stage("left", f"it continues without you: {show} · armada sweep stop {outcome.name}")
        return 130
    show_array(context, sweeps.find(context.database, outcome.name), options)
    failed = [run for run in _runs(context, outcome.name) if run.state != "succeeded"]
    if failed:
        words = f"{counted(len(failed), 'cell')} of {outcome.name} ended without a measurement"
        raise RunFailed(words, hint=f"armada why {failed[0].run_id}; armada sweep retry {outcome.name}")
    return 0


def find_array(context: Context, name: str) -> SweepRecord | None:
    """Return the bench that was handed over as an array and has this name; None if there is none."""
    with contextlib.suppress(ArmadaError):
        record = sweeps.find(context.database, name)
        return record if is_bench(record) else None
    return None


def show_array(context: Context, record: SweepRecord, options: argparse.Namespace) -> int:
    """Print and write the rows of all cells. Return the exit code."""
    from armada.launch.bench.results import merged

    found = _runs(context, record.name)
    states = {run.state for run in found}
    is_over = all(run.ended for run in found)
    state = "running" if not is_over else "succeeded" if states <= {"succeeded"} else "failed"
    profile = runs.spec(context.database, found[0].run_id).get("profile") if found else None
    rows = Rows(
        record.name,
        f"{record.title} on {', '.join(sorted({run.host for run in found}))}",
        state,
        is_over,
        f"armada sweep retry {record.name}",
        profile if isinstance(profile, str) else None,
        merged(rows_of(context, run) for run in found),
    )
    return show_rows(context, rows, options)


def _runs(context: Context, name: str) -> list[Run]:
    return newest_runs(runs.of_sweep(context.database, name))


def _wait(context: Context, name: str, reporter: Reporter, pause: Callable[[float], None] = time.sleep) -> None:
    """Ask the cluster about the cells until all have ended."""
    from armada.monitor.observe import observe_all

    said: dict[str, str] = {}
    while True:
        unsure = [run for run in _runs(context, name) if not run.is_settled(time.time())]
        if not unsure:
            return
        for host, why in observe_all(context.home, context.hosts_of_runs(*unsure), unsure).items():
            if said.get(host) != why:  # a cluster that does not answer is not told of every five seconds
                sys.stderr.write(f"armada: {host}: {sanitize_line(why)}\n")
            said[host] = why
        reporter.now("bench", count_states(_runs(context, name)))
        pause(_EVERY_S)
