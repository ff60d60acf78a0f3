"""`armada wandb sync`: upload W&B's offline records from home."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from armada.cli.options import add_run
from armada.cli.printing import print_json
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "wandb",
        help="Upload W&B's offline records",
        description="Upload the offline records of Weights & Biases that came home with a run.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)
    sync = verbs.add_parser(
        "sync",
        help="Upload the records of a run",
        description="Upload a run's offline records with the wandb program and the API key of this machine. "
        "All attempts of a run become one W&B run.",
    )
    add_run(sync)
    sync.add_argument("--project", metavar="NAME", help="W&B project (default: the experiment's)")
    sync.add_argument("--entity", metavar="NAME", help="W&B entity (default: your own default there)")
    sync.add_argument("--all", action="store_true", help="Also upload records that were uploaded before")
    sync.add_argument("--dry-run", action="store_true", help="Print the command; upload nothing")
    sync.add_argument("--json", action="store_true", help="Print a JSON object")
    sync.set_defaults(handler=_sync)


def _sync(options: argparse.Namespace) -> int:
    import shlex

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.store import runs
    from armada.store.running_operations import operation
    from armada.sync.outputs.wandb import compose_command, find_program, offline_runs, upload

    context = Context()
    run = context.run(options.run)
    found = offline_runs(context.home, run.run_id)
    wanted = [each for each in found if options.all or not each.uploaded]
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    told: dict[str, object] = {"run_id": run.run_id, "home": [str(each.folder) for each in found], "uploaded": []}
    if not wanted:
        if found:
            reporter.line(
                f"nothing to upload: {counted(len(found), 'offline record')} of {run.run_id}, uploaded before"
            )
        else:
            reporter.line(
                f"nothing to upload: no offline records of {run.run_id} are home (armada sync now {run.run_id})"
            )
        if options.json:
            print_json(told, indent=None)
        return 0
    one_run = _id_there(runs.spec(context.database, run.run_id), run.run_id)
    command = compose_command(find_program(), wanted, run_id=one_run, project=options.project, entity=options.entity)
    if options.dry_run:
        if options.json:
            print_json({**told, "command": command}, indent=None)
        else:
            print(shlex.join(command))
        return 0
    with operation(context.database, kind="wandb", run_id=run.run_id, host=run.host, argv=sys.argv) as recorded:
        progress = recorded.and_tell(reporter)
        upload(command, wanted, lambda line: progress.now("wandb", line))
    if options.json:
        print_json({**told, "uploaded": [str(each.folder) for each in wanted]}, indent=None)
    else:
        reporter.stage(
            "uploaded",
            f"{counted(len(wanted), 'offline record')} of {run.run_id}, as one run of W&B"
            if one_run
            else f"{counted(len(wanted), 'offline record')} of {run.run_id}",
        )
    return 0


def _id_there(spec: Mapping[str, Any], run_id: str) -> str | None:
    """What all records of a run are one run of, at W&B; None where its job may make several."""
    tracking = (spec.get("training") or {}).get("tracking") or {}
    if found := tracking.get("id"):
        return str(found)
    return run_id if (spec.get("experiment") or {}).get("tracking") else None
