"""`armada merge`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.session import HostSession

DTYPES = ("auto", "float32", "bfloat16", "float16")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "merge",
        help="merge a run's adapter into its base model",
        description="Merge a LoRA run's adapter into its base as a run of its own on CPUs; the merged model comes home as checkpoints do.",
    )
    parser.add_argument("run", metavar="RUN", help="run id, or its beginning")
    parser.add_argument(
        "--checkpoint", metavar="N", default="last", help="its step, `best` (evaluation loss) or `last`"
    )
    parser.add_argument("--host", metavar="NAME", help="where; by default where the checkpoint lies")
    parser.add_argument("--dtype", choices=DTYPES, default="auto", help="of the merged weights (auto: the base's)")
    parser.add_argument("--name", metavar="TEXT", help="instead of one made of the training's")
    parser.add_argument("--dry-run", action="store_true", help="stop after the checks and print the plan")
    parser.add_argument("--follow", "-f", action="store_true", help="watch until it ends, then bring the model home")
    parser.add_argument("--no-daemon", action="store_true", help="start no daemon to bring the model home")
    parser.add_argument("--json", action="store_true", help="one object on stdout, progress on stderr")
    parser.set_defaults(handler=_merge)


def _merge(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.following import announce
    from armada.cli.plans import say_plan, show_plan
    from armada.cli.progress import Reporter
    from armada.launch.plans.merge import choose_host
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, carry_out, find_source, merge_of

    context = Context()
    reporter = Reporter(sys.stderr if options.json else sys.stdout)

    def connect(name: str) -> HostSession:
        return context.session(name, patience_s=0)

    training = context.run(options.run)
    source = find_source(context.database, training, options.checkpoint, connect, context.hosts())
    host = options.host or choose_host(source.run, source.checkpoint)
    with context.session(host) as session:
        launch = merge_of(source, options.dtype, Order(session, context.home, context.database, name=options.name))
        if options.dry_run:
            reporter.now("plan", f"asking {host}")
            return show_plan(reporter, launch.plan(), as_json=options.json)
        reporter.stage("merging", f"checkpoint-{source.checkpoint.step} of {source.run.run_id}")
        caller = Caller(sys.argv, Path.cwd(), reporter, lambda plan: say_plan(reporter, plan, everything=False))
        run = carry_out(launch, caller)
        return announce(context, session, run, options, reporter)
