"""`armada resume`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from armada.cli.homes import add_flag, ask_owner
from armada.cli.options import add_following, add_run


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "resume",
        help="Resume a failed or stopped run",
        description="Resume a failed or cancelled run on the same host, from its last complete checkpoint "
        "there. It keeps its run id.",
    )
    add_run(parser)
    parser.add_argument(
        "--accept-changes",
        action="store_true",
        help="Continue although data changed, or the optimizer of the last checkpoint is damaged and starts fresh",
    )
    parser.add_argument(
        "--restart-if-damaged",
        action="store_true",
        help="Start from the beginning if every checkpoint on the host is damaged, which is otherwise refused",
    )
    parser.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)  # refused, with what to do
    add_flag(parser)
    add_following(parser, what="run", results="its checkpoints", daemon="watches the run")
    parser.set_defaults(handler=_resume)


def _resume(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.following import announce
    from armada.cli.progress import Reporter
    from armada.launch.plans.task import Order
    from armada.launch.resume import Permits, refuse_other_settings
    from armada.launch.service import Caller, resume

    context = Context()
    run = context.run(options.run)
    refuse_other_settings(context.database, run, options.set)
    ask_owner(context, run, options, "resume")
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with context.session(run.host) as session:
        order = Order(session, context.home, context.database)
        permits = Permits(options.restart_if_damaged, options.accept_changes)
        resumed = resume(order, run, Caller(sys.argv, Path.cwd(), reporter), permits)
        return announce(context, session, resumed, options, reporter)
