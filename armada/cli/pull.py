"""`armada pull`, and what brings a followed run's checkpoints home at its end."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_named_runs
from armada.cli.several import Handled, Patience, choose_runs, handle_runs
from armada.errors import HostUnreachable, LoginNeeded, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded
from armada.units import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.foundation.progress import Progress
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.runs import Run
    from armada.sync.runs.pull import Pulled


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "pull",
        help="Download runs' checkpoints and verify them",
        description="Bring the checkpoints of runs home and verify every byte.",
    )
    add_named_runs(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="N",
        help="Fetch only this checkpoint: its step, `best` (lowest evaluation loss), `last`, or its digest",
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        help="Also copy the checkpoint into this folder (`last`, unless you give --checkpoint). "
        "Of several runs, copy each into DIR/RUN",
    )
    parser.add_argument(
        "--json", action="store_true", help="Print a JSON object. Of several runs, print all in one list"
    )
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


def lost_of(known: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints that left their host before they reached home, without those that the run's settings do not want."""
    from armada.store.checkpoints import NEVER_CAME
    from armada.sync.schedule.due import NOT_WANTED

    return [each for each in known if each.nowhere == NEVER_CAME and each.trouble != NOT_WANTED]


def lost_words(known: Iterable[Checkpoint]) -> str:
    """Say how many checkpoints left their host before they reached home; empty if none did."""
    lost = lost_of(known)
    return f"{counted(len(lost), 'checkpoint')} lost before reaching home" if lost else ""


def _pull(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter

    context = Context()
    chosen = choose_runs(context, options)
    several = len(chosen) > 1 or options.where is not None
    patience = Patience(60.0)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)

    def handle(run: Run) -> Handled:
        to: Path | None = expanded(options.to).absolute() if options.to is not None else None
        if to is not None and several:
            to /= run.run_id
        result = _pull_one(context, run, reporter, patience, word=options.checkpoint or ("last" if to else None), to=to)
        if not options.json:
            result.say(reporter)
        return Handled(result.told(), (result.sentence,) if several else ())

    return handle_runs(
        chosen,
        handle,
        undone=lambda run: f"`armada pull {run.run_id}` continues where it stopped",
        reporter=reporter,
        as_json=options.json,
        listed=options.where is not None,
        indent=None,
    )


@dataclass(frozen=True, slots=True)
class _Result:
    """What one pull brought home: `kept` are the run's checkpoints, `only` is the one that was asked for, `copied` its copy."""

    run: Run
    pulled: Pulled
    kept: tuple[Checkpoint, ...]
    only: Checkpoint | None
    copied: Path | None

    def told(self) -> dict[str, object]:
        """Give the object that `--json` prints."""
        places = {f"{c.step}@{c.digest[:8]}": str(c.home_path) for c in self.kept if c.home_path}
        shown = {"run_id": self.run.run_id, "published": [str(p) for p in self.pulled.published], "home": places}
        return {**shown, "copied": str(self.copied) if self.copied else None}

    @property
    def sentence(self) -> str:
        """The run's line among those of several."""
        new = counted(len(self.pulled.published), "checkpoint")
        done = f"{new} brought home and verified" if self.pulled.published else "nothing new"
        told = (done, f"{sum(1 for c in self.kept if c.home_path)} at home", lost_words(self.kept))
        return f"{self.run.run_id}: {', '.join(filter(None, told))}"

    def say(self, reporter: Reporter) -> None:
        """Print each checkpoint that came."""
        for place in self.pulled.published:
            reporter.stage("home", f"{place} verified")
        if self.pulled.repaired and self.only is not None:
            reporter.stage("home", f"{self.only.home_path} was damaged; it is repaired, every byte verified")
        if self.pulled.completed and self.only is not None:
            files = counted(self.pulled.completed, "file")
            reporter.stage("home", f"{self.only.home_path} completed: {files}, verified")
        elif not self.pulled.published and not self.pulled.repaired:
            home = f"nothing new; already home: {counted(self.pulled.already, 'checkpoint')} of {self.run.run_id}"
            none = f"{self.run.run_id} has no checkpoints{'' if self.run.ended else ' yet'}"
            reporter.line(home if self.pulled.already else none)
        if lost := lost_words(self.kept):
            reporter.line(f"{lost}: armada show {self.run.run_id}")
        if self.copied is not None:
            reporter.stage("copied", f"{self.copied} (every byte verified)")


def _pull_one(
    context: Context, run: Run, reporter: Reporter, patience: Patience, *, word: str | None, to: Path | None
) -> _Result:
    """Pull one run.

    Args:
        context: The command's.
        run: Which.
        reporter: Shows how far it is.
        patience: How long its host is waited for.
        word: The one checkpoint; None for all that the run's settings want.
        to: Where the one checkpoint is copied to.

    Raises:
        ArmadaError: Not everything came home; what did stays.
        NotFound: None of the checkpoints is anywhere any more.
    """
    from armada.store import checkpoints, runs
    from armada.store.running_operations import operation
    from armada.sync.checkpoints.copy import copy_checkpoint
    from armada.sync.checkpoints.selection import choose_checkpoint
    from armada.sync.runs.pull import pull_from_home

    try:
        with (
            operation(context.database, kind="pull", run_id=run.run_id, host=run.host, argv=sys.argv) as recorded,
            patience.for_host(run.host) as patience_s,
            context.session_about(run, patience_s=patience_s) as session,
        ):
            only = choose_checkpoint(context.database, session, run, word) if word else None
            pulled = bring_home(context, session, run, recorded.and_tell(reporter), only=only)
    except (HostUnreachable, NotFound) as error:
        if isinstance(error, LoginNeeded) or (isinstance(error, NotFound) and run.host in context.hosts()):
            raise
        pulled, only = pull_from_home(context.database, context.home, run, word, error, reporter)
        sys.stderr.write(f"armada: {sanitize_line(error, 600)}; what you asked for is at home\n")
    kept = tuple(checkpoints.of_run(context.database, run.run_id))
    lost = lost_words(kept)
    if lost and not any(each.on_host or each.home_path for each in kept):
        raise NotFound(
            f"{run.run_id} has no checkpoints any more: {lost}",
            hint=f"armada show {run.run_id}",
            host=run.host,
        )
    copied = None
    if to is not None and only is not None:
        runs.require(context.database, run.run_id)
        copied = copy_checkpoint(context.database, context.home, next(c for c in kept if c.digest == only.digest), to)
    if pulled.lacking:
        sys.stderr.write(
            f"armada: it still lacks what sync.include_optimizer left out ({sanitize_line(pulled.lacking)})\n"
        )
    return _Result(run, pulled, kept, only, copied)
