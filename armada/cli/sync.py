"""`armada sync now | ls | verify | retention`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from armada.cli.options import add_runs
from armada.cli.printing import error_fields, print_json
from armada.cli.pull import lost_of, lost_words
from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.home import own
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.cli.context import Context
    from armada.config.sync import SyncSettings
    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run
    from armada.store.transfers import Transfer
    from armada.sync.runs.report import SyncOutcome
    from armada.verdicts.retention import Decision

DAMAGED = 7
"""The exit code where something that should be at home is not: no such thing."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "sync",
        help="Sync, verify and prune results",
        description="Bring checkpoints, logs and outputs home, verify them, and delete what no rule keeps.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)

    now = verbs.add_parser(
        "now",
        help="Sync runs now",
        description="Sync runs now, all hosts in parallel (default: all runs that may have new results).",
    )
    add_runs(now)
    now.add_argument(
        "--dry-run",
        action="store_true",
        help="Ask the hosts and list what would be fetched and deleted; fetch and delete nothing",
    )
    now.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    now.set_defaults(handler=_now)

    ls = verbs.add_parser(
        "ls",
        help="List what is at home and what is pending",
        description="List for each run which checkpoints are at home, which are pending, and why.",
    )
    ls.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    ls.set_defaults(handler=_ls)

    verify = verbs.add_parser(
        "verify",
        help="Verify checkpoints at home",
        description="Compare checkpoints at home with their manifests. Fetch damaged ones again if the host "
        "still has them.",
    )
    add_runs(verify, default="all runs")
    verify.add_argument("--read-data", action="store_true", help="Verify every byte, not only names and sizes")
    verify.add_argument("--no-repair", action="store_true", help="Report damage; repair nothing")
    verify.add_argument("--json", action="store_true", help="Print a JSON object")
    verify.set_defaults(handler=_verify)

    retention = verbs.add_parser(
        "retention",
        help="Delete checkpoints that no rule keeps",
        description="Delete checkpoints that no retention rule keeps. On a host, delete only those that are "
        "verified at home.",
    )
    add_runs(retention, default="all runs")
    retention.add_argument(
        "--dry-run",
        action="store_true",
        help="List each checkpoint with the rule that keeps or deletes it; delete nothing",
    )
    retention.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    retention.set_defaults(handler=_retention)


def _chosen(context: Context, prefixes: Sequence[str]) -> list[Run]:
    from armada.store import runs

    return [context.run(prefix) for prefix in prefixes] or runs.every(context.database)


