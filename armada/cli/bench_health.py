"""`armada bench HOST`: measure a machine and say whether it gives what it should."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import ArmadaError, UsageError

if TYPE_CHECKING:
    import argparse

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.doctor.measure import Measured
    from armada.rpc.session import HostSession
    from armada.store.runs import Run

_FOR_EXPERIMENTS = {
    "grid": "--grid", "array": "--array", "overrides": "--set", "gpus": "--gpus", "csv": "--csv", "chart": "--chart", "apply": "--apply",
}  # fmt: skip


def is_health(context: Context, run: Run) -> bool:
    """Whether a bench measured the machine and no experiment."""
    from armada.store import runs

    experiment = runs.spec(context.database, run.run_id).get("experiment")
    return run.task == "bench" and isinstance(experiment, dict) and "health" in experiment


def measure_health(context: Context, options: argparse.Namespace, host: str) -> int:
    """Measure a host, and print its figures and the verdict. Return the exit code."""
    from armada.cli.following import announce
    from armada.cli.plans import say_plan, show_plan
    from armada.cli.progress import Reporter
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, carry_out, health_of

    for name, flag in _FOR_EXPERIMENTS.items():
        if getattr(options, name):
            raise UsageError(
                f"{flag} belongs to the bench of an experiment", hint=f"armada bench exp.yaml --host {host}"
            )
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with context.session(host) as session:
        launch = health_of(Order(session, context.home, context.database, options.profile, options.name))
        if options.dry_run:
            reporter.now("plan", f"asking {host}")
            return show_plan(reporter, launch.plan(), as_json=options.json)
        caller = Caller(sys.argv, Path.cwd(), reporter, lambda plan: say_plan(reporter, plan, everything=False))
        run = carry_out(launch, caller)
        following = copy.copy(options)
        following.follow, following.json = not options.detach, False
        code = announce(context, session, run, following, reporter)
        if code or (options.detach and not options.json):
            reporter.line(f" figures    armada bench --show {run.run_id}")
            return code
        link = None if options.detach else _link(context, session, reporter)
    return show_health(context, context.run(run.run_id), options, link)


def _link(context: Context, session: HostSession, reporter: Reporter) -> Measured | None:
    from armada.doctor.measure import measure

    try:
        return measure(session, context.home)
    except ArmadaError as error:
        reporter.stage("link", f"not measured: {error}")
        return None


def show_health(context: Context, run: Run, options: argparse.Namespace, link: Measured | None = None) -> int:
    """Print what a machine gave when it was measured."""
    from armada.config.profiles import load_profile
    from armada.launch.bench.health import judge, read_figures, verdict
    from armada.store import runs
    from armada.units import amount

    for name, flag in _FOR_EXPERIMENTS.items():
        if getattr(options, name):
            raise UsageError(f"{flag} belongs to the bench of an experiment, and {run.run_id} measured a machine")
    named = runs.spec(context.database, run.run_id).get("profile")
    try:
        profile = load_profile(named, context.home) if isinstance(named, str) else None
    except ArmadaError:  # it was derived from the GPUs, or has been deleted since
        profile = None
    figures = judge(read_figures(context.database, run.run_id), profile)
    said = verdict(figures) if figures else f"not known: {run.run_id} has no figures yet ({run.state})"
    if options.json:
        found = None
        if link is not None:
            found = {
                "round_trip_s": link.round_trip_s,
                "down_bytes_per_s": link.down_bytes_per_s,
                "up_bytes_per_s": link.up_bytes_per_s,
            }
        shown = [each.as_json() for each in figures]
        print_json({"run_id": run.run_id, "state": run.state, "verdict": said, "figures": shown, "link": found})
        return 0
    for each in figures:
        print(f"{'✗' if each.is_slow else '✓' if each.expected is not None else '·'} {each.said}")
    if link is not None and link.down_bytes_per_s is not None:
        down, up = (
            "unknown" if rate is None else f"{amount(rate)}/s" for rate in (link.down_bytes_per_s, link.up_bytes_per_s)
        )
        limited = ", with the bwlimit of hosts.yaml" if link.limited else ""
        print(f"· link: round trip {link.round_trip_s * 1000:.0f} ms, {down} home, {up} to the host{limited}")
    print(f"{run.host}: {said}")
    return 0
