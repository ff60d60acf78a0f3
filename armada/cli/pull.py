"""`armada pull`, and what brings a followed run's checkpoints home at its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_run
from armada.cli.printing import print_json
from armada.errors import HostUnreachable, LoginNeeded, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    import argparse

    from armada.cli.context import Context
    from armada.foundation.progress import Progress
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.runs import Run
    from armada.sync.runs.pull import Pulled


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "pull",
        help="Download a run's checkpoints and verify them",
        description="Bring a run's checkpoints home and verify every byte.",
    )
    add_run(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="N",
        help="Fetch only this checkpoint: its step, `best` (lowest evaluation loss), `last`, or its digest",
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        help="Also copy the checkpoint into this folder (`last`, unless you give --checkpoint)",
    )
    parser.add_argument("--json", action="store_true", help="Print a JSON object")
    parser.set_defaults(handler=_pull)


def bring_home(
    context: Context, session: HostSession, run: Run, progress: Progress, *, only: Checkpoint | None = None
) -> Pulled:
    """Download a run's checkpoints, or one of them, and show how far it is.

    Raises:
        ArmadaError: Not everything came home; what did stays.
    """
    from armada.sync.context import SyncContext
    from armada.sync.runs.pull import pull

    return pull(
        SyncContext(context.database, session, context.home, run.run_id),
        progress=progress,
        only=only,
    )


def _pull(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.store import checkpoints, runs
    from armada.store.running_operations import operation
    from armada.sync.checkpoints.copy import copy_checkpoint
    from armada.sync.checkpoints.selection import choose_checkpoint
    from armada.sync.runs.pull import pull_from_home

    context = Context()
    run = context.run(options.run)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    word = options.checkpoint or ("last" if options.to else None)
    try:
        with (
            operation(context.database, kind="pull", run_id=run.run_id, host=run.host, argv=sys.argv) as recorded,
            context.session_about(run) as session,
        ):
            only = choose_checkpoint(context.database, session, run, word) if word else None
            pulled = bring_home(context, session, run, recorded.and_tell(reporter), only=only)
    except (HostUnreachable, NotFound) as error:
        if isinstance(error, LoginNeeded) or (isinstance(error, NotFound) and run.host in context.hosts()):
            raise
        pulled, only = pull_from_home(context.database, run, word, error)
        sys.stderr.write(f"armada: {sanitize_line(error, 600)}; what you asked for is at home\n")
    kept = checkpoints.of_run(context.database, run.run_id)
    copied = None
    if options.to is not None and only is not None:
        runs.require(context.database, run.run_id)
        copied = copy_checkpoint(next(c for c in kept if c.digest == only.digest), options.to.expanduser().absolute())
    if pulled.lacking:
        sys.stderr.write(
            f"armada: it still lacks what sync.include_optimizer left out ({sanitize_line(pulled.lacking)})\n"
        )
    if options.json:
        places = {f"{c.step}@{c.digest[:8]}": str(c.home_path) for c in kept if c.home_path}
        shown = {"run_id": run.run_id, "published": [str(p) for p in pulled.published], "home": places}
        print_json({**shown, "copied": str(copied) if copied else None}, indent=None)
        return 0
    for place in pulled.published:
        reporter.stage("home", f"{place} verified")
    if pulled.completed and only is not None:
        reporter.stage("home", f"{only.home_path} completed: {counted(pulled.completed, 'file')}, verified")
    elif not pulled.published:
        home = f"nothing new; already home: {counted(pulled.already, 'checkpoint')} of {run.run_id}"
        reporter.line(home if pulled.already else f"{run.run_id} has no checkpoints{'' if run.ended else ' yet'}")
    if copied is not None:
        reporter.stage("copied", f"{copied} (every byte verified)")
    return 0
