"""`armada sweep show`, `best`, `stop` and `retry`."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.cli.printing import print_json
from armada.cli.runs import condition, seen
from armada.cli.table import table
from armada.config.best_metric import direction_of
from armada.costs.report import cost_so_far
from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.store import runs, sweeps
from armada.store.best_metric import common_best
from armada.sweeps.cells import open_values
from armada.sweeps.counts import count_states, newest_runs
from armada.sweeps.goal import goal_words
from armada.sweeps.pruning import without_metric
from armada.sweeps.rules import settings_of, why_stop
from armada.sweeps.searched import search_standing
from armada.sweeps.standing import cells_of, metric_names, ranked
from armada.sweeps.unfinished import interrupted_commands, is_interrupted
from armada.units import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.costs.amounts import Amounts
    from armada.foundation.metric_goals import Goal
    from armada.store.runs import Run
    from armada.store.sweeps import SweepRecord
    from armada.sweeps.standing import CellStanding


def show(context: Context, options: argparse.Namespace) -> int:
    """Print the cells of a sweep, after asking their hosts."""
    record = sweeps.find(context.database, options.sweep)
    if not (options.cached or context.is_read_only):
        with context.unless_full():
            _observe(context, record.name)
            _tend(context, record.name)
        record = sweeps.find(context.database, record.name)
    settings = settings_of(record)
    cells = cells_of(context.database, record.name, settings.metric, settings.decided_goal)
    if options.json:
        print_json(_summary(context, record, cells))
        return 0
    _print_head(context, record, cells)
    now = time.time()
    metric = settings.metric
    header = ("CELL", "RUN", "HOST", "STATE", "STEP", *([metric.upper()] if metric else []), "VALUES", "SEEN")
    rows = [
        (
            str(cell.run.cell),
            cell.run.run_id,
            cell.run.host,
            condition(cell.run),
            "—" if cell.run.step is None else str(cell.run.step),
            *([_figure(cell)] if metric else []),
            cell.label,
            seen(cell.run, now),
        )
        for cell in cells
    ]
    print(table(header, rows))
    if metric and cells and all(cell.run.ended for cell in cells) and not ranked(cells, settings.decided_goal):
        print(f"⚠ no cell recorded {metric}{_known_metrics(context, cells)}")
    return 0


def best(context: Context, options: argparse.Namespace) -> int:
    """Print the cells of a sweep, the best first.

    Raises:
        UsageError: It is not known what to compare by.
        NotFound: No cell has the metric.
    """
    record = sweeps.find(context.database, options.sweep)
    if not (options.cached or context.is_read_only):
        with context.unless_full():
            _observe(context, record.name)
    metric, goal = _compared_by(context, record, options)
    cells = cells_of(context.database, record.name, metric, goal)
    order = ranked(cells, goal)
    if not order:
        left = [cell for cell in cells if not cell.run.ended]
        later = f"; {counted(len(left), 'cell')} may still record it" if left else ""
        message = f"no cell of {record.name} has recorded {metric} yet{later}{_known_metrics(context, cells)}"
        raise NotFound(message, hint=f"armada sweep show {record.name}")
    if options.json:
        print_json({"sweep": record.name, "metric": metric, "goal": goal, "cells": list(map(_cell, order))})
        return 0
    rows = [
        (str(cell.run.cell), _figure(cell), str(cell.step), cell.run.run_id, condition(cell.run), cell.label)
        for cell in order
    ]
    print(table(("CELL", metric.upper(), "AT STEP", "RUN", "STATE", "VALUES"), rows))
    other = "max" if goal == "min" else "min"
    doubt = "" if options.goal or direction_of(metric) == goal else f"; --goal {other} if that is wrong"
    print(f"({goal_words(goal, metric)} is best{doubt})")
    missing = len(cells) - len(order)
    if missing:
        print(f"({counted(missing, 'cell')} without {metric})")
    return 0


def _compared_by(context: Context, record: SweepRecord, options: argparse.Namespace) -> tuple[str, Goal]:
    """Return the metric that the cells of a sweep are compared by, and whether low or high values of it are better."""
    settings = settings_of(record)
    metric: str | None = options.metric or settings.metric
    goal: Goal | None = settings.goal if metric == settings.metric else None
    everything = cells_of(context.database, record.name)
    if goal is None:
        told = common_best(context.database, (cell.run.run_id for cell in everything))
        if told is not None and metric in (None, told.name):
            metric, goal = told.name, told.goal
    if metric is None:
        raise UsageError(
            f"{record.name} has no `metric` to compare by{_known_metrics(context, everything)}",
            hint="--metric eval_loss",
        )
    if goal is None and metric != settings.metric:
        goal = direction_of(metric)
    if options.goal is not None:
        goal = "max" if options.goal == "max" else "min"
    return metric, goal or "min"


def stop(context: Context, options: argparse.Namespace) -> int:
    """Stop all cells of a sweep that have not ended.

    Raises:
        ArmadaError: A host could not be told, or cells did not end; cells of the other hosts are stopped all the same.
    """
    from armada.cli.progress import Reporter
    from armada.sweeps.stopping import TOLD_TO_STOP

    record = sweeps.find(context.database, options.sweep)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    by_host: dict[str, list[Run]] = {}
    for run in runs.of_sweep(context.database, record.name):
        if not run.ended:
            by_host.setdefault(run.host, []).append(run)
    # First of all: nothing of it is handed over or started by the daemon from now on.
    sweeps.set_state(context.database, record.name, "stopped", TOLD_TO_STOP)
    errors: list[ArmadaError] = []
    for host, theirs in by_host.items():
        try:
            _stop_on(context, host, theirs, options, reporter)
        except ArmadaError as error:
            if isinstance(error, HostUnreachable):
                later = f"once it answers, the daemon or armada sweep stop {record.name} stops its cells"
                error.hint = "; ".join(filter(None, (error.hint, later)))
            errors.append(error)
            reporter.stage(host, f"⚠ {sanitize_line(error.message)}")
    found = newest_runs(runs.of_sweep(context.database, record.name))
    if options.json and not errors:
        record = sweeps.find(context.database, record.name)
        print_json(_summary(context, record, cells_of(context.database, record.name)))
    elif not options.json:
        reporter.line(f"{record.name}: {count_states(found)}")
    if errors:
        errors[0].hint = errors[0].hint or f"armada sweep stop {record.name} tells them again"
        raise errors[0]
    return 0


def retry(context: Context, options: argparse.Namespace) -> int:
    """Resume the failed cells of a sweep that are worth it, and on request those that were removed from the queue.

    Raises:
        UsageError: No failed cell has a reason that `--reason` names.
        ArmadaError: A host did not answer; cells of the other hosts are resumed all the same.
    """
    from armada.cli.daemon import start_for_launch
    from armada.cli.progress import Reporter
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller
    from armada.sweeps.retrying import Retried, is_removed, retry_cells

    record = sweeps.find(context.database, options.sweep)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    _observe(context, record.name)
    cells = newest_runs(runs.of_sweep(context.database, record.name))
    failed = [run for run in cells if run.state == "failed" or is_removed(run)]
    there = sorted({run.reason or "unknown" for run in failed})
    if failed and (strange := [each for each in options.reason if each not in there]):
        raise UsageError(
            f"no failed cell of {record.name} has the reason {sanitize_line(strange[0], 100)!r}",
            hint=f"reasons there are: {', '.join(map(sanitize_line, there))}",
        )
    done = Retried()
    errors: list[ArmadaError] = []
    if not failed and not options.json:
        reporter.stage(
            "retry", f"no cell of {record.name} has failed; armada resume RUN continues one that was stopped"
        )
    for host in sorted({run.host for run in failed}):
        theirs = [run for run in failed if run.host == host]
        try:
            with context.session(host) as session:
                order = Order(session, context.home, context.database)
                retry_cells(order, theirs, options.reason, Caller(sys.argv, Path.cwd(), reporter), done)
        except ArmadaError as error:
            errors.append(error)
    if done.resumed and not options.no_daemon:
        start_for_launch(context.home)
    if options.json and not errors:
        print_json({"sweep": record.name, "resumed": done.resumed, "left": done.left})
    elif not options.json:
        reporter.line(f"{record.name}: {counted(len(done.resumed), 'cell')} resumed, {len(done.left)} left")
        for run_id, why in done.left.items():
            reporter.stage("left", f"{run_id}: {why}")
    if errors:
        raise errors[0]
    return 0


def _stop_on(
    context: Context, host: str, cells: Sequence[Run], options: argparse.Namespace, reporter: Reporter
) -> None:
    from armada.store.running_operations import operation
    from armada.sweeps.stopping import stop_cells

    with (
        operation(context.database, kind="stop", host=host, argv=sys.argv) as recorded,
        context.session_of(cells[0]) as session,
    ):
        progress = recorded.and_tell(reporter)
        stop_cells(context.database, session, cells, options.grace, lambda text: progress.now("stopping", text))


def _observe(context: Context, name: str) -> None:
    """Ask the hosts about the cells that have not ended; name each host that could not be asked."""
    from armada.monitor.observe import observe_all
    from armada.store.running_operations import being_launched

    unsure = [run for run in runs.of_sweep(context.database, name) if not run.is_settled(time.time())]
    launching = being_launched(context.database)
    unsure = [run for run in unsure if run.state != "preparing" or run.run_id not in launching]
    for host, why in (observe_all(context.home, context.hosts_of_runs(*unsure), unsure) if unsure else {}).items():
        sys.stderr.write(f"armada: {host}: {sanitize_line(why)}\n")


def _tend(context: Context, name: str) -> None:
    """Look after the sweep where cells wait, as the daemon does: it may not run."""
    from armada.sweeps.tending import Tending

    hosts = context.hosts()
    found = runs.of_sweep(context.database, name)
    goes_on = any(each.name == name for each in sweeps.searches(context.database))  # its next trials may be due
    waiting = {run.host for run in found if (goes_on or not run.ended) and not run.unreachable_since}
    for host in sorted(waiting & set(hosts)):
        with contextlib.suppress(ArmadaError), context.session(host, patience_s=0) as session:
            Tending(session, lambda: hosts).look(context.database)


def sweep_cost(context: Context, name: str) -> Amounts | None:
    """What a sweep has cost so far; None without prices."""
    from armada.records.launch_price import Prices
    from armada.store.queries.tariffs import read_tariffs
    from armada.store.queries.uses import read_uses

    cells = runs.of_sweep(context.database, name)
    hosts = context.hosts()
    known = Prices(context.home, read_tariffs(context.database, hosts), hosts).by_host(cells)
    return cost_so_far(read_uses(context.database, cells, time.time()), known)


def refuse_over(context: Context, record: SweepRecord) -> None:
    """Refuse to add cells to a sweep whose rule would stop them at once.

    Raises:
        Conflict: It says which rule.
    """
    settings = settings_of(record)
    cost = sweep_cost(context, record.name) if settings.stop.cost is not None else None
    cells = cells_of(context.database, record.name, settings.metric, settings.decided_goal)
    if (why := why_stop(record, cells, cost, time.time())) is not None:
        raise Conflict(
            f"cells that are added to {record.name} would be stopped at once: {why}",
            hint="launch another sweep, with another `sweep.stop`",
        )


def _print_head(context: Context, record: SweepRecord, cells: Sequence[CellStanding]) -> None:
    from armada.store.running_operations import being_launched

    found = [cell.run for cell in cells]
    parts = [counted(len(cells), "cell"), count_states(found)]
    search = search_standing(context.database, record)
    parts = [search.words, *parts] if search is not None else parts
    cost = sweep_cost(context, record.name)
    parts += [f"cost so far {cost.text()}"] if cost is not None and cost.is_known else []
    print(f"{record.name} · {' · '.join(parts)}")
    if record.state == "stopped" and record.why:
        print(f"stopped: {sanitize_line(record.why)}")
    if search is not None and search.note and record.state == "started":
        print(f"⚠ no new trials: {sanitize_line(search.note, 500)}")
    for spent in _spent_budgets(context, cells):
        raised = f"armada hosts set {spent['host']} --budget MONEY raises it"
        print(f"⚠ {spent['why']}: no cell begins there, and the daemon stops those that are left. ", end="")
        print(f"{raised}; then armada sweep retry {record.name} --reason budget")
    if words := without_metric(context.database, record):
        print(f"⚠ {words}")
    for trial in search.without_value if search is not None else ():
        print(f"⚠ {trial.run_id} counts as failed: {trial.why}")
    if is_interrupted(record) and record.name not in being_launched(context.database):
        again = interrupted_commands(context.database, record.name) or ["the same `armada sweep` command"]
        print("⚠ its launch was interrupted. To continue it, run again:")
        print("\n".join(f"    {command}" for command in again))


def _spent_budgets(context: Context, cells: Sequence[CellStanding]) -> list[dict[str, str]]:
    """Say of each host whose budget is spent that it is: its cells do not begin."""
    from armada.store.queries.host_costs import why_over_budget

    hosts = context.hosts()
    concerned = {cell.run.host for cell in cells if not cell.run.ended or cell.run.reason == "budget"}
    return [
        {"host": name, "why": why}
        for name in sorted(concerned & set(hosts))
        if (why := why_over_budget(context.database, hosts[name], time.time())) is not None
    ]


def _known_metrics(context: Context, cells: Sequence[CellStanding]) -> str:
    names = metric_names(context.database, cells)
    shown = ", ".join(sanitize_line(name, 60) for name in names[:12])
    return f"; metrics there are: {shown}" if names else "; there are no metrics"


def _figure(cell: CellStanding) -> str:
    return "—" if cell.value is None else f"{cell.value:.6g}"


def _summary(context: Context, record: SweepRecord, cells: Sequence[CellStanding]) -> dict[str, Any]:
    settings, costs = settings_of(record), sweep_cost(context, record.name)
    search = search_standing(context.database, record)
    return {
        "sweep": record.name,
        "title": record.title,
        "experiment": record.experiment,
        "state": record.state,
        "why": record.why,
        "created_at": record.created_at,
        "metric": settings.metric,
        "goal": settings.decided_goal,
        "cells": list(map(_cell, cells)),
        "costs": costs.as_json() if costs is not None else None,
        "search": search.as_json() if search is not None else None,
        "spent_budgets": _spent_budgets(context, cells),
    }


def _cell(cell: CellStanding) -> dict[str, Any]:
    run = cell.run
    return {
        "cell": run.cell,
        "label": cell.label,
        "values": open_values(cell.values),
        "run_id": run.run_id,
        "host": run.host,
        "state": run.state,
        "reason": run.reason,
        "step": run.step,
        "value": cell.value,
        "value_step": cell.step,
    }
