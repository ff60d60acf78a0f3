"""`armada costs`: what runs, sweeps, hosts and weeks cost, and what nobody used."""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.foundation.sanitize import sanitize_line
from armada.foundation.spreadsheet import plain_cell
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.compare.costs import CostReport
    from armada.costs.amounts import Amounts
    from armada.costs.report import HostCost

_WEEKS = 8


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "costs",
        help="Show what runs, sweeps, hosts and weeks cost",
        description="Show what hosts cost since they are rented, what runs used of that, and what nobody used. Asks no host. "
        "Two currencies are never added; a price that is not known is never counted as 0.",
    )
    parser.add_argument("--host", action="append", default=[], metavar="HOST", help="Only this host; repeatable")
    view = parser.add_mutually_exclusive_group()
    view.add_argument("--week", action="store_true", help=f"A row for each host and week, {_WEEKS} weeks back")
    view.add_argument(
        "--run", nargs="?", const="", metavar="RUN", help="A row for each run, or for this one, with a forecast"
    )
    view.add_argument("--sweep", action="store_true", help="A row for each sweep")
    parser.add_argument(
        "--csv", action="store_true", help="Print the rows as CSV, an amount and its currency in each row"
    )
    parser.add_argument("--json", action="store_true", help="Print a JSON object with all of it")
    parser.set_defaults(handler=_costs)


def _costs(options: argparse.Namespace) -> int:
    from armada.cli.context import Context, choose_host
    from armada.compare.costs import gather_costs
    from armada.store import runs

    context = Context(reads=True)
    with_runs = {run.host for run in runs.every(context.database)} if options.host else set()
    for name in options.host:
        if name not in with_runs:
            choose_host(context.hosts(), name)
    chosen = context.run(options.run) if options.run else None
    report = gather_costs(context, hosts=options.host, run_id=chosen.run_id if chosen else None, weeks=_WEEKS)
    if options.json:
        print_json(report.as_json())
        return 0
    view = "week" if options.week else "run" if options.run is not None else "sweep" if options.sweep else "host"
    if options.csv:
        sys.stdout.write(_as_csv(report, view))
        return 0
    _print(report, view)
    for each in report.allowances:
        print(f"{each.host}: {each.granted.text(each.used)} used by this home's runs")
    for note in (*report.notes, *(report.box_notes if view in ("host", "week") else ())):
        print(f"({sanitize_line(note, 300)})")
    return 0


def _print(report: CostReport, view: str) -> None:
    from armada.cli.table import table

    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = []
    if view == "run":
        header = ("RUN", "HOST", "STATE", "TIME", "COST", "AT ITS END", "GPU-HOURS")
        for run in report.runs:
            later = _shown(run.forecast) if run.forecast is not None else "—"
            rows.append(
                (run.run_id, run.host, run.state, span(run.lasted_s), _shown(run.cost), later, _hours(run.gpu_hours))
            )
    elif view == "sweep":
        header = ("SWEEP", "RUNS", "COST", "GPU-HOURS")
        rows += [(each.name, str(each.runs), _shown(each.cost), _hours(each.gpu_hours)) for each in report.sweeps]
    else:
        header = ("HOST", "SINCE", "COST", "RUNS", "UNUSED GPUS", "IDLE", "GPU-HOURS", "RUN-HOURS")
        rows += [_host_row(each) for each in (report.weeks if view == "week" else report.hosts)]
    if not rows:
        print("Nothing to count yet: no runs, and no host with a price.")
        return
    print(table(header, rows))
    if view == "host" and report.total.is_known:
        print(f"total {report.total.text()}; in the last 7 days {report.week.text() or 'nothing'}")


def _host_row(found: HostCost) -> tuple[str, ...]:
    unused, idle = "—", "—"
    if found.idle is not None:
        unused, idle = _shown(found.unused), f"{_shown(found.idle)} ({span(found.idle_s)})"
    hours = (_hours(found.gpu_hours), _hours(found.node_hours))
    return (found.host, _day(found.since), _shown(found.whole), _shown(found.runs), unused, idle, *hours)


def _as_csv(report: CostReport, view: str) -> str:
    """One row for each currency; an amount that is not known is empty."""
    rows: list[tuple[object, ...]] = []
    if view == "run":
        rows.append(("run", "host", "state", "seconds", "gpu_hours", "currency", "cost", "forecast"))
        for run in report.runs:
            first = (
                plain_cell(run.run_id),
                plain_cell(run.host),
                run.state,
                round(run.lasted_s, 3),
                round(run.gpu_hours, 4),
            )
            found = _currencies(run.cost, run.forecast)
            rows += [(*first, each, _amount(run.cost, each), _amount(run.forecast, each)) for each in found]
    elif view == "sweep":
        rows.append(("sweep", "runs", "gpu_hours", "currency", "cost"))
        for sweep in report.sweeps:
            named = (plain_cell(sweep.name), sweep.runs, round(sweep.gpu_hours, 4))
            rows += [(*named, each, _amount(sweep.cost, each)) for each in _currencies(sweep.cost)]
    else:
        figures = ("gpu_hours", "run_hours", "idle_s", "currency", "cost", "runs", "unused", "idle")
        rows.append(("host", "since", "until", *figures))
        for host in report.weeks if view == "week" else report.hosts:
            hours = (round(host.gpu_hours, 4), round(host.node_hours, 4), round(host.idle_s, 3))
            for each in _currencies(host.whole):
                parts = [_amount(part, each) for part in (host.whole, host.runs, host.unused, host.idle)]
                rows.append((plain_cell(host.host), _moment(host.since), _moment(host.until), *hours, each, *parts))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _currencies(*found: Amounts | None) -> Sequence[str]:
    return sorted({currency for each in found if each is not None for currency in each.by_currency}) or [""]


def _amount(found: Amounts | None, currency: str) -> str:
    return f"{found.by_currency[currency]:.4f}" if found is not None and currency in found.by_currency else ""


def _shown(found: Amounts | None) -> str:
    return (found.text() if found is not None else "") or "?"


def _hours(hours: float) -> str:
    return f"{hours:,.1f}"


def _day(moment: float | None) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment)) if moment is not None else "never seen"


def _moment(moment: float | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) if moment is not None else ""
