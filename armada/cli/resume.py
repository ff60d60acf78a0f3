"""`armada resume`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from armada.cli.homes import add_flag, ask_owner


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "resume",
        help="go on with a run that failed or was stopped",
        description="Start a failed or cancelled run again where it was: the same run on the same host, from its last whole "
        "checkpoint there.",
    )
    parser.add_argument("run", metavar="RUN", help="run id, or its beginning")
    parser.add_argument(
        "--follow", "-f", action="store_true", help="watch until it ends, then bring its checkpoints home"
    )
    add_flag(parser)
    parser.add_argument("--no-daemon", action="store_true", help="start no daemon to watch it")
    parser.add_argument("--json", action="store_true", help="one object on stdout, progress on stderr")
    parser.set_defaults(handler=_resume)


def _resume(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.following import announce
    from armada.cli.progress import Reporter
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, resume

    context = Context()
    run = context.run(options.run)
    ask_owner(context, run, options, "resume")
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with context.session(run.host) as session:
        order = Order(session, context.home, context.database)
        resumed = resume(order, run, Caller(sys.argv, Path.cwd(), reporter))
        return announce(context, session, resumed, options, reporter)
