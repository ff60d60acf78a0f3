"""`armada bench`: measure an experiment's speed over a grid of settings."""

from __future__ import annotations

import argparse
import copy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.asking import confirm
from armada.cli.options import add_changes, add_profile
from armada.costs.price import money
from armada.errors import UsageError

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.costs.price import Price
    from armada.launch.bench.grid import Grid
    from armada.launch.plans.bench import Pace

_ASK_FROM = 24
"""Cells: so many take long enough to be asked about."""

_OVERHEAD_S = 15.0
"""Of one cell, beside the measured time: loading, the warm-up. For the question alone."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="Measure an experiment's speed over a grid of settings",
        description="Run short trainings of an experiment, one for each combination of the values of --grid, one after "
        "the other, in one environment and with one hand-over. Nothing is evaluated or saved. Running out of memory is "
        "a result. An interrupted bench keeps its rows; `armada resume RUN` measures the others. `armada bench HOST` "
        "measures the machine itself: its GPUs, what is between them, its disk, and the link.",
        epilog="example: armada bench exp.yaml --host a100-1 --grid train.micro_batch_size=1,2,4,8 "
        "--grid train.attention=sdpa,flash_attention_2",
    )
    what = "Experiment file (YAML) of a training, or `quickstart`; or, without --host, a host whose machine is measured"
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help=what)
    parser.add_argument("--host", metavar="NAME", help="Host to measure on; `local` is this machine")
    add_profile(parser)
    add_changes(parser)
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=V,V",
        help="Values of a setting of the experiment, or of the profile's train.attention, train.precision or "
        "train.activation_checkpointing; repeatable",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="Measure each cell for S seconds or longer (default: 30)",
    )
    parser.add_argument(
        "--steps", type=_count, default=10, metavar="N", help="Measure N steps or more of each cell (default: 10)"
    )
    parser.add_argument(
        "--warmup", type=_count, default=3, metavar="N", help="Steps before the measured ones (default: 3)"
    )
    parser.add_argument(
        "--cell-timeout", type=_seconds, default=1800.0, metavar="S", help="End a cell after S seconds (default: 1800)"
    )
    parser.add_argument("--name", metavar="TEXT", help="Name of the bench (default: made from the experiment's name)")
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and the checks; send and start nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="Do not ask before many cells")
    parser.add_argument(
        "--array",
        action="store_true",
        help="On a cluster: hand the cells over as one array of jobs, each with the resources of its cell",
    )
    parser.add_argument(
        "--parallel", type=_jobs, metavar="N", help="With --array: run at most N cells at once (default: the queue's)"
    )
    parser.add_argument(
        "--detach", action="store_true", help="Do not wait for the rows; `armada bench --show RUN` shows them"
    )
    parser.add_argument("--no-daemon", action="store_true", help="Do not start the daemon, which watches the bench")
    parser.add_argument("--show", metavar="RUN", help="Show the rows of a bench; asks no host and measures nothing")
    parser.add_argument("--csv", metavar="FILE", help="New file for the rows, as CSV; `-` prints them")
    parser.add_argument(
        "--chart", metavar="FILE", help="New file for a chart: FILE.svg, or FILE.png if cairosvg is installed"
    )
    parser.add_argument("--force", action="store_true", help="With --csv or --chart: replace the file if it exists")
    parser.add_argument(
        "--apply", metavar="PROFILE", help="Write the fastest cell's settings into this profile of yours"
    )
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object on stdout and the progress on stderr"
    )
    parser.set_defaults(handler=_bench)


def _count(text: str) -> int:
    """Parse a number of steps."""
    if not text.isascii() or not text.isdecimal() or not 2 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps from 2 to 100000")
    return int(text)


def _jobs(text: str) -> int:
    """Parse a number of jobs."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:12]) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs from 1 to 100000")
    return int(text)


