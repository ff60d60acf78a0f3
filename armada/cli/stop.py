"""`armada stop`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from armada.cli.homes import add_flag, ask_owner
from armada.cli.options import add_named_runs, seconds
from armada.cli.several import Handled, Patience, choose_runs, handle_runs
from armada.errors import ArmadaError, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.foundation.progress import Progress
    from armada.store.running_operations import OperationProgress
    from armada.store.runs import Run

_HOSTS_AT_ONCE = 32


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    stop = commands.add_parser(
        "stop",
        help="Stop runs",
        description="Stop runs: send SIGTERM, wait for the grace period, then send SIGKILL. "
        "Several runs are told at once.",
    )
    add_named_runs(stop, asks=True)
    stop.add_argument("--grace", type=seconds, metavar="S", help="Grace period in seconds (default: the experiment's)")
    add_flag(stop)
    stop.add_argument(
        "--json",
        action="store_true",
        help="Print a JSON object: the run after it ended. Of several runs, print all in one list",
    )
    stop.set_defaults(handler=_stop)


def _stop(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.cli.runs import condition, summary
    from armada.store.runs import OWN_WORD

    context = Context(tells=True)
    chosen = choose_runs(context, options, asks="stop", active=True)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    patience = Patience(60.0)
    refused: dict[str, ArmadaError] = {}

    def handle(run: Run) -> Handled:
        if run.run_id in refused:
            raise refused[run.run_id]
        had_ended = run.ended and not run.is_guess
        ended: Run | None = None
        if not context.is_unrecorded:
            with context.unless_full():
                ended = _end(context, run, options.grace, patience, reporter)
        if ended is None:
            ended = _end(context, run, options.grace, patience, reporter)
        if context.is_unrecorded and not had_ended and ended.because == OWN_WORD:
            raise NotFound(
                f"{run.host} has no records of {run.run_id}, and home has no room to record that you stopped it",
                hint=f"armada stop {run.run_id}  # when there is room",
                host=run.host,
            )
        note = "" if ended.state == "cancelled" and not had_ended else " (it had already ended)"
        return Handled(summary(ended), (f"{run.run_id}: {condition(ended)}{note}",))

    for run in chosen:
        try:
            ask_owner(context, run, options, "stop")
        except ArmadaError as error:
            if len(chosen) == 1 and options.where is None:
                raise
            refused[run.run_id] = error
    told: set[str] = set()
    if len(chosen) > 1:
        asked = [run for run in chosen if run.run_id not in refused]
        is_done = False
        with context.unless_full(), _recorded(context, None):
            _tell_all(context, asked, options.grace, told)
            is_done = True
        if not is_done:  # home's disk turned out to be full
            _tell_all(context, asked, options.grace, told)
    return handle_runs(
        chosen,
        handle,
        undone=lambda run: _left(run, told),
        reporter=reporter,
        as_json=options.json,
        listed=options.where is not None,
    )


def _recorded(context: Context, run: Run | None) -> AbstractContextManager[OperationProgress | None]:
    """Record the work inside as an operation, if home's disk has room for that."""
    from armada.store.running_operations import operation

    if context.is_unrecorded:
        return contextlib.nullcontext()
    run_id, host = (run.run_id, run.host) if run is not None else (None, None)
    return operation(context.database, kind="stop", run_id=run_id, host=host, argv=sys.argv)


def _end(context: Context, run: Run, grace_s: float | None, patience: Patience, reporter: Reporter) -> Run:
    """Stop one run and wait for its end. Can be repeated."""
    from armada.launch.stop import stop_run

    looks = run.ended and not run.is_guess
    with (
        _recorded(context, run) as recorded,
        patience.for_host(run.host) as patience_s,
        context.session_of(run, patience_s=patience_s, looks=looks) as session,
    ):
        progress: Progress = reporter if recorded is None else recorded.and_tell(reporter)
        return stop_run(context.database, session, run, grace_s, lambda text: progress.now("stopping", text))


def _left(run: Run, told: set[str]) -> str:
    """What an interruption left of a run that was to be stopped."""
    if run.run_id in told:
        return "it was told to stop, but its end was not awaited. `armada ps` shows it"
    return "it was not stopped"


def _tell_all(context: Context, chosen: Sequence[Run], grace_s: float | None, told: set[str]) -> None:
    """Tell all hosts at once to stop their runs, so that the grace periods pass together.

    What fails here fails again, and is reported, when each run's end is awaited: a request to stop can be repeated.

    Args:
        context: The command's.
        chosen: The runs; those that have ended already are told nothing.
        grace_s: Seconds between SIGTERM and SIGKILL; None for what each spec says.
        told: Gets the ids of the runs whose host took the request.
    """
    from armada.launch.stop import request_of
    from armada.rpc.client import Call

    hosts = context.hosts_of_runs(*chosen)
    by_host: dict[str, list[Run]] = {}
    for run in chosen:
        if run.host in hosts and not (run.ended and not run.is_guess):
            by_host.setdefault(run.host, []).append(run)
    requests = {}
    for run in (run for each in by_host.values() for run in each):
        with contextlib.suppress(ArmadaError):  # another armada forgot it just now
            requests[run.run_id] = request_of(context.database, run, grace_s)

    def tell(name: str) -> None:
        asked = [run for run in by_host[name] if run.run_id in requests]
        with contextlib.suppress(ArmadaError, OSError), context.session_with(hosts[name], 0) as session:
            questions = [Call.of(requests[run.run_id], 60.0) for run in asked]
            for run, answer in zip(asked, session.call_all(questions), strict=True):
                if not isinstance(answer, ArmadaError):
                    told.add(run.run_id)

    if by_host:
        with ThreadPoolExecutor(max_workers=min(_HOSTS_AT_ONCE, len(by_host))) as pool:
            list(pool.map(tell, by_host))
