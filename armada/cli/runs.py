"""`armada ps`, and how one run is described in a line."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.disks import say_full_soon
from armada.cli.missing_home import count_missing
from armada.cli.printing import FORMAT
from armada.cli.run_filter import RunFilter, add_filters
from armada.errors import OutcomeUnknown, RunFailed
from armada.foundation.sanitize import sanitize_line
from armada.units import clock, counted, span
from armada.verdicts.states import STATE_GLYPHS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from armada.cli.columns import ColumnTable
    from armada.cli.context import Context
    from armada.costs.amounts import Amounts
    from armada.records.launch_price import Prices
    from armada.store.runs import Run


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ps = commands.add_parser(
        "ps", help="List runs", description="Ask the hosts for the state of their runs and list them, newest first."
    )
    ps.add_argument("--cached", action="store_true", help="List what the local database holds; ask no host")
    ps.add_argument("--all", "-a", action="store_true", help="Also list runs that ended more than a day ago")
    add_filters(ps)
    ps.add_argument(
        "--view", metavar="NAME", help="Filter, and columns, of a view that was saved in the dashboard (V on Runs)"
    )
    ps.add_argument(
        "--columns",
        metavar="KEY,…",
        help="Show these columns: facts of runs, settings and metrics, such as id,state,lr,eval_loss,cost; or `default`",
    )
    ps.add_argument("--remember", action="store_true", help="Show these columns from now on, here and in the dashboard")
    ps.add_argument(
        "--unfold", action="store_true", help="List the runs of sweeps one by one, not a row for each sweep"
    )
    ps.add_argument("--why", action="store_true", help="Show the evidence for each state")
    ps.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    ps.set_defaults(handler=_ps)


def summary(run: Run) -> dict[str, object]:
    """A run as `--json` shows it."""
    internal = {
        "metrics_offset",
        "events_offset",
        "seq",
        "root_id",
        "wiped_root",
        "seen_boot",
        "seen_at_s",
        "alive_at",
        "less_boot",
        "less_since_s",
        "told_at",
        "revised_at",
    }
    fields = {name: value for name, value in zip(run._fields, run, strict=True) if name not in internal}
    return {"format": FORMAT, **fields, "eta_s": run.eta_s}


def seen(run: Run, now: float) -> str:
    """Say how old a run's state is, and since when its host is unreachable."""
    if run.unreachable_since is not None:
        return f"unreachable since {clock(run.unreachable_since, time.time())}"
    return f"{span(now - run.observed_at)} ago" if run.observed_at is not None else "not yet"


def condition(run: Run) -> str:
    words = run.state if not run.reason or run.state == "succeeded" else f"{run.state}: {run.reason}"
    return f"{STATE_GLYPHS.get(run.state, '?')} {words}"


