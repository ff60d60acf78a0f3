"""Show the plan of a sweep, and say what became of its launch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.sweeps.planning import Asked, SweepPlan
    from armada.sweeps.service import Caller, Outcome


def caller(reporter: Reporter) -> Caller:
    """The command that launches."""
    from armada.sweeps.service import Caller

    return Caller(sys.argv, Path.cwd(), reporter)


def say_plan(reporter: Reporter, asked: Asked, plan: SweepPlan) -> None:
    """Say which host has how many cells, and what there is to know before."""
    from armada.sweeps.standing import others_waiting
    from armada.units import counted

    shares = [f"{len(each.plans)} on {name}, {each.at_once}" for name, each in plan.shares.items()]
    reporter.stage("plan", f"{counted(len(asked.cells), 'cell')}: {'; '.join(shares)}")
    for name, why in plan.left_out.items():
        reporter.stage("", f"⚠ {name} takes no part: {why}")
    for name, share in plan.shares.items():
        if asked.sessions[name].host.batch is not None:
            continue  # its own queue orders all jobs
        for words in others_waiting(asked.database, name, asked.name, gpus=bool(share.plans[0].gpus)):
            reporter.stage("", f"⚠ {words}")
    warnings = dict.fromkeys(
        f"⚠ {check.code} {check.message}" + (f" → {check.hint}" if check.hint else "")
        for share in plan.shares.values()
        for each in share.plans
        for check in each.checks
        if check.outcome == "warn"
    )
    for words in warnings:
        reporter.stage("", words)


def dry_run(asked: Asked, reporter: Reporter, *, as_json: bool) -> int:
    """Plan a sweep and print its cells. Return the exit code."""
    from armada.cli.printing import print_json
    from armada.cli.table import table
    from armada.sweeps.cells import open_values
    from armada.sweeps.planning import plan_sweep

    plan = plan_sweep(asked, lambda host: reporter.now("plan", f"asking {host}"))
    say_plan(reporter, asked, plan)
    hosts = {each.run_id: name for name, share in plan.shares.items() for each in share.plans}
    rows = [(cell, hosts[f"{asked.name}-{cell.number:03}"]) for cell in asked.cells]
    if as_json:
        cells = [
            {"cell": cell.number, "label": cell.label, "values": open_values(cell.values), "host": host}
            for cell, host in rows
        ]
        print_json({"cells": cells, "left_out": dict(plan.left_out)})
        return 0
    reporter.line(table(("CELL", "HOST", "VALUES"), [(str(cell.number), host, cell.label) for cell, host in rows]))
    return 0


def announce(context: Context, outcome: Outcome, options: argparse.Namespace, reporter: Reporter) -> int:
    """Say what became of it, and start the daemon that looks after it.

    Raises:
        OutcomeUnknown: It is unknown whether some hosts have their cells.
        ArmadaError: Some hosts refused theirs.
    """
    from armada.cli.daemon import start_for_launch
    from armada.cli.printing import print_json

    if outcome.taken and not options.no_daemon and start_for_launch(context.home):
        reporter.stage(
            "daemon", "started; it watches the runs and brings their checkpoints home (armada daemon status)"
        )
    if options.json and not (outcome.unknown or outcome.failed):
        print_json({"sweep": outcome.name, "taken": outcome.taken})
    if not options.json:
        verbs = " · ".join(f"armada sweep {verb} {outcome.name}" for verb in ("show", "best", "stop"))
        reporter.line(f" next       {verbs}")
    outcome.raise_if_incomplete()
    return 0
