"""`armada sweep`: launch many runs of one experiment, show them, stop them, add to them, find the best."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.asking import confirm
from armada.cli.experiment import experiment_file
from armada.cli.options import add_profile, seconds
from armada.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.config.sweep import SearchCells
    from armada.rpc.session import HostSession
    from armada.store.sweeps import SweepRecord
    from armada.sweeps.cells import Cell, Draft, Known, Words
    from armada.sweeps.standing import CellStanding

VERBS = ("launch", "show", "stop", "extend", "best", "retry")
"""`launch` may be left out."""


def with_verb(arguments: Sequence[str]) -> Sequence[str]:
    """Add the verb that was left out. A word that is neither a verb nor a file may be a mistyped verb, which argparse names."""
    first = next(iter(arguments[1:2]), "")
    if first in (*VERBS, "", "-h", "--help"):
        return arguments
    is_launch = first.startswith("-") or "." in first or "/" in first or first == "quickstart" or Path(first).exists()
    return [*arguments[:1], "launch", *arguments[1:]] if is_launch else arguments


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="Launch many runs of one experiment that differ in a few settings",
        description="Launch every cell of an experiment's `sweep:`, or of --grid and --random; look after them together. "
        "`armada sweep EXPERIMENT --host NAME` is short for `armada sweep launch EXPERIMENT --host NAME`.",
    )
    verbs = sweep.add_subparsers(title="verbs", metavar="VERB", dest="verb", required=True)
    launch = verbs.add_parser(
        "launch",
        help="Launch all cells (the default)",
        description="Launch every cell of an experiment's `sweep:`, and those of --grid and --random, on one host or several.",
    )
    what = "Experiment file (YAML), or `quickstart` for the bundled one"
    launch.add_argument("experiment", metavar="EXPERIMENT", help=what)
    launch.add_argument("--host", action="append", required=True, metavar="NAME", help="Host to use; repeatable")
    _add_cells(launch)
    prune = "Stop cells that do badly at these steps: one third continues (ASHA; `sweep.prune.reduction`)"
    launch.add_argument("--prune", type=_steps, metavar="STEP,STEP", help=prune)
    launch.add_argument("--name", metavar="TEXT", help="Use this name instead of the experiment's")
    launch.set_defaults(handler=_launch)
    extend = _add_verb(verbs, "extend", "Add cells", "Add cells to a sweep, those of --grid and --random; others stay.")
    extend.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="Host to use (default: the sweep's)"
    )
    _add_cells(extend)
    extend.set_defaults(handler=_extend)
    show = _add_verb(verbs, "show", "Show the cells", "Ask the hosts for the cells of a sweep and list them.")
    show.add_argument("--cached", action="store_true", help="List what the local database holds; ask no host")
    best = _add_verb(verbs, "best", "Compare the cells", "List the cells of a sweep by a metric, the best first.")
    best.add_argument("--cached", action="store_true", help="Use what the local database holds; ask no host")
    best.add_argument("--metric", metavar="NAME", help="Compare by this, such as eval_loss (default: `sweep.metric`)")
    best.add_argument("--goal", choices=("min", "max"), help="Whether a small or a large value is good")
    stop = _add_verb(
        verbs, "stop", "Stop all cells", "Stop the cells of a sweep that have not ended, also those that wait."
    )
    stop.add_argument("--grace", type=seconds, metavar="S", help="Grace period in seconds (default: the experiment's)")
    retry = _add_verb(
        verbs,
        "retry",
        "Resume cells that were lost",
        "Resume the failed cells of a sweep that were lost with their machine. Cells that failed by themselves would fail "
        "again, and stay, unless --reason names why they failed.",
    )
    reason = "Resume cells that failed for this reason, too: you have removed the cause; repeatable"
    retry.add_argument("--reason", action="append", default=[], metavar="REASON", help=reason)
    retry.add_argument("--no-daemon", action="store_true", help="Do not start the daemon, which watches the runs")
    for parser, handler in ((show, _show), (best, _best), (stop, _stop), (retry, _retry)):
        parser.set_defaults(handler=handler)
        parser.add_argument("--json", action="store_true", help="Print one JSON object with the cells")


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], verb: str, words: str, description: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(verb, help=words, description=description)
    parser.add_argument("sweep", metavar="NAME", help="The sweep, or its first characters")
    return parser


def _add_cells(parser: argparse.ArgumentParser) -> None:
    """Options that say which cells there are, and how they are handed over."""
    grid = "Vary a setting: every combination of the values is a cell; repeatable"
    parser.add_argument("--grid", action="append", default=[], metavar="a.b=1,2", help=grid)
    parser.add_argument("--random", type=_count, metavar="N", help="Draw N cells from the space")
    search = "Try N cells: Optuna chooses each by the `metric` of former ones, from the space"
    parser.add_argument("--search", type=_count, metavar="N", help=search)
    space = "Values to draw from: a list, or {min: 1e-6, max: 1e-4, scale: log}; repeatable"
    parser.add_argument("--space", action="append", default=[], metavar="a.b=1,2", help=space)
    parser.add_argument("--seed", type=int, metavar="N", help="Draw other cells than with seed 0")
    at_once = "Run at most N cells at once, on all hosts together (default: as many as there are GPUs or cores for)"
    parser.add_argument("--parallel", type=_count, metavar="N", help=at_once)
    add_profile(parser)
    override = "Override a setting of every cell; repeatable"
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", dest="overrides", help=override)
    parser.add_argument("--gpus", metavar="N", help="Use this many GPUs a cell, or `all`, instead of resources.gpus")
    parser.add_argument("--dry-run", action="store_true", help="Print cells, plan and checks; send and start nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="Do not ask before a large sweep")
    parser.add_argument("--no-daemon", action="store_true", help="Do not start the daemon, which watches the runs")
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object on stdout and the progress on stderr"
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:12]) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _steps(text: str) -> list[int]:
    return [_count(each.strip()) for each in text.split(",")]


def _show(options: argparse.Namespace) -> int:
    from armada.cli import sweep_views
    from armada.cli.context import Context

    return sweep_views.show(Context(reads=True), options)


def _best(options: argparse.Namespace) -> int:
    from armada.cli import sweep_views
    from armada.cli.context import Context

    return sweep_views.best(Context(reads=True), options)


def _stop(options: argparse.Namespace) -> int:
    from armada.cli import sweep_views
    from armada.cli.context import Context

    return sweep_views.stop(Context(), options)


def _retry(options: argparse.Namespace) -> int:
    from armada.cli import sweep_views
    from armada.cli.context import Context

    return sweep_views.retry(Context(), options)


def _refuse_repeated(hosts: Sequence[str]) -> None:
    if len(set(hosts)) < len(hosts):
        raise UsageError("a host is named twice", hint="name each host once")


def _words(options: argparse.Namespace) -> Words:
    from armada.sweeps.cells import Words

    overrides = [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])]
    return Words(
        overrides,
        options.grid,
        options.space,
        options.random,
        options.seed,
        options.search,
        getattr(options, "prune", None),
    )


def _launch(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.cli.sweep_launch import announce, caller, dry_run, say_plan
    from armada.paths import new_run_id
    from armada.sweeps.cells import read_draft
    from armada.sweeps.goal import goal_words, with_goal
    from armada.sweeps.planning import Asked
    from armada.sweeps.pruning import settings_for_pruning, words_of
    from armada.sweeps.rules import refuse_unkeepable
    from armada.sweeps.search import search_in
    from armada.sweeps.searched import settings_for
    from armada.sweeps.service import launch_sweep

    path = experiment_file(options.experiment)
    _refuse_repeated(options.host)
    context = Context()
    hosts = [context.host(name) for name in options.host]
    context.say_what_counts(*options.host)
    draft = with_goal(read_draft(path, _words(options)))
    refuse_unkeepable(draft.sweep.stop, hosts, time.time())
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    parallel = options.parallel or draft.sweep.parallel
    search = search_in(draft, parallel)
    cells = _confirmed(context, draft, hosts, parallel, options, search=search)
    title = options.name or cells[0].experiment.name
    with contextlib.ExitStack() as closing:
        sessions = {host.name: closing.enter_context(context.session(host.name)) for host in hosts}
        asked = Asked(
            name=new_run_id(title),
            title=title,
            experiment=path.absolute(),
            cells=cells,
            sessions=sessions,
            home=context.home,
            database=context.database,
            profile=options.profile,
            parallel=parallel,
            settings=_settings(draft, options, parallel)
            | settings_for_pruning(draft.sweep.prune)
            | (settings_for(draft, search) if search else {}),
        )
        best = goal_words(draft.sweep.decided_goal, draft.sweep.metric or "")
        if search is not None:
            told = f"{search.trials} trials by {best}, {len(cells)} at once; others follow as these end"
            reporter.stage("search", told)
        if (rule := draft.sweep.prune) is not None:
            reporter.stage("prune", words_of(rule, best))
        if options.dry_run:
            return dry_run(asked, reporter, as_json=options.json)
        outcome = launch_sweep(asked, caller(reporter), lambda plan: say_plan(reporter, asked, plan))
    return announce(context, outcome, options, reporter)


def _extend(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.cli.sweep_launch import announce, caller, dry_run, say_plan
    from armada.cli.sweep_views import refuse_over
    from armada.store import runs, sweeps
    from armada.sweeps.benches import is_bench
    from armada.sweeps.cells import read_draft
    from armada.sweeps.planning import Asked
    from armada.sweeps.rules import refuse_unkeepable, settings_of
    from armada.sweeps.searched import search_of
    from armada.sweeps.service import extend_sweep
    from armada.sweeps.standing import cells_of

    context = Context()
    record = sweeps.find(context.database, options.sweep)
    if options.search is not None or search_of(record) is not None:
        from armada.cli.sweep_search import extend_search

        return extend_search(context, record, options)
    if is_bench(record):
        raise UsageError(f"{record.name} is a bench: no cells can be added to it", hint="armada bench measures others")
    _refuse_repeated(options.host)
    path, draft_words = _former_words(record, options)
    draft = read_draft(path, draft_words)
    settings = settings_of(record)
    there = cells_of(context.database, record.name, settings.metric, settings.decided_goal)
    refuse_over(context, record)
    known = _known(record, there)
    found = runs.of_sweep(context.database, record.name)
    names = options.host or sorted({run.host for run in found})
    # What an interrupted extension left is asked for where it may be.
    names += sorted({run.host for run in found if run.cell in known.pending.values()} - set(names))
    hosts = [context.host(name) for name in names]
    refuse_unkeepable(settings.stop, hosts, time.time())
    told = record.settings.get("parallel")
    parallel = options.parallel or (told if isinstance(told, int) else None)
    cells = _confirmed(context, draft, hosts, parallel, options, known)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with contextlib.ExitStack() as closing:
        sessions: dict[str, HostSession] = {
            host.name: closing.enter_context(context.session(host.name)) for host in hosts
        }
        asked = Asked(
            name=record.name,
            title=record.title,
            experiment=path,
            cells=cells,
            sessions=sessions,
            home=context.home,
            database=context.database,
            profile=options.profile or _text(record.settings.get("profile")),
            parallel=parallel,
            settings=record.settings,
        )
        if options.dry_run:
            return dry_run(asked, reporter, as_json=options.json)
        outcome = extend_sweep(asked, caller(reporter), lambda plan: say_plan(reporter, asked, plan))
    return announce(context, outcome, options, reporter)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _known(record: SweepRecord, cells: Sequence[CellStanding]) -> Known:
    """The cells that a sweep has. One that may not have been handed over is asked for again, under its number."""
    from armada.sweeps.cells import Known
    from armada.sweeps.equal_cells import identity

    pending = {
        identity(cell.values): cell.run.cell or 0 for cell in cells if cell.run.state in ("preparing", "unknown")
    }
    done = [cell.values for cell in cells if identity(cell.values) not in pending]
    told = record.settings.get("last")
    last = max([told if isinstance(told, int) else 0, *(cell.run.cell or 0 for cell in cells)])
    return Known(done, pending, last)


def _former_words(record: SweepRecord, options: argparse.Namespace) -> tuple[Path, Words]:
    """The experiment of a sweep, and the new words; what was overridden at the launch stays overridden.

    Raises:
        UsageError: Nothing is to be added, or the experiment's file is not known.
    """
    import dataclasses

    if not (options.grid or options.random):
        raise UsageError("armada sweep extend needs new cells", hint="--grid train.seed=4,5, or --random 10 --seed 1")
    if record.experiment is None:
        why = "only the lost store knew the experiment file of"
        raise UsageError(f"{why} {record.name}", hint="armada sweep EXPERIMENT launches another sweep")
    if not Path(record.experiment).is_file():
        raise UsageError(f"the experiment file of {record.name} is no longer there: {record.experiment}")
    words = _words(options)
    before = record.settings.get("overrides")
    former = [str(each) for each in before] if isinstance(before, list) else []
    # Only what is named now is added: the file's own cells are in the sweep already.
    overrides = [*former, *words.overrides, "sweep.grid={}", "sweep.cells=[]"]
    space = record.settings.get("space")
    drawn = [*map(str, space), *words.space] if isinstance(space, list) else list(words.space)
    if words.random is None:
        overrides.append("sweep.random=null")
        drawn = []
    return Path(record.experiment), dataclasses.replace(words, overrides=overrides, space=drawn)


def _confirmed(
    context: Context,
    draft: Draft,
    hosts: Sequence[Host],
    parallel: int | None,
    options: argparse.Namespace,
    known: Known | None = None,
    search: SearchCells | None = None,
) -> list[Cell]:
    """Expand the cells, after a person has agreed to a large number of them.

    Raises:
        UsageError: The person says no, nobody is there to ask, or there are far too many.
    """
    from armada.store.queries.tariffs import gpu_counts
    from armada.sweeps.cells import MOST_CELLS, expand
    from armada.sweeps.estimate import ASK_ABOVE, estimate, question
    from armada.sweeps.search import first_cells

    if draft.count > ASK_ABOVE and not options.dry_run:
        counts = gpu_counts(context.database)
        held, processes = _held(draft)
        room = _room(context, hosts, held, processes)
        at_once = parallel or (search.at_once if search is not None else None) or room
        found = estimate(draft.count, hosts, at_once, _time_limit_s(draft), counts, held)
        words = question(str(draft.document.data.get("name") or "this sweep"), found)
        if draft.count > MOST_CELLS:
            raise UsageError(f"{words} A sweep has at most {MOST_CELLS:,} cells", hint=_fewer(draft))
        if not options.yes:
            confirm(f"{words} Launch it?", nothing="nothing was launched")
    cells = expand(draft, known) if search is None else first_cells(draft, search)
    if not cells:
        hint = "--seed N draws others" if options.random else "give other values"
        raise UsageError("all of these cells are in the sweep already", hint=hint)
    return cells


def _fewer(draft: Draft) -> str:
    return "--random 200 with --space draws some of them" if draft.sweep.grid else "fewer --random"


def _room(context: Context, hosts: Sequence[Host], held: int | None, processes: int) -> int:
    """How many cells the hosts have room for, by what they had when they were last seen; at least one on each."""
    from armada.protocol.recorded import recorded_facts
    from armada.store import hosts as host_records
    from armada.sweeps.estimate import room_on

    room = 0
    for host in hosts:
        record = host_records.find(context.database, host.name)
        told = record.facts if record is not None else None
        cores = (told or {}).get("cpu_count")
        known = cores if isinstance(cores, int) else 1
        room += room_on(len(recorded_facts(told).gpus or ()), known, held, processes)
    return room


def _held(draft: Draft) -> tuple[int | None, int]:
    """GPUs (None for all) and processes of a cell, as they are written; the cells are not validated yet."""
    from armada.config.tasks.registry import models

    resources = draft.document.data.get("resources")
    told = resources if isinstance(resources, dict) else {}
    gpus, processes = told.get("gpus"), told.get("processes")
    if not isinstance(gpus, int):
        task = models().get(str(draft.document.data.get("task")))
        gpus = 0 if gpus is None and task is not None and not task.takes_gpus else None
    return gpus, processes if isinstance(processes, int) else 1


def _time_limit_s(draft: Draft) -> float | None:
    """`resources.time_limit`, as it is written; the cells are not validated yet."""
    from armada.units import duration_s

    resources = draft.document.data.get("resources")
    told = resources.get("time_limit") if isinstance(resources, dict) else None
    try:
        return duration_s(told) if isinstance(told, str) else None
    except ValueError:
        return None


def _settings(draft: Draft, options: argparse.Namespace, parallel: int | None) -> dict[str, object]:
    return {
        # Search and pruning have places of their own: former releases refuse a `sweep` with a key that they do not know.
        "sweep": draft.sweep.model_dump(mode="json", exclude={"search", "prune"}, exclude_defaults=True),
        "parallel": parallel,
        "profile": options.profile,
        "overrides": [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])],
        "space": list(options.space),
    }