def _missing(known: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Those that were home, and whose folder a person deleted since, or is not seen."""
    from armada.sync.checkpoints.folders import is_seen

    return [each for each in known if each.home_path is not None and not is_seen(each.home_path)]


def _now(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.store import checkpoints, run_sync
    from armada.sync.checkpoints.recognition import find_unrecorded
    from armada.sync.runs.sync_hosts import sync_hosts

    context = Context()
    done = run_sync.every(context.database)
    chosen = [
        run
        for run in _chosen(context, options.runs)
        if options.runs
        or (run.state != "preparing" and not (run.run_id in done and done[run.run_id].final_done))
        or any(each.on_host for each in _missing(checkpoints.of_run(context.database, run.run_id)))
        or any(find_unrecorded(context.database, context.home, run.run_id))
    ]
    if options.dry_run:
        return _preview(context, chosen, as_json=options.json)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    results = sync_hosts(context.home, context.hosts_of_runs(*chosen), chosen, progress=reporter)
    code = 0
    listed: list[dict[str, object]] = []
    for result in results:
        if result.error is not None:
            code = code or result.error.exit_code
            sys.stderr.write(f"armada: {sanitize_line(result.error)}\n")
            if result.error.hint:
                sys.stderr.write(f"  → {sanitize_line(result.error.hint)}\n")
            fields = error_fields(result.error)
            listed += [{"run_id": run.run_id, "error": fields} for run in chosen if run.host == result.host]
        for outcome in result.outcomes:
            known = checkpoints.of_run(context.database, outcome.run_id)
            for trouble in outcome.troubles:
                code = code or 1
                sys.stderr.write(f"armada: {outcome.run_id}: {trouble.cause}: {sanitize_line(trouble.error)}\n")
                if trouble.error.hint:
                    sys.stderr.write(f"  → {sanitize_line(trouble.error.hint)}\n")
            listed.append(
                {
                    "run_id": outcome.run_id,
                    "published": [str(place) for place in outcome.published],
                    "size_bytes": outcome.size_bytes,
                    "pending": list(outcome.pending),
                    "outputs": list(outcome.outputs.fetched),
                    "outputs_kept": list(outcome.outputs.kept),
                    "deleted_home": [str(place) for place in outcome.deleted_home],
                    "deleted_host": list(outcome.deleted_host),
                    "troubles": [{"cause": t.cause, "message": t.error.message} for t in outcome.troubles],
                    "final": outcome.final,
                    "lost": [{"step": each.step, "digest": each.digest} for each in lost_of(known)],
                }
            )
            if not options.json:
                lost = lost_words(known)
                reporter.stage("synced", f"{outcome.run_id}: {_done(context.home, outcome)}{lost and f'; {lost}'}")
    if options.json:
        print_json(listed)
    elif not results:
        reporter.line("nothing to sync: every run that has ended is home")
    return code


def _preview(context: Context, chosen: Sequence[Run], *, as_json: bool) -> int:
    from armada.sync.context import HostContext
    from armada.sync.runs.preview import Preview, preview

    by_host: dict[str, list[Run]] = {}
    for run in chosen:
        by_host.setdefault(run.host, []).append(run)
    found: list[Preview] = []
    code = 0
    for theirs in by_host.values():
        try:
            with context.session_of(theirs[0], patience_s=0) as session:
                found += preview(HostContext(context.database, session, context.home), [run.run_id for run in theirs])
        except ArmadaError as error:
            code = code or error.exit_code
            sys.stderr.write(f"armada: {sanitize_line(error)}\n")
    if as_json:
        listed = [
            {
                "run_id": each.run_id,
                "checkpoints": [{"step": c.step, "size_bytes": c.size_bytes} for c in each.checkpoints],
                "outputs": [item.path for item in each.outputs],
                "deleted_home": list(each.deleted_home),
                "deleted_host": list(each.deleted_host),
                "optimizers_home": list(each.optimizers_home),
            }
            for each in found
        ]
        print_json(listed)
        return code
    for each in found:
        size = amount(sum(c.size_bytes for c in each.checkpoints) + sum(item.size_bytes for item in each.outputs))
        what = f"{counted(len(each.checkpoints), 'checkpoint')}, {counted(len(each.outputs), 'other file')}, {size}"
        print(f"{each.run_id}: {what} at most would be fetched")
        for where, steps in (("here", each.deleted_home), ("on the host", each.deleted_host)):
            if steps:
                print(f"  retention would then delete {where}: {_steps(steps)}")
        if each.optimizers_home:
            print(f"  retention would then delete here the optimizer states of {_steps(each.optimizers_home)}")
    print("nothing was fetched or deleted (--dry-run)")
    return code


def _steps(steps: Sequence[int]) -> str:
    return ", ".join(f"checkpoint-{step}" for step in steps)


def _done(home: HomePaths, outcome: SyncOutcome) -> str:
    from armada.sync.outputs.replaced import REPLACED

    kept = counted(len(outcome.outputs.kept), "file")
    aside = home.run(outcome.run_id) / REPLACED
    parts = [
        counted(len(outcome.published), "checkpoint") if outcome.published else "",
        counted(len(outcome.outputs.fetched), "other file") if outcome.outputs.fetched else "",
        f"{kept} of which the host has no later version moved to {aside}" if outcome.outputs.kept else "",
        f"{len(outcome.deleted_host)} deleted on the host" if outcome.deleted_host else "",
        f"{len(outcome.deleted_home)} deleted here{_left(outcome.deleted_home)}" if outcome.deleted_home else "",
        f"{len(outcome.pending)} still to come" if outcome.pending else "",
    ]
    return ", ".join(filter(None, parts)) or ("nothing came" if outcome.troubles else "nothing new")


def _left(deleted: Sequence[Path]) -> str:
    """Say which folders of deleted checkpoints stay, because armada did not put all that is in them there."""
    left = [place for place in deleted if place.is_dir()]
    return f" (but for your own files in {', '.join(map(str, left))})" if left else ""


def _ls(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.table import table
    from armada.cli.unwatched import STARTS_S, say_unwatched
    from armada.store import checkpoints, run_sync, runs, transfers
    from armada.sync.checkpoints.folders import find_deleted
    from armada.sync.schedule.due import NOT_WANTED

    context = Context(reads=True)
    now = time.time()
    records = run_sync.every(context.database)
    rows, listed = [], []
    unfetched: list[str] = []
    for run in runs.every(context.database):
        record = records.get(run.run_id, run_sync.RunSync(run.run_id))
        known = checkpoints.of_run(context.database, run.run_id)
        missing = _missing(known)
        deleted = find_deleted(context.database, known)
        home = [c for c in known if c.is_good_home and c not in missing]
        others = [c for c in known if c.home_path is not None and not c.is_good_home and c not in missing]
        unread = [c for c in others if c.is_unread]
        damaged = [c for c in others if not c.is_unread]
        waiting = [c for c in known if c.on_host and c not in home]
        moving = [
            t for t in transfers.of_run(context.database, run.run_id).values() if t.state not in ("done", "waiting")
        ]
        last = f"{span(now - record.last_at)} ago" if record.last_at else "never"
        if record.failing_since is not None:
            condition = f"failing for {span(now - record.failing_since)}: {sanitize_line(record.reason or '', 60)}"
        elif moving:
            condition = "; ".join(_moving(t) for t in moving[:2])
        elif len(missing) > len(deleted):
            unseen = counted(len(missing) - len(deleted), "checkpoint")
            condition = f"{unseen} not seen here: a disk may not be mounted"
        elif deleted:
            there = sum(1 for c in deleted if c.on_host)
            parts = [f"{there} deleted here: armada sync now fetches again"] if there else []
            parts += [f"{len(deleted) - there} deleted here, and gone from the host"] if there < len(deleted) else []
            condition = "; ".join(parts)
        else:
            due_now = any(c.trouble != NOT_WANTED for c in waiting)
            condition = _planned(record, now, due_now=due_now, lost=lost_words(known), damaged=len(damaged))
        if now - run.created_at > STARTS_S:
            unfetched += [run.host for c in waiting if c.trouble != NOT_WANTED]
        size = amount(sum(c.size_bytes for c in home))
        not_read = f", {len(unread)} not read" if unread else ""
        kept = f"{len(home)} ({size}){not_read}{f', {len(damaged)} damaged' if damaged else ''}"
        rows.append((run.run_id, run.host, kept, str(len(waiting)), last, condition))
        listed.append(
            {
                "run_id": run.run_id,
                "host": run.host,
                "home": len(home),
                "damaged": [{"digest": c.digest, "step": c.step, "trouble": c.trouble} for c in damaged],
                "waiting": [{"digest": c.digest, "step": c.step, "trouble": c.trouble} for c in waiting],
                "last_at": record.last_at,
                "next_due_at": None if record.final_done else record.next_due_at,
                "failing_since": record.failing_since,
                "reason": record.reason,
                "final_done": record.final_done,
            }
        )
    if options.json:
        print_json(listed)
    elif rows:
        print(table(("RUN", "HOST", "HOME", "WAITING", "LAST SYNC", "NOW"), rows))
        say_unwatched(context, unfetched, lambda count: f"brings {counted(count, 'waiting checkpoint')} home")
    else:
        print("No runs.")
    return 0


def _planned(record: RunSync, now: float, *, due_now: bool, lost: str, damaged: int) -> str:
    if record.is_put_off(now):
        return f"waits: {sanitize_line(record.reason or '', 100)}"
    if record.requested_at is not None:
        return "asked for"
    if record.final_done and damaged:
        return f"{counted(damaged, 'checkpoint')} damaged at home"
    if record.final_done:
        return lost or "all home"
    if due_now:
        return "due now"  # its turn comes, if its window is open
    if record.next_due_at is None:
        return "—"
    return f"next in {span(record.next_due_at - now)}" if record.next_due_at > now else "due now"


def _moving(transfer: Transfer) -> str:
    from armada.store.transfers import LIVES_S

    if transfer.state == "running" and time.time() - (transfer.updated_at or 0.0) > LIVES_S:
        return f"interrupted at {amount(transfer.done_bytes)}; the next sync continues from there"
    if transfer.state != "running":
        return f"{transfer.state}: {sanitize_line(transfer.reason or '', 60)}"
    text = f"{amount(transfer.done_bytes)} of {amount(transfer.total_bytes or 0)}"
    if transfer.rate:
        left = max(0, (transfer.total_bytes or 0) - transfer.done_bytes) / transfer.rate
        text += f" · {amount(transfer.rate)}/s · {span(left)} left"
    return text


def _verify(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.verify import verify

    context = Context()
    return DAMAGED if verify(context, _chosen(context, options.runs), options) else 0


def _retention(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.table import table
    from armada.config.sync import settings_of
    from armada.store import runs
    from armada.sync.checkpoints import apply_retention
    from armada.sync.checkpoints.folders import only_one_there

    context = Context()
    rows: list[tuple[str, ...]] = []
    listed = []
    code = 0
    for run in _chosen(context, options.runs):
        settings = settings_of(runs.spec(context.database, run.run_id))
        plans = _retention_plans(context, run, settings)
        if not options.dry_run and not all(decision.keep for decisions in plans.values() for decision in decisions):
            with only_one_there(context.database, context.home, run.run_id):
                plans = _retention_plans(context, run, settings)  # another may have done it meanwhile
                deleted = apply_retention.retain_home(context.database, context.home, run.run_id, settings)
                if said := _left(deleted):
                    sys.stderr.write(f"armada: {run.run_id}: {len(deleted)} deleted here{said}\n")
                code = (
                    _prune(context, run, apply_retention.surplus_on_host(context.database, run.run_id, settings))
                    or code
                )
        for (where, part), decisions in plans.items():
            for decision in decisions:
                rows.append(_row(run, where, part, decision))
                listed.append(
                    {
                        "run_id": run.run_id,
                        "where": where,
                        "part": part,
                        "step": decision.candidate.step,
                        "digest": decision.candidate.digest,
                        "keep": decision.keep,
                        "reason": decision.reason,
                    }
                )
    if options.json:
        print_json(listed)
    elif rows:
        print(table(("RUN", "WHERE", "STEP", "VERDICT", "WHY"), rows))
        gone = sum(1 for row in rows if row[3].startswith("delete"))
        print(f"{gone} to delete" + (" (--dry-run: none was deleted)" if options.dry_run and gone else ""))
    else:
        print("No checkpoints.")
    return code


def _retention_plans(context: Context, run: Run, settings: SyncSettings) -> dict[tuple[str, str], list[Decision]]:
    """Return the decisions by where the checkpoints are and by what would go: they themselves, or their optimizer states."""
    from armada.sync.checkpoints import apply_retention

    states = apply_retention.plan_optimizers(context.database, run.run_id, settings)
    return {
        ("home", "checkpoint"): apply_retention.plan_home(context.database, run.run_id, settings),
        ("home", "optimizer"): [decision for decision in states if not decision.keep],
        (run.host, "checkpoint"): apply_retention.plan_host(context.database, run.run_id, settings),
    }


def _row(run: Run, where: str, part: str, decision: Decision) -> tuple[str, ...]:
    verdict = "keep" if decision.keep else "delete" if part == "checkpoint" else "delete its optimizer state"
    return (run.run_id, where, str(decision.candidate.step), verdict, decision.reason)


def _prune(context: Context, run: Run, digests: list[str]) -> int:
    from armada.protocol.homes import AskingHome
    from armada.protocol.outbox import Prune
    from armada.store import checkpoints
    from armada.sync.checkpoints.folders import require_same

    if not digests:
        return 0
    try:
        with context.session_of(run, patience_s=10) as session:
            home = AskingHome(**own(context.home).as_json())
            require_same(context.database, run.run_id)
            answer = session.call(Prune(run_id=run.run_id, digests=tuple(digests), home=home), timeout_s=300.0)
    except ArmadaError as error:
        sys.stderr.write(f"armada: {sanitize_line(error)}\n")
        return error.exit_code
    for digest in answer.pruned:
        checkpoints.mark_off_host(context.database, run.run_id, digest)
    for why in sorted(set(answer.refused.values())):
        sys.stderr.write(f"armada: {run.run_id}: not deleted on {run.host}: {why}\n")
    return 0