def _seconds(text: str) -> float:
    """Parse a number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value


def _bench(options: argparse.Namespace) -> int:
    from armada.cli.bench_health import is_health, measure_health, show_health
    from armada.cli.bench_views import check_outputs, show_results
    from armada.cli.context import Context

    if options.show is not None:
        if options.experiment or options.grid or options.host:
            raise UsageError("--show takes a run and no experiment, host or grid", hint="armada bench --show RUN")
        from armada.cli.bench_array import find_array, show_array

        context = Context()
        check_outputs(options, context.home)
        if (array := find_array(context, options.show)) is not None:
            return show_array(context, array, options)
        run = context.run(options.show)
        return (show_health if is_health(context, run) else show_results)(context, run, options)
    if options.experiment is None:
        raise UsageError(
            "name an experiment and a host, or a host alone",
            hint="armada bench exp.yaml --host NAME --grid train.micro_batch_size=1,2,4",
        )
    if options.host is None:
        if Path(options.experiment).is_file() or options.experiment == "quickstart":
            raise UsageError("name the host to measure on", hint=f"armada bench {options.experiment} --host NAME")
        if options.experiment.endswith((".yaml", ".yml")):
            raise UsageError(f"there is no file {options.experiment}", hint="armada bench exp.yaml --host NAME")
        context = Context()
        return measure_health(context, options, context.host(options.experiment).name)
    if options.parallel is not None and not options.array:
        raise UsageError("--parallel belongs to --array: without it, cells are measured one after the other")
    if options.detach and (options.csv or options.chart or options.apply):
        raise UsageError(
            "with --detach there are no rows yet for --csv, --chart and --apply",
            hint="give them to `armada bench --show RUN`",
        )
    context = Context()
    check_outputs(options, context.home)
    return _measure(context, options)


def _measure(context: Context, options: argparse.Namespace) -> int:
    from armada.cli.bench_views import show_results
    from armada.cli.experiment import experiment_file
    from armada.cli.following import announce
    from armada.cli.plans import say_plan, show_plan
    from armada.cli.progress import Reporter
    from armada.launch.bench.grid import expand, read_grid
    from armada.launch.plans.bench import Pace
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, bench_of, carry_out

    overrides = [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])]
    grid = read_grid(experiment_file(options.experiment), overrides, options.grid)
    pace = Pace(options.warmup, options.steps, options.seconds, options.cell_timeout)
    tariff = context.host(options.host).tariff()
    price = tariff.price_at(time.time()) if tariff is not None else None
    _confirm(grid, pace, price, yes=options.yes or options.dry_run)
    cells = expand(grid)
    reporter = Reporter(sys.stderr if options.json or options.csv == "-" else sys.stdout)
    if options.array:
        from armada.cli.bench_array import measure_array

        path = experiment_file(options.experiment)
        _say_cells(reporter, [cell.label for cell in cells], pace, price)
        return measure_array(context, options, path, cells, pace, reporter)
    with context.session(options.host) as session:
        order = Order(session, context.home, context.database, options.profile, options.name)
        launch = bench_of(cells, order, pace)
        if options.dry_run:
            reporter.now("plan", f"asking {options.host}")
            plan = launch.plan()
            if not options.json:
                _say_cells(reporter, [cell.label for cell in cells], pace, price)
            return show_plan(reporter, plan, as_json=options.json)
        _say_cells(reporter, [cell.label for cell in cells], pace, price)
        caller = Caller(sys.argv, Path.cwd(), reporter, lambda plan: say_plan(reporter, plan, everything=False))
        run = carry_out(launch, caller)
        following = copy.copy(options)
        following.follow = not options.detach
        following.json = False
        code = announce(context, session, run, following, reporter)
        if options.detach and not code and options.json:
            return show_results(context, context.run(run.run_id), options)
        if options.detach or code:
            reporter.line(f" rows       armada bench --show {run.run_id}")
            return code
    return show_results(context, context.run(run.run_id), options)


def _cell_s(pace: Pace) -> float:
    return pace.seconds + _OVERHEAD_S


def _needs(cells: int, pace: Pace, price: Price | None) -> str:
    """Say how long so many cells take at least, and what they cost."""
    from armada.units import span

    seconds = cells * _cell_s(pace)
    # Beyond a year days are no help.
    lasts = span(seconds) if seconds < 366 * 86_400 else f"{seconds / 3600:,.0f} hours"
    if price is None:
        return f"about {lasts}"
    each = " for each GPU" if price.per == "gpu" else ""
    return f"about {lasts} and {money(price.amount * seconds / 3600, price.currency)}{each}"


def _confirm(grid: Grid, pace: Pace, price: Price | None, *, yes: bool) -> None:
    """Ask before many cells are measured.

    Raises:
        UsageError: There are far too many, or nobody is there to be asked.
        Conflict: The answer was not yes.
    """
    from armada.launch.bench.grid import MOST_CELLS

    needs = f"{grid.count:,} cells take {_needs(grid.count, pace, price)}"
    if grid.count > MOST_CELLS:
        raise UsageError(f"{needs}; a bench has at most {MOST_CELLS} cells", hint="give fewer values")
    if yes or grid.count < _ASK_FROM:
        return
    confirm(f"{needs}. Measure them?", nothing="nothing was started")


def _say_cells(reporter: Reporter, labels: list[str], pace: Pace, price: Price | None) -> None:
    from armada.foundation.sanitize import sanitize_line
    from armada.units import counted

    reporter.stage("bench", f"{counted(len(labels), 'cell')}, {_needs(len(labels), pace, price)}")
    for number, label in enumerate(labels[:12], start=1):
        reporter.stage("", f"{number}  {sanitize_line(label, 200)}")
    if len(labels) > 12:
        reporter.stage("", f"… and {len(labels) - 12} more")
