"""`armada rm`."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from typing import TYPE_CHECKING, TypedDict

from armada.cli.homes import add_flag, ask_owner, owner
from armada.cli.options import add_named_runs
from armada.cli.several import Handled, Patience, choose_runs, handle_runs
from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, OutcomeUnknown, ProvisionFailed
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.protocol.sync import RunListing
    from armada.rpc.session import HostSession
    from armada.store.runs import Run
    from armada.sync.context import SyncContext
    from armada.sync.release.only_on_host import OnlyOnHost

_NAMED = 3
"""The number of losses that a refusal names."""


class _Removal(TypedDict):
    """What `--json` prints of every removal; what it deletes or gives up is added."""

    run_id: str
    host: str
    kept_home: list[str]
    given_up: dict[str, object] | None
    host_error: str | None


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    remove = commands.add_parser(
        "rm",
        help="Delete runs' files on their hosts and forget them",
        description="Delete the files of ended runs on their hosts, and forget the runs at home. Checkpoints at "
        "home stay. Refuses while something is only on the host, by the same checks as hosts release. If the host "
        "is gone, --force forgets the run at home only and lists what is lost. --dry-run does the same checks and "
        "lists what would be deleted.",
    )
    add_named_runs(remove, asks=True)
    remove.add_argument(
        "--force",
        action="store_true",
        help="Remove even if something exists only on the host, if the host's root is missing, or if the host is gone",
    )
    remove.add_argument(
        "--without-host",
        action="store_true",
        help="Forget the run at home only and delete nothing on the host; refused if the host answers",
    )
    add_flag(remove)
    remove.add_argument("--dry-run", action="store_true", help="List what would be deleted; delete nothing")
    remove.add_argument(
        "--json", action="store_true", help="Print a JSON object. Of several runs, print all in one list"
    )
    remove.set_defaults(handler=_remove)


def _remove(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter

    context = Context()
    chosen = choose_runs(context, options, asks="" if options.dry_run else "remove")
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    handle = functools.partial(remove_one, context, options, reporter, Patience(5.0))
    return handle_runs(
        chosen,
        handle,
        undone=lambda run: f"`armada rm {run.run_id}` was not completed",
        reporter=reporter,
        as_json=options.json,
        listed=options.where is not None,
    )


def remove_one(
    context: Context, options: argparse.Namespace, reporter: Reporter, patience: Patience, run: Run
) -> Handled:
    """Remove one run, on its host and at home.

    Raises:
        ArmadaError: Why it was not removed.
    """
    from armada.provision.namesakes import refuse_to_forget
    from armada.sync.checkpoints.folders import prepare
    from armada.sync.checkpoints.lock import only_one

    if not run.is_settled(time.time()) and (host := context.hosts().get(run.host)) is not None:
        refuse_to_forget(context.database, host, run.run_id, force=options.force)
    _refuse_alive(context, run)
    folder = context.home.checkpoints(run.run_id)
    if not options.dry_run:
        with _despite_unseen(options):
            prepare(context.database, context.home, run.run_id)
    wait = functools.partial(reporter.stage, "waiting", f"for a sync of {run.run_id} to finish")
    agreed: tuple[object, ...] | None = None
    while True:
        try:
            # To the end under the lock of its syncs: what one of them brings later would belong to no run.
            with contextlib.nullcontext() if options.dry_run else only_one(folder, wait):
                return _judge_and_remove(context, run, options, reporter, patience, agreed)
        except _QuestionOpen as question:
            # Not under the lock: a person may take hours to answer. Then all of it is judged anew.
            ask_owner(context, run, options, "rm")
            agreed = question.gives_up


class _QuestionOpen(Exception):
    """Nobody has said yet that another home's run may go, with what that gives up."""

    def __init__(self, gives_up: tuple[object, ...]) -> None:
        super().__init__()
        self.gives_up = gives_up


def _require_answer(
    context: Context,
    run: Run,
    options: argparse.Namespace,
    agreed: tuple[object, ...] | None,
    gives_up: tuple[object, ...],
) -> None:
    """Require that a person has said that another home's run may go, if it is one, with exactly what that gives up.

    Raises:
        _QuestionOpen: Nobody has.
    """
    if not options.other_home and agreed != gives_up and owner(context, run) is not None:
        raise _QuestionOpen(gives_up)


