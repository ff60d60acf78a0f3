"""`armada report`: runs in one HTML file, to read without armada and to give to others."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from armada.cli.compare import add_metrics, facts_of, metric_names
from armada.cli.options import add_named_runs
from armada.cli.printing import print_json
from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted

if TYPE_CHECKING:
    import argparse

    from armada.cli.context import Context
    from armada.compare.gather import Comparison
    from armada.compare.marks import Kind
    from armada.compare.report.page import Curves, Report

_MOST_CHARTS = 24


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        help="Write a report of runs as one HTML file",
        description="Write one HTML file with the curves of runs, their metrics, time, cost, settings and samples, and "
        "how to reproduce them. The file loads nothing and needs no network. No host is asked.",
        epilog="example: armada report RUN RUN --html report.html",
    )
    add_named_runs(parser)
    parser.add_argument("--html", required=True, metavar="FILE", help="New file for the report; - prints it")
    add_metrics(parser, default=f"the first {_MOST_CHARTS}")
    parser.add_argument("--title", metavar="TEXT", help="Heading of the report (default: the runs' names)")
    parser.add_argument("--force", action="store_true", help="Replace the file if it exists")
    parser.add_argument("--json", action="store_true", help="Print a JSON object: the runs, and where the report is")
    parser.set_defaults(handler=_report)


def _report(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.compare.new_file import check_new_file, new_file
    from armada.compare.report.page import compose

    context = Context(reads=True)
    printed = options.html == "-"
    if printed and options.json:
        raise UsageError("--html - prints the report, so there is no room for --json", hint="--html FILE")
    path = None if printed else check_new_file(options.html, "--html", context.home, force=options.force)
    report = _gather(context, options)
    page = compose(report).encode("utf-8", "replace")
    if path is None:
        sys.stdout.buffer.write(page)
        return 0
    with new_file(path, force=options.force) as temporary:
        temporary.write_bytes(page)
    if options.json:
        ids = [summary.run.run_id for summary in report.found.runs]
        print_json({"runs": ids, "to": str(path), "size_bytes": len(page), "metrics": list(report.found.metrics)})
    else:
        print(
            f"report of {counted(len(report.found.runs), 'run')} written to {sanitize_line(path, 1000)} ({amount(len(page))})"
        )
    return 0


def _gather(context: Context, options: argparse.Namespace) -> Report:
    from armada.cli.several import choose_runs
    from armada.compare.gather import gather
    from armada.compare.metrics import in_order
    from armada.compare.report.page import Report
    from armada.compare.report.samples import read_samples
    from armada.compare.settings import differences
    from armada.store import metrics

    chosen = choose_runs(context, options, some=True)
    names = metric_names(options)
    if not names:
        names = in_order({name for run in chosen for name in metrics.names(context.database, run.run_id)})[
            :_MOST_CHARTS
        ]
    found = gather(
        context.database,
        context.home,
        context.hosts(),
        chosen,
        names=names,
        now=time.time(),
    )
    names_of = dict.fromkeys(run.name for run in chosen)
    return Report(
        title=options.title or (", ".join(names_of) if len(names_of) <= 3 else f"{len(chosen)} runs"),
        made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time())),
        found=found,
        facts=_facts(found),
        settings=tuple(differences([summary.spec for summary in found.runs], everything=True)),
        curves=[_curves(context, run.run_id, found.metrics) for run in chosen],
        marks=[_marks(context, run.run_id, found.metrics) for run in chosen],
        samples=[read_samples(context.home.run(run.run_id) / "outputs" / "samples.jsonl") for run in chosen],
    )


def _facts(found: Comparison) -> list[tuple[str, list[str]]]:
    """Return the facts of the comparison without the settings, which have a table of their own."""
    from armada.compare.metrics import chosen_metrics

    settings = {sanitize_line(each.key, 60) for each in found.settings}
    facts = facts_of(found, chosen_metrics(found.metrics) or found.metrics[:3])
    hosts = ("host", [summary.run.host for summary in found.runs])
    return [hosts, *((name, values) for name, values in facts if name not in settings)]


def _curves(context: Context, run_id: str, names: tuple[str, ...]) -> Curves:
    from armada.store.queries.curves import read_curve

    return {
        name: [(step, value) for step, _, value in read_curve(context.database, run_id, name, outline=True)]
        for name in names
    }


def _marks(context: Context, run_id: str, names: tuple[str, ...]) -> dict[str, list[tuple[float, Kind]]]:
    from armada.store import transitions
    from armada.store.queries.curve_marks import read_gaps, read_resumes

    moments = transitions.resumes(context.database, run_id)
    return {
        name: [
            *((step, "gap") for step in read_gaps(context.database, run_id, name)),
            *((step, "resumed") for step in read_resumes(context.database, run_id, name, moments)),
        ]
        for name in names
    }