def _ps(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.store import hosts

    context = Context(reads=True)
    if options.view is not None:
        _apply_view(options, context)
    wanted = RunFilter.of(options, context)
    columns = None if options.json else _columns(options, wanted, context)
    if not (options.cached or context.is_read_only):
        with context.unless_full():
            _observe(context, wanted)
    found, archived = wanted.find(context)
    if not found and (words := context.forgotten()) is not None:
        sys.stderr.write(f"armada: {words}\n  → armada recover finds them again\n")
    disks = {record.name: record.forecast for record in hosts.every(context.database) if record.forecast is not None}
    prices = context.prices()
    if options.json:
        full = {name: forecast.full_at for name, forecast in disks.items()}
        shown = found[: options.limit]
        now = time.time()
        listed = [
            {
                **summary(run),
                "host_disk_full_at": None if run.ended else full.get(run.host),
                "costs": _cost(context, run, prices, now).as_json(),
            }
            for run in shown
        ]
        print("[" + ",\n ".join(map(json.dumps, listed)) + "]")  # a run a line; `indent` is slow
        return 0
    now = time.time()
    every = options.all or wanted.expression is not None
    recent = [run for run in found if every or not run.ended or now - (run.ended_at or run.created_at) < 86_400]
    if not recent:
        _say_none(len(found), wanted, archived)
        return 0
    single = options.unfold or options.why or columns is not None or wanted.expression is not None
    groups = [[run] for run in recent] if single else _fold(recent)
    shown_groups = groups[: options.limit]
    shown = [run for group in shown_groups for run in group]
    if columns is not None:
        print(columns.draw(shown))
    else:
        costs = [_cost_of_row(context, group, found, prices, now) for group in shown_groups]
        sweeps = {run.sweep for run in shown if run.sweep is not None}
        counted_in = [] if options.why else [*shown, *(run for run in found if run.sweep in sweeps)]
        missing = count_missing(context.database, counted_in)
        _print_table(shown_groups, found, now, costs, missing, why=options.why)
    _say_launchers(context, shown)
    busy = {run.host for run in found if not run.ended}
    say_full_soon({name: forecast for name, forecast in disks.items() if name in busy}, now)
    _say_unfinished(context, now)
    _say_unwatched(context, found, now)
    hidden = len(groups) - len(shown_groups)
    notes = [f"{hidden} more: --limit {options.limit} hides {'it' if hidden == 1 else 'them'}"] if hidden else []
    notes += [f"{len(found) - len(recent)} older: armada ps --all"] if len(recent) < len(found) else []
    notes += [f"{archived} archived: armada ps --archived"] if archived else []
    if notes:
        print(f"({'; '.join(notes)})")
    return 0


def _say_unwatched(context: Context, found: Sequence[Run], now: float) -> None:
    """Say that no daemon watches; a run that was launched just now may have one that only starts."""
    from armada.cli.unwatched import STARTS_S, say_unwatched

    active = [run.host for run in found if not run.ended and now - run.created_at > STARTS_S]
    say_unwatched(context, active, lambda count: f"watches {counted(count, 'active run')}")


def _observe(context: Context, wanted: RunFilter) -> None:
    """Ask hosts about the runs that may be listed and have not ended; name each host that could not be asked."""
    from armada.daemon.status import seen_hosts
    from armada.monitor.observe import observe_all
    from armada.store import runs
    from armada.store.running_operations import being_launched

    launching = being_launched(context.database)
    unsure = [run for run in runs.every(context.database, watched=True) if wanted.may_match(run)]
    unsure = [run for run in unsure if run.state != "preparing" or run.run_id not in launching]
    configured = context.home.hosts_file.exists() or (Path.cwd() / "armada.yaml").exists()
    hosts_known = context.hosts_of_runs(*unsure) if unsure or configured else {}  # reading them costs 0.2 s
    watched = seen_hosts(context.home)  # by a daemon, just now: its word is in the store
    unsure = [run for run in unsure if run.host not in watched]
    for name, why in (observe_all(context.home, hosts_known, unsure) if unsure else {}).items():
        sys.stderr.write(f"armada: {name}: {sanitize_line(why)}\n")


def _cost(context: Context, run: Run, prices: Prices, now: float) -> Amounts:
    """What a run cost; nothing known without a price, or before it began."""
    from armada.costs.amounts import Amounts
    from armada.store.queries.uses import read_use

    tariff = prices.of(run) if run.started_at is not None else None
    if tariff is None:
        return Amounts()
    return read_use(context.database, run, now).cost(tariff)


def _cost_of_row(context: Context, group: Sequence[Run], found: Sequence[Run], prices: Prices, now: float) -> Amounts:
    """What a row's run cost, or its sweep: of a sweep all of its runs count, and an hour of a box counts once."""
    from armada.costs.amounts import Amounts
    from armada.costs.report import cost_so_far
    from armada.store.queries.uses import read_uses

    if len(group) == 1:
        return _cost(context, group[0], prices, now)
    begun = [run for run in found if run.sweep == group[0].sweep and run.started_at is not None]
    known = prices.by_host(begun)
    own = [run for run in begun if run.host in known]
    return cost_so_far(read_uses(context.database, own, now), known) or Amounts()


def _print_table(
    groups: Sequence[Sequence[Run]],
    found: Sequence[Run],
    now: float,
    costs: Sequence[Amounts],
    missing: Counter[str],
    *,
    why: bool,
) -> None:
    """Print a row for each run that stands alone, and one for each sweep.

    Args:
        groups: The runs of each row.
        found: All runs.
        now: Unix time.
        costs: Of each row; empty without prices.
        missing: Of each run, how many recorded checkpoints are not seen at home.
        why: Show the evidence instead.
    """
    from armada.cli.table import fit, table

    if why:
        print(table(("RUN", "HOST", "STATE", "SEEN", "BECAUSE"), [_evidence(run, now) for (run,) in groups]))
        return
    labels = [group[0].labels_text if len(group) == 1 else "" for group in groups]
    header: tuple[str, ...] = ("RUN", "HOST", "STATE", "STEP", "LOSS", "TOK/S", "HOME", "SEEN")
    rows = [
        _row(group[0], now, missing) if len(group) == 1 else _sweep_row(group, found, now, missing) for group in groups
    ]
    if any(each.is_known for each in costs):
        paid = [each.text() or "—" for each in costs]
        header, rows = (*header, "COST"), [(*row, cost) for row, cost in zip(rows, paid, strict=True)]
    if any(labels):
        header, rows = (*header, "LABELS"), [(*row, label) for row, label in zip(rows, labels, strict=True)]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        header, rows = fit(header, rows, room, cut="LABELS", least=12, drop=("TOK/S", "LOSS", "SEEN"))
    print(table(header, rows))


def _apply_view(options: argparse.Namespace, context: Context) -> None:
    """Add the filter of a saved view to the one of the command line, and take its columns unless others are given.

    Raises:
        NotFound: There is no such view.
    """
    from armada.tui import views

    view = views.find(context.home, options.view)
    options.expression = [*([f"({view.filter})"] if view.filter else []), *options.expression]
    if options.columns is None and view.columns:
        options.columns = ",".join(view.columns)


def _columns(options: argparse.Namespace, wanted: RunFilter, context: Context) -> ColumnTable | None:
    """The columns to show; None for the default table."""
    from armada.tui import remembered

    if options.columns is None and not options.remember and (options.why or not remembered.columns(context.home)):
        return None
    from armada.cli.columns import chosen_columns
    from armada.filters.run_facts import RunFacts

    return chosen_columns(options.columns, wanted.facts or RunFacts(context), context.home, remember=options.remember)


def _say_none(older: int, wanted: RunFilter, archived: int) -> None:
    """Say that no run is listed, and where older ones are."""
    which = "No runs" if wanted.is_empty else "No such runs"
    if older:
        print(f"{which} in the last day; {older} older: armada ps --all")
        return
    hidden = f" {archived} archived: armada ps --archived" if archived else ""
    print(f"{which}.{hidden}")
    if wanted.is_empty and not hidden:
        print("Start one with: armada launch --host local quickstart --follow")


def _say_launchers(context: Context, shown: Sequence[Run]) -> None:
    """Name the other homes that launched runs."""
    from armada.home import own
    from armada.store import runs

    others = {} if context.is_read_only else runs.launchers(context.database, own(context.home).id)
    for label in sorted({others[run.run_id] for run in shown if run.run_id in others}):
        print(f"launched by {label}: {', '.join(run.run_id for run in shown if others.get(run.run_id) == label)}")


def _row(run: Run, now: float, missing: Counter[str]) -> tuple[str, ...]:
    step = "—" if run.step is None else f"{run.step}/{run.total_steps}" if run.total_steps else str(run.step)
    loss = run.loss_text or "—"
    speed = "—" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}"
    there = max(run.checkpoints_host, run.checkpoints_home)
    kept = f"{run.checkpoints_home - missing[run.run_id]} of {there}" if there else "—"
    return (run.run_id, run.host, condition(run), step, loss, speed, kept, seen(run, now))