def _judge_and_remove(
    context: Context,
    run: Run,
    options: argparse.Namespace,
    reporter: Reporter,
    patience: Patience,
    agreed: tuple[object, ...] | None,
) -> Handled:
    """Remove one run, with its lock held; see `remove_one`.

    Raises:
        ArmadaError: Why it was not removed.
        _QuestionOpen: A person has to be asked before.
    """
    try:
        looks = run.ended and not run.is_guess  # of others an agent has to find out what lives
        with (
            patience.for_host(run.host) as patience_s,
            context.session(run.host, patience_s=patience_s, looks=looks) as session,
        ):
            return _with_host(context, session, run, options, reporter, agreed)
    except (HostUnreachable, ProvisionFailed) as error:
        return _without_host(context, run, options, error, agreed)
    except NotFound as error:
        if run.host in context.hosts():
            raise
        return _without_host(context, run, options, error, agreed)


def _despite_unseen(options: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Go on with `--force` where the run's folder at home is not seen: its disk keeps what is on it."""
    from armada.sync.errors import FolderAway

    return contextlib.suppress(FolderAway) if options.force else contextlib.nullcontext()


def _refuse_alive(context: Context, run: Run) -> None:
    """Refuse what goes on, as far as its host can be asked.

    Raises:
        Conflict: It has not ended.
    """
    from armada.monitor.observe import observe
    from armada.store import runs
    from armada.store.running_operations import being_launched

    if run.ended:
        return
    if run.run_id in being_launched(context.database):
        raise Conflict(
            f"another armada command is working on {run.run_id}", hint="run the command again when that has ended"
        )
    try:
        with context.session(run.host, patience_s=0) as session:
            observe(context.database, session, [run])
    except (HostUnreachable, NotFound, ProvisionFailed):
        return  # what then holds is decided once nothing else can sync it
    run = runs.find(context.database, run.run_id)
    if not run.ended and run.state != "unknown":
        raise Conflict(f"{run.run_id} is {run.state}", hint=f"armada stop {run.run_id}")


def _with_host(
    context: Context,
    session: HostSession,
    run: Run,
    options: argparse.Namespace,
    reporter: Reporter,
    agreed: tuple[object, ...] | None,
) -> Handled:
    """Delete it on its host, then forget it.

    Raises:
        Conflict: It has not ended, holds what is nowhere else, is another home's, or its root is away.
        OutcomeUnknown: Its host was asked to delete it, and did not answer.
    """
    from armada.home import own
    from armada.monitor.observe import observe
    from armada.protocol.homes import AskingHome
    from armada.protocol.runs import JudgedFolder, RemoveRun
    from armada.store import runs
    from armada.sync.checkpoints.apply_retention import tidy
    from armada.sync.context import SyncContext
    from armada.sync.release.judge import list_run
    from armada.sync.release.second_look import look_again

    runs.require(context.database, run.run_id)
    observe(context.database, session, [run])
    if options.without_host:
        hint = f"armada rm {run.run_id}"
        raise Conflict(f"it answers, so --without-host does not apply to {run.run_id}", hint=hint, host=run.host)
    run = runs.find(context.database, run.run_id)
    if not run.ended and run.state != "unknown":
        raise Conflict(f"{run.run_id} is {run.state}", hint=f"armada stop {run.run_id}")
    if not options.dry_run:
        with _despite_unseen(options):
            tidy(context.database, context.home, run.run_id)  # what a person deleted at home is not home
    there = SyncContext(context.database, session, context.home, run.run_id)
    entry = list_run(there) if options.dry_run or not options.force else None
    if not options.force:
        _refuse_losses(there, entry, reporter)
    if options.dry_run:
        return _preview(context, there, entry, run, options)
    lost = _find_lost(context, run) if options.force else None
    _require_answer(context, run, options, agreed, lost.kinds if lost is not None else ())
    home = AskingHome(**own(context.home).as_json())
    request = RemoveRun(run_id=run.run_id, home=home, despite_homes=options.other_home)
    if entry is not None:  # reading every byte at home took time
        request = request.model_copy(update={"judged": look_again(there, entry)})
    elif not options.force:  # no folder was judged: the host refuses to delete one that comes back by now
        nothing = JudgedFolder(submission=0, attempt=0, checkpoints=(), announced=0)
        request = request.model_copy(update={"judged": nothing})
    note = ""
    try:
        session.call(request, timeout_s=300.0)
    except HostUnreachable as error:  # with --force, too: what it would say of the files there may be wrong
        what = f"it is unknown whether the files of {run.run_id} were deleted on {run.host}: {error.message}"
        raise OutcomeUnknown(
            what, hint="run the same command again; nothing was forgotten yet", host=run.host
        ) from error
    except NotFound:
        _refuse_away(context, session, run, options)
        note = " (the host had no files of it)"
    except ArmadaError as error:
        if isinstance(error, Conflict) and entry is None:
            _refuse_away(context, session, run, options)
        if isinstance(error, Conflict) or not (options.force and _is_unreadable(session, run)):
            raise
        note = f" (its files on the host stay there: {sanitize_line(error.message, 300)})"
    told = {**_told(context, run, lost), "forgotten": True, "had_host": not note}
    said = _forget(context, run)
    given_up = lost.sentences(run.host) if lost is not None else []
    return Handled(told, (f"{run.run_id} forgotten{note}{said}", *_given_up(given_up)))


def _refuse_losses(there: SyncContext, entry: RunListing | None, reporter: Reporter) -> None:
    """Refuse to delete what is only on the host, by what was read there and at home, and to forget what may go on there.

    Raises:
        Conflict: Something is; it names the first few.
    """
    from armada.sync.release.judge import judge_absent, judge_run, judge_scraps

    if goes_on := judge_absent(there) if entry is None else judge_scraps(there):
        raise Conflict(f"{there.run_id}: {goes_on[0].what}", hint=goes_on[0].hint, host=there.host)
    if entry is None:
        return
    lost = judge_run(there, entry, reporter)
    reporter.clear()
    if not lost:
        return
    run_id = there.run_id
    named = "; ".join(item.what for item in lost[:_NAMED])
    more = f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    hints = [item.hint or "" for item in lost]
    ways = sorted({hint for hint in hints if hint.startswith("armada sync verify")})
    if any(hint.startswith(("armada sync now", "armada pull")) for hint in hints):
        ways.append(f"armada sync now {run_id} or armada pull {run_id}")
    if not all(hint.startswith(("armada sync", "armada pull")) for hint in hints):
        ways.append("copy what you need from the host")
    hint = f"{', then '.join(ways)}; or armada rm {run_id} --force to lose them"
    raise Conflict(f"only on {there.host}: {run_id}: {named}{more}", hint=hint)


def _preview(
    context: Context, there: SyncContext, entry: RunListing | None, run: Run, options: argparse.Namespace
) -> Handled:
    """Say what would be deleted, after the checks of the removal.

    Raises:
        Conflict: The removal would be refused.
    """
    from armada.store import checkpoints
    from armada.sync.release.judge import lacking_elsewhere

    if not sys.stdin.isatty():
        ask_owner(context, run, options, "rm")  # a person at a terminal is asked by the removal itself
    if entry is None:
        _refuse_away(context, there.session, run, options)
    elif not options.other_home and (lacking := lacking_elsewhere(there, entry)):
        what = "; ".join(f"{run.run_id}: {item.what}" for item in lacking)
        raise Conflict(what, hint="sync there first, or --other-home", host=run.host)
    found = [c for c in checkpoints.of_run(context.database, run.run_id) if c.on_host]
    listed = [{"step": c.step, "digest": c.digest, "size_bytes": c.size_bytes} for c in found]
    size = amount(sum(c.size_bytes for c in found))
    line = f"{run.run_id} and {counted(len(found), 'checkpoint')} ({size}) would be deleted on {run.host}"
    if entry is None:
        line = f"{run.run_id} would be forgotten; {run.host} has no files of it"
    return Handled({**_told(context, run), "forgotten": False, "deleted_host": listed}, (line,))


def _refuse_away(context: Context, session: HostSession, run: Run, options: argparse.Namespace) -> None:
    """Refuse to forget a run without a folder that may be below another root than the one that its host has now.

    Raises:
        Conflict: So it is, and nobody said that the run is to be forgotten all the same.
    """
    from armada.monitor.look import where
    from armada.monitor.observe import ask_about
    from armada.sync.release.judge import was_there
    from armada.verdicts.presence import AWAY_WORDS, UNKNOWN_WORDS, There

    if options.force:
        return
    there = where(run, ask_about(session, run).folder)
    if there is There.HERE:
        raise Conflict(
            f"{run.run_id} cannot be removed on {run.host} now: its folder was not found, and is seen now, or cannot be read",
            hint=f"armada rm {run.run_id}",
            host=run.host,
        ) from None
    if there is There.AWAY or (there is There.UNKNOWN and was_there(context.database, run)):
        words = AWAY_WORDS if there is There.AWAY else UNKNOWN_WORDS
        raise Conflict(
            f"{run.run_id} cannot be removed on {run.host} now: {words}",
            hint=f"mount it, then run the command again; armada rm {run.run_id} --force leaves the files there",
            host=run.host,
        ) from None


def _is_unreadable(session: HostSession, run: Run) -> bool:
    """Tell whether a host has the folder of a run, or what should hold it, and can read nothing of it."""
    from armada.monitor.observe import ask_about

    look = ask_about(session, run).run
    return look.exists and look.evidence is None


def _without_host(
    context: Context, run: Run, options: argparse.Namespace, why: ArmadaError, agreed: tuple[object, ...] | None
) -> Handled:
    """Forget it at home alone, and name what is lost with that.

    Raises:
        ArmadaError: What kept its host from being asked, where nobody said that the host is gone.
    """
    from armada.store import runs
    from armada.sync.checkpoints.apply_retention import tidy

    runs.require(context.database, run.run_id)
    run = runs.find(context.database, run.run_id)
    if not options.dry_run:
        with _despite_unseen(options):
            tidy(context.database, context.home, run.run_id)
    found = _find_lost(context, run)
    lost = found.sentences(run.host)
    told: dict[str, object] = {**_told(context, run, found), "host_error": str(why)}
    if options.dry_run:
        lines = (
            f"{sanitize_line(why)}; nothing could be deleted there",
            f"armada rm {run.run_id} --without-host would remove it from home only, and give up:",
            *(f"  {line}" for line in lost or ["nothing: everything that armada knows of it is at home"]),
        )
        return Handled({**told, "forgotten": False}, lines)
    if not (options.force or options.without_host):
        what = "; ".join(lost) or "nothing: everything that armada knows of it is at home"
        why.message = f"{why.message}. Removing {run.run_id} without its host gives up: {what}"
        why.hint = f"if the host is gone for good: armada rm {run.run_id} --without-host" + (
            f"; {why.hint}" if why.hint else ""
        )
        raise why
    _require_answer(context, run, options, agreed, found.kinds)
    said = _forget(context, run)
    is_known = run.host in context.hosts()
    stay = f"  its files on {run.host} stay there; armada recover --host {run.host} finds them again"
    lines = (
        f"{run.run_id} removed at home only: {sanitize_line(why.message, 300)}{said}",
        *_given_up(lost),
        *([stay] if is_known else []),
    )
    return Handled({**told, "forgotten": True, "had_host": False}, lines)


def _find_lost(context: Context, run: Run) -> OnlyOnHost:
    """Find what only its host has, as far as home knows."""
    from armada.sync.release.only_on_host import find_only_on_host

    host = context.hosts().get(run.host)
    tariff = host.tariff() if host is not None else None
    price = tariff.price_at(time.time()) if tariff is not None else None
    return find_only_on_host(context.database, run, price=price, now=time.time())


def _given_up(sentences: Sequence[str]) -> list[str]:
    return [f"  given up   {line}" for line in sentences]


def _told(context: Context, run: Run, lost: OnlyOnHost | None = None) -> _Removal:
    from armada.store import checkpoints

    home = [str(c.home_path) for c in checkpoints.of_run(context.database, run.run_id) if c.home_path is not None]
    given_up = None if lost is None else {**lost.as_json(), "sentences": lost.sentences(run.host)}
    return {"run_id": run.run_id, "host": run.host, "kept_home": home, "given_up": given_up, "host_error": None}


def _forget(context: Context, run: Run) -> str:
    """Take it out of the store; says which checkpoints stay. The record of its launch stays with them."""
    from armada.records.launch_record import forget_record
    from armada.store import checkpoints, runs
    from armada.sync.checkpoints.lock import leave

    folder = context.home.checkpoints(run.run_id)
    home = [c for c in checkpoints.of_run(context.database, run.run_id) if c.home_path is not None]
    runs.delete(context.database, run.run_id)
    if not home:
        forget_record(context.home, run.run_id)
    leave(folder)
    return f"; {counted(len(home), 'checkpoint')} kept in {folder}" if home else ""
