"""`armada hosts release`: check whether a host can be destroyed without losing anything."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import sys
import time
from typing import TYPE_CHECKING, Any

from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import ArmadaError, Conflict, HostUnreachable, OutcomeUnknown, UnexpectedAnswer, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.config.hosts import Host
    from armada.foundation.progress import Progress
    from armada.protocol.host import ForgottenSecrets
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.operations import Operation
    from armada.store.running_operations import OperationProgress
    from armada.sync.context import HostContext
    from armada.sync.release.second_look import Ground
    from armada.verdicts.release import Item

WIPED = "wiped"
"""The last step of a release that deleted everything."""
_NEVER_AGAIN = -1.0
"""The patience, in seconds, with a request that is not worth a new connection: that would put the agent back."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    release = verbs.add_parser(
        "release",
        help="Check whether a host can be destroyed, or left",
        description="List what would be lost if you destroyed the host, or deleted your files on a cluster. Exits with 0 "
        "if nothing, with 8 otherwise. Deletes secrets there that no run needs any more. Of this machine, where home is, it "
        "lists what is not at home yet: do not destroy it.",
    )
    add_host_name(release)
    release.add_argument("--drain", action="store_true", help="Bring everything home first")
    release.add_argument(
        "--ignore-work",
        action="store_true",
        help="Ignore files that sync.outputs does not name, and the parts of logs that exceed sync.log_limit",
    )
    release.add_argument(
        "--wipe", action="store_true", help="If nothing would be lost, delete all of armada's files on the host"
    )
    release.add_argument(
        "--dry-run", action="store_true", help="Only report: fetch nothing and delete nothing, not even secrets"
    )
    release.add_argument("--yes", "-y", action="store_true", help="Wipe without asking")
    release.add_argument("--json", action="store_true", help="Print a JSON object")
    release.set_defaults(handler=_release)