def _fold(found: Sequence[Run]) -> list[list[Run]]:
    """Put the runs of each sweep together, where its newest one stands."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        groups.setdefault(f"sweep {run.sweep}" if run.sweep is not None else run.run_id, []).append(run)
    return list(groups.values())


def _sweep_row(cells: Sequence[Run], found: Sequence[Run], now: float, missing: Counter[str]) -> tuple[str, ...]:
    """One row for a sweep: all of its runs count, also those that ended long ago."""
    from armada.sweeps.counts import count_states, newest_runs

    sweep = cells[0].sweep or ""
    own = newest_runs(
        sorted((run for run in found if run.sweep == sweep), key=lambda run: (run.cell or 0, run.created_at))
    )
    hosts = sorted({run.host for run in own})
    where = ",".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
    kept, there = (
        sum(run.checkpoints_home - missing[run.run_id] for run in own),
        sum(max(run.checkpoints_host, run.checkpoints_home) for run in own),
    )
    oldest = min(own, key=lambda run: run.observed_at if run.observed_at is not None and not run.ended else now)
    home = f"{kept} of {there}" if there else "—"
    return (f"{sweep} ({len(own)} cells)", where, count_states(own), "—", "—", "—", home, seen(oldest, now))


def _say_unfinished(context: Context, now: float) -> None:
    import shlex

    from armada.store.running_operations import unfinished

    for each in unfinished(context.database, now):
        what = f"{each.kind}{f' of {each.run_id}' if each.run_id else ''}{f' on {each.host}' if each.host else ''}"
        again = sanitize_line(shlex.join(["armada", *each.argv[1:]]), 200)
        print(
            f"⚠ {what} was interrupted {span(now - each.updated_at)} ago. Run the same command again to continue: {again}"
        )


def _evidence(run: Run, now: float) -> tuple[str, ...]:
    because = run.because or "not checked yet"
    if run.unreachable_since is not None:
        because += f" (before {run.host} stopped answering: {sanitize_line(run.unreachable_why, 80)})"
    return (run.run_id, run.host, condition(run), seen(run, now), because)


def verdict(run: Run) -> int:
    """Return the exit code of a run that was followed to its end: 0 if it succeeded.

    Raises:
        OutcomeUnknown: Its end is only guessed.
        RunFailed: It did not succeed.
    """
    if run.is_guess:
        raise OutcomeUnknown(
            f"it is unknown whether {run.run_id} has ended: no end was recorded, and the scheduler no longer lists its job",
            hint=f"armada why {run.run_id}; armada corrects this by itself if the run turns up again",
            host=run.host,
        )
    if run.state != "succeeded":
        raise failure(run)
    return 0


def failure(run: Run) -> RunFailed:
    """Make the error for a run that did not succeed."""
    return RunFailed(
        f"{run.run_id} {run.state}: {run.reason or 'no reason recorded'}"
        + (f" ({run.message})" if run.message else ""),
        hint=f"armada why {run.run_id}",
        host=run.host,
    )
