"""`armada merge`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_following, add_run

if TYPE_CHECKING:
    from armada.rpc.session import HostSession

DTYPES = ("auto", "float32", "bfloat16", "float16")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "merge",
        help="Merge a run's LoRA adapter into its base model, or join its shards",
        description="Merge the adapter of a LoRA run into its base model, or join the shards of a run with "
        "`train.sharding: fsdp` into one model. The merge is a separate run on CPUs. The merged model comes home like a "
        "checkpoint.",
    )
    add_run(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="N",
        default="last",
        help="Checkpoint to merge: its step, `best` (lowest evaluation loss) or `last`",
    )
    parser.add_argument("--host", metavar="NAME", help="Host to merge on (default: the host that holds the checkpoint)")
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="auto",
        help="Data type of the merged weights (auto: that of the base model, or of the shards)",
    )
    parser.add_argument("--name", metavar="TEXT", help="Name of the merge (default: made from the training's name)")
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and the checks; send and start nothing")
    add_following(parser, what="merge", results="the model", daemon="brings the model home")
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