def _release(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.provision.admission import putting
    from armada.store.running_operations import WIPING
    from armada.sync.context import HostContext
    from armada.sync.release.judge import losses, settle_stopped
    from armada.sync.release.second_look import see_ground
    from armada.sync.release.words import nothing_lost, something_lost

    context = Context()
    host = context.host(options.name)
    if options.wipe and not options.yes and not options.dry_run and not sys.stdin.isatty():
        raise UsageError("--wipe asks for confirmation, and there is no terminal", hint="add --yes")
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    wipes = _wipes(context, host.name)
    with (
        _recorded(context, options) as recorded,
        _alone(context, host.name, options, reporter),
        context.session(host.name, patience_s=20) as session,
    ):
        if (wiped_by := _wiped_since(context, host.name, wipes)) is not None and not options.dry_run:
            return _say_wiped(host, wiped_by, reporter, as_json=options.json)
        if options.drain and recorded is not None:
            _drain(context, session, recorded.and_tell(reporter))
        if not options.dry_run:
            settle_stopped(session)
        there = putting(context.database, host.name)
        progress = reporter if recorded is None else recorded.and_tell(reporter)
        there_now = HostContext(context.database, session, context.home)
        judge = functools.partial(_judge, there_now, progress, reporter, ignore_work=options.ignore_work)
        ground = see_ground(session)
        clearing = None
        if recorded is not None:
            clearing = functools.partial(_begin_clearing, context.database, recorded, host.name, there)
        items, secrets = judge(ground, clearing)
        lost = losses(items)
        wipes_now = options.wipe and not (lost or options.dry_run)
        if wipes_now and not options.yes:
            _ask(session)
            # While the person thought, a job may have saved, and another home may have launched.
            ground = see_ground(session)
            items, _ = judge(ground, None)
            lost = losses(items)
        wiped = None
        if wipes_now and not lost and recorded is not None:
            recorded.hold(WIPING)  # the daemon leaves the host alone from now on: its next look would undo this
            wiped = _wipe(there_now, ground)
            recorded.hold(WIPED)
    if options.json:
        print_json(_as_json(host, safe=not lost, items=[dataclasses.asdict(item) for item in items], wiped=wiped))
        return 8 if lost else 0
    for item in items:
        reporter.line(f"{'✗' if item.lost else '·'} {item.run_id}: {item.what}")
        if item.hint:
            reporter.line(f"    → {item.hint}")
    if secrets is not None and secrets.removed:
        reporter.line(f"secrets of {counted(len(secrets.removed), 'run')} deleted there")
    if secrets is not None and secrets.kept:
        reporter.line(f"secrets of {', '.join(secrets.kept)} stay there: a job may still need them")
    if wiped is not None:
        reporter.line(f"deleted there: {', '.join(map(sanitize_line, wiped)) or 'nothing was left'}")
    if lost:
        drain = "" if options.drain else f"; armada hosts release {host.name} --drain brings home what it can"
        reporter.line(something_lost(host.name, host.scheduler, "everything marked ✗", is_local=host.local) + drain)
        return 8
    reporter.line(nothing_lost(host.name, host.scheduler, is_local=host.local))
    return 0


def _begin_clearing(database: Database, recorded: OperationProgress, host: str, before: frozenset[str]) -> None:
    from armada.provision.admission import begin_clearing
    from armada.store.running_operations import CLEARING

    begin_clearing(database, recorded.id, host, before)
    recorded.hold(CLEARING)


def _judge(
    context: HostContext,
    progress: Progress,
    reporter: Reporter,
    ground: Ground,
    clearing: Callable[[], None] | None,
    *,
    ignore_work: bool,
) -> tuple[list[Item], ForgottenSecrets | None]:
    """Judge what the host had, and, unless it is only a look, delete secrets after `clearing`."""
    from armada.sync.release.judge import judge_and_forget_secrets, judge_host

    listed, secrets = ground.listed, None
    if clearing is None:
        items = judge_host(context, ignore_work=ignore_work, progress=progress, listed=listed)
    else:
        items, secrets = judge_and_forget_secrets(
            context, ignore_work=ignore_work, progress=progress, judged=clearing, listed=listed
        )
    reporter.clear()
    return items, secrets


def _as_json(host: Host, *, safe: bool, items: list[dict[str, Any]], wiped: list[str] | None) -> dict[str, object]:
    """Return the answer as JSON. `safe`: nothing there would be lost; where `local` is true, home is on the same machine."""
    head = {"host": host.name, "scheduler": host.scheduler, "local": host.local}
    return {**head, "safe": safe, "items": items, "wiped": wiped}


def _recorded(
    context: Context, options: argparse.Namespace
) -> contextlib.AbstractContextManager[OperationProgress | None]:
    """An operation, unless it is only a look."""
    from armada.store.running_operations import operation

    if options.dry_run:
        return contextlib.nullcontext()
    return operation(context.database, kind="release", host=options.name, argv=sys.argv)


def _alone(
    context: Context, host: str, options: argparse.Namespace, reporter: Reporter
) -> contextlib.AbstractContextManager[None]:
    """One release of a host after the other, unless it is only a look."""
    from armada.provision.exclusive_lock import exclusive_lock

    if options.dry_run:
        return contextlib.nullcontext()
    return exclusive_lock(
        context.home.lock(f"release-{host}"), f"release of {host}", lambda who: reporter.stage("waiting", who)
    )


def _wipes(context: Context, host: str) -> frozenset[str]:
    """The ids of the releases that deleted everything on a host."""
    from armada.store import operations

    return frozenset(
        each.id for each in operations.on_host(context.database, host) if each.kind == "release" and each.step == WIPED
    )


def _wiped_since(context: Context, host: str, before: frozenset[str]) -> Operation | None:
    from armada.store import operations

    new = _wipes(context, host) - before
    return operations.find(context.database, max(new)) if new else None


def _say_wiped(host: Host, by: Operation, reporter: Reporter, *, as_json: bool) -> int:
    if as_json:
        print_json(_as_json(host, safe=True, items=[], wiped=[]))
    else:
        reporter.line(
            f"{host.name} was just wiped by another armada (process {by.pid}); no files of armada are left there"
        )
    return 0


def _drain(context: Context, session: HostSession, progress: Progress) -> None:
    """Sync every run of the host that this home knows; what does not come is in the verdict afterwards."""
    from armada.store import runs
    from armada.sync.context import SyncContext
    from armada.sync.release.judge import runs_there
    from armada.sync.runs.sync_run import sync_whole

    there = set(runs_there(session))
    for run in runs.every(context.database, host=session.host.name):
        if run.run_id not in there:
            continue
        try:
            outcome = sync_whole(
                SyncContext(context.database, session, context.home, run.run_id),
                progress=progress,
            )
            for trouble in outcome.troubles:
                sys.stderr.write(f"armada: {run.run_id}: {sanitize_line(trouble.error)}\n")
        except HostUnreachable:
            raise
        except ArmadaError as error:
            sys.stderr.write(f"armada: {run.run_id}: {sanitize_line(error)}\n")


def _ask(session: HostSession) -> None:
    """Ask the person whether all is deleted.

    Raises:
        Conflict: It is not.
    """
    answer = input(f"Delete everything of armada's below {session.paths.root} on {session.host.name}? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise Conflict("not wiped; only secrets were deleted there", host=session.host.name)


def _wipe(context: HostContext, ground: Ground) -> list[str]:
    """Delete everything that was judged; the host refuses if it has anything else by now.

    Raises:
        Conflict: The host refused.
        OutcomeUnknown: It did not answer.
        ArmadaError: It could not delete everything.
    """
    from armada.protocol.host import ForgetWipe
    from armada.store import checkpoints, run_sync, runs
    from armada.store import hosts as host_records
    from armada.sync.release.second_look import wipe_of

    database, session, there = context.database, context.session, set(ground.listed.submissions)
    try:
        answered = session.call(wipe_of(context, ground), timeout_s=900.0)
    except (HostUnreachable, UnexpectedAnswer) as error:
        what = f"it is unknown whether everything of armada's was deleted there: {error.message}"
        raise OutcomeUnknown(what, hint="run the same command again: it checks that", host=session.host.name) from error
    except ArmadaError:  # something is there: after an earlier wipe, too, it is watched again
        host_records.mark_released(database, session.host.name, None)
        raise
    gone = sorted({*ground.wiped, *([answered.root] if answered.root is not None else [])})
    for root in gone:
        runs.mark_wiped(database, session.host.name, root)
    for run in runs.every(database, host=session.host.name):
        if run.run_id in there or (run.wiped_root is not None and run.wiped_root == run.root_id):
            checkpoints.record_outbox(database, run.run_id, [])  # others may be on a root that is away
            run_sync.nothing_is_left(database, [run.run_id])
    host_records.mark_released(database, session.host.name, time.time())
    with contextlib.suppress(ArmadaError), session.patient(_NEVER_AGAIN):  # a small file stays where this fails
        session.call(ForgetWipe(roots=tuple(gone)))
    return list(answered.removed)
