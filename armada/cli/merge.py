"""`armada merge`."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.launch.merge import Source
    from armada.launch.plan import Plan
    from armada.store.runs import Run

DTYPES = ("auto", "float32", "bfloat16", "float16")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "merge",
        help="Merge a run's LoRA adapter into its base model",
        description="Merge the adapter of a LoRA run into its base model. The merge is a separate run on "
        "CPUs. The merged model comes home like a checkpoint.",
    )
    parser.add_argument("run", metavar="RUN", help="Run id, or its first characters")
    parser.add_argument(
        "--checkpoint",
        metavar="N",
        default="last",
        help="Checkpoint to merge: its step, `best` (lowest evaluation loss) or `last`",
    )
    parser.add_argument("--host", metavar="NAME", help="Host to merge on (default: the host that holds the checkpoint)")
    parser.add_argument(
        "--dtype", choices=DTYPES, default="auto", help="Data type of the merged weights (auto: that of the base model)"
    )
    parser.add_argument("--name", metavar="TEXT", help="Name of the merge (default: made from the training's name)")
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and the checks; send and start nothing")
    parser.add_argument(
        "--follow", "-f", action="store_true", help="Watch the merge until it ends, then bring the model home"
    )
    parser.add_argument("--no-daemon", action="store_true", help="Do not start the daemon, which brings the model home")
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object on stdout and the progress on stderr"
    )
    parser.set_defaults(handler=_merge)


def _merge(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.launch import announce, show_plan, start_planned
    from armada.cli.progress import Reporter
    from armada.launch.merge import choose_host, plan_merge

    context = Context()
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    source = _find(context, context.run(options.run), options.checkpoint)
    host = options.host or choose_host(source.run, source.checkpoint)
    key = _key(source, host, options.dtype, options.name)
    with context.session(host) as session:

        def make(run_id: str | None) -> Plan:
            return plan_merge(
                session, context.home, source, dtype=options.dtype, name=options.name, run_id=run_id, launch_key=key
            )

        if options.dry_run:
            reporter.now("plan", f"asking {host}")
            return show_plan(reporter, make(None), as_json=options.json)
        reporter.stage("merging", f"checkpoint-{source.checkpoint.step} of {source.run.run_id}")
        run = start_planned(context, session, reporter, key=key, title=f"merge of {source.run.run_id}", make=make)
        return announce(context, session, run, options, reporter)


def _find(context: Context, run: Run, word: str) -> Source:
    from armada.errors import NotFound
    from armada.launch.merge import Source, refuse_unmergeable
    from armada.store import checkpoints, runs
    from armada.sync.pull import choose

    spec = runs.spec(context.database, run.run_id)
    refuse_unmergeable(run, spec)
    try:
        with context.session(run.host, patience_s=0) as session:
            found = choose(context.database, session, run, word)
    except NotFound:
        if run.host in context.hosts():
            raise
        # The host was given back and taken out of hosts.yaml: what is home is all there is.
        home = [c for c in checkpoints.of_run(context.database, run.run_id) if c.home_path is not None]
        named = home[-1:] if word == "last" else [c for c in home if str(c.step) == word][-1:]
        if not named:
            raise
        (found,) = named
    return Source(run, spec, found)


def _key(source: Source, host: str, dtype: str, name: str | None) -> str:
    asked = ["merge", source.run.run_id, source.checkpoint.digest, host, dtype, name]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
