"""`armada hosts reap`: end the processes that ended runs left on a host."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from armada.cli.options import add_host_name, seconds
from armada.cli.printing import print_json
from armada.errors import Conflict
from armada.foundation.sanitize import sanitize_line
from armada.units import counted, counted_processes, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.launch.reap import Orphaned

_LISTED = 5
"""Processes that are listed of each run."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    reap = verbs.add_parser(
        "reap",
        help="End the processes that ended runs left on a host",
        description="List processes of runs that have ended on a host, or whose folder there was removed, and that live "
        "on without a supervisor: they may hold GPUs. Ends them after a question. A run without a recorded end is listed "
        "and left alone, as is one on a disk that may not be mounted.",
    )
    add_host_name(reap)
    reap.add_argument("runs", nargs="*", metavar="RUN", help="Only the processes of these runs")
    reap.add_argument(
        "--grace", type=seconds, metavar="S", default=10.0, help="Seconds between SIGTERM and SIGKILL (default: 10)"
    )
    reap.add_argument("--dry-run", action="store_true", help="Only list them")
    reap.add_argument("--yes", "-y", action="store_true", help="End them without asking")
    reap.add_argument("--json", action="store_true", help="Print a JSON object")
    reap.set_defaults(handler=_reap)


def _reap(options: argparse.Namespace) -> int:
    from armada.cli.asking import confirm
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.launch.reap import look, reap
    from armada.store.running_operations import operation

    context = Context()
    host = context.host(options.name)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with context.session(host.name, patience_s=20) as session:
        found, more = look(context.database, session, options.runs)
        wanted = [each for each in found if each.left.may_be_ended]
        count = counted_processes(sum(each.entry.count for each in wanted))
        if not options.json:
            for line in _lines(found, more, host.name):
                reporter.line(line)
        refused: list[str] = []
        if wanted and not options.dry_run:
            if not options.yes:
                confirm(f"End {count} of {counted(len(wanted), 'run')} on {host.name}?", nothing="nothing was ended")
            with operation(context.database, kind="reap", host=host.name, argv=sys.argv) as recorded:
                progress = recorded.and_tell(reporter)
                refused = reap(
                    context.database, session, wanted, options.grace, lambda words: progress.now("ending", words)
                )
            reporter.clear()
    ends = bool(wanted) and not options.dry_run
    if options.json:
        print_json(_told(host.name, found, more, ended=ends, refused=refused))
    if refused:
        raise Conflict("; ".join(refused), hint="run the command again to see what is left", host=host.name)
    if ends and not options.json:
        reporter.line(f"ended on {host.name}: {count}")
    return 0


def _lines(found: Sequence[Orphaned], more: int, host: str) -> Iterator[str]:
    if not found:
        yield f"{host}: no processes without a supervisor"
    for each in found:
        yield f"{'✗' if each.left.may_be_ended else '·'} {each.run_id}: {each.what}; {each.count}"
        for process in each.entry.processes[:_LISTED]:
            gpus = f", GPU {', '.join(map(str, process.gpus))}" if process.gpus else ""
            yield f"    {process.pid} {sanitize_line(process.name, 30)}, for {span(process.age_s)}{gpus}"
        if each.entry.count > _LISTED:
            yield f"    and {each.entry.count - _LISTED:,} more"
        if each.hint is not None:
            yield f"    → {each.hint}"
    if more:
        yield f"and {counted(more, 'run')} more: run the command again afterwards"


def _told(host: str, found: Sequence[Orphaned], more: int, *, ended: bool, refused: Sequence[str]) -> dict[str, object]:
    listed = [
        {
            "run_id": each.run_id,
            "left": each.left.value,
            "what": each.what,
            "hint": each.hint,
            "may_be_ended": each.left.may_be_ended,
            "count": each.entry.count,
            "processes": [process.model_dump(mode="json") for process in each.entry.processes],
        }
        for each in found
    ]
    return {"host": host, "runs": listed, "more": more, "ended": ended, "refused": list(refused)}
