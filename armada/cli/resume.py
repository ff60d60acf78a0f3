"""`armada resume`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.homes import add_flag, ask_owner
from armada.cli.options import add_following, add_run
from armada.errors import Conflict

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.store.runs import Run


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
    parser.add_argument(
        "--secrets",
        action="append",
        default=[],
        metavar="NAMES",
        help="Send the values of these variables of your environment to the host, although only the host says that the "
        "run needs them (a run that `armada recover` found); comma-separated",
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
    confirmed = _ask_secrets(context, run, options)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    context.say_what_counts(run.host)
    with context.session(run.host) as session:
        order = Order(session, context.home, context.database)
        permits = Permits(options.restart_if_damaged, options.accept_changes)
        resumed = resume(order, run, Caller(sys.argv, Path.cwd(), reporter), permits, confirmed=confirmed)
        return announce(context, session, resumed, options, reporter)


def _ask_secrets(context: Context, run: Run, options: argparse.Namespace) -> frozenset[str]:
    """Return the secrets that the host may have although only the host asks for them. At a terminal, a person is asked.

    Raises:
        Conflict: The host asks for others, and nobody said that it may have them.
    """
    from armada.launch.resume import unconfirmed_secrets
    from armada.protocol.recorded import recorded_spec
    from armada.store import runs

    given = frozenset(name.strip() for names in options.secrets for name in names.split(",") if name.strip())
    refusal = unconfirmed_secrets(context.database, run, given)
    if refusal is None:
        return given
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refusal
    sys.stderr.write(f"{refusal.message}.\nSend their values to {run.host}? [y/N] ")
    if input().strip().lower() not in ("y", "yes"):
        raise Conflict(f"{refusal.message}; nothing was sent", hint=refusal.hint)
    return given | frozenset(recorded_spec(runs.spec(context.database, run.run_id)).unconfirmed_secrets)
