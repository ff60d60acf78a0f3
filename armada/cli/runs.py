"""`armada ps | show | stop`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.disks import foreseen, say_full_soon
from armada.cli.homes import add_flag, ask_owner, owner
from armada.cli.options import add_run
from armada.cli.printing import FORMAT, print_json
from armada.errors import HostUnreachable, NotFound, OutcomeUnknown, RunFailed
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.units import amount, counted, span
from armada.verdicts.states import STATE_GLYPHS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.cli.context import Context
    from armada.protocol.runs import Quota
    from armada.store.runs import Run


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ps = commands.add_parser(
        "ps", help="List runs", description="Ask the hosts for the state of their runs and list them, newest first."
    )
    ps.add_argument("--cached", action="store_true", help="List what the local database holds; ask no host")
    ps.add_argument("--all", "-a", action="store_true", help="Also list runs that ended more than a day ago")
    ps.add_argument("--why", action="store_true", help="Show the evidence for each state")
    ps.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    ps.set_defaults(handler=_ps)

    show = commands.add_parser(
        "show",
        help="Show the details of a run",
        description="Show the details of a run: its state, history, checkpoints and command.",
    )
    add_run(show)
    show.add_argument("--json", action="store_true", help="Print a JSON object, including the run's spec")
    show.set_defaults(handler=_show)

    stop = commands.add_parser(
        "stop", help="Stop a run", description="Stop a run: send SIGTERM, wait for the grace period, then send SIGKILL."
    )
    add_run(stop)
    stop.add_argument("--grace", type=_seconds, metavar="S", help="Grace period in seconds (default: the experiment's)")
    add_flag(stop)
    stop.add_argument("--json", action="store_true", help="Print a JSON object: the run after it ended")
    stop.set_defaults(handler=_stop)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def summary(run: Run) -> dict[str, object]:
    """A run as `--json` shows it."""
    internal = {
        "metrics_offset",
        "events_offset",
        "seq",
        "root_id",
        "wiped_root",
        "seen_boot",
        "seen_at_s",
        "less_boot",
        "less_since_s",
    }
    # Not `asdict`, which copies every value deeply: half the time that a thousand runs take.
    fields = {each.name: getattr(run, each.name) for each in dataclasses.fields(run) if each.name not in internal}
    return {"format": FORMAT, **fields, "eta_s": run.eta_s}


def seen(run: Run, now: float) -> str:
    """How old what we know is, and since when nothing more can be known."""
    if run.unreachable_since is not None:
        return f"unreachable since {time.strftime('%H:%M', time.localtime(run.unreachable_since))}"
    return f"{span(now - run.observed_at)} ago" if run.observed_at is not None else "not yet"


def condition(run: Run) -> str:
    words = run.state if not run.reason or run.state == "succeeded" else f"{run.state}: {run.reason}"
    return f"{STATE_GLYPHS.get(run.state, '?')} {words}"


def _ps(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.home import own
    from armada.store import hosts, runs

    context = Context(reads=True)
    if not (options.cached or context.is_read_only):
        from armada.daemon.status import seen_hosts
        from armada.monitor.observe import observe_all
        from armada.operations import being_launched

        launching = being_launched(context.database)
        unsure = runs.every(context.database, active=True)
        unsure = [run for run in unsure if run.state != "preparing" or run.run_id not in launching]
        configured = context.home.hosts_file.exists() or (Path.cwd() / "armada.yaml").exists()
        hosts_known = context.hosts() if unsure or configured else {}  # reading them costs 0.2 s
        watched = seen_hosts(context.home)  # by a daemon, just now: its word is in the store
        unsure = [run for run in unsure if run.host not in watched]
        for name, why in (observe_all(context.home, hosts_known, unsure) if unsure else {}).items():
            sys.stderr.write(f"armada: {name}: {sanitize_line(why)}\n")
    found = runs.every(context.database)
    if not found and (words := context.forgotten()) is not None:
        sys.stderr.write(f"armada: {words}\n  → armada recover finds them again\n")
    disks = {record.name: record.forecast for record in hosts.every(context.database) if record.forecast is not None}
    if options.json:
        full = {name: forecast.full_at for name, forecast in disks.items()}
        listed = [{**summary(run), "host_disk_full_at": None if run.ended else full.get(run.host)} for run in found]
        print("[" + ",\n ".join(map(json.dumps, listed)) + "]")  # a run a line; `indent` is slow
        return 0
    now = time.time()
    recent = [run for run in found if options.all or not run.ended or now - (run.ended_at or run.created_at) < 86_400]
    if not recent:
        print("No runs." if not found else f"No runs in the last day; {len(found)} older: armada ps --all")
        if not found:
            print("Start one with: armada launch --host local quickstart --follow")
        return 0
    from armada.cli.table import table

    if options.why:
        print(table(("RUN", "HOST", "STATE", "SEEN", "BECAUSE"), [_evidence(run, now) for run in recent]))
    else:
        rows = [_row(run, now) for run in recent]
        print(table(("RUN", "HOST", "STATE", "STEP", "LOSS", "TOK/S", "HOME", "SEEN"), rows))
    others = {} if context.is_read_only else runs.launchers(context.database, own(context.home).id)
    for label in sorted({others[run.run_id] for run in recent if run.run_id in others}):
        print(f"launched by {label}: {', '.join(run.run_id for run in recent if others.get(run.run_id) == label)}")
    busy = {run.host for run in found if not run.ended}
    say_full_soon({name: forecast for name, forecast in disks.items() if name in busy}, now)
    _say_unfinished(context, now)
    if len(recent) < len(found):
        print(f"({len(found) - len(recent)} older: armada ps --all)")
    return 0


def _row(run: Run, now: float) -> tuple[str, ...]:
    step = "—" if run.step is None else f"{run.step}/{run.total_steps}" if run.total_steps else str(run.step)
    loss = run.loss_text or "—"
    speed = "—" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}"
    there = max(run.checkpoints_host, run.checkpoints_home)
    kept = f"{run.checkpoints_home} of {there}" if there else "—"
    return (run.run_id, run.host, condition(run), step, loss, speed, kept, seen(run, now))


def _say_unfinished(context: Context, now: float) -> None:
    import shlex

    from armada.operations import unfinished

    for each in unfinished(context.database, now):
        what = f"{each.kind}{f' of {each.run_id}' if each.run_id else ''}{f' on {each.host}' if each.host else ''}"
        again = sanitize_line(shlex.join(["armada", *each.argv[1:]]), 200)
        print(
            f"⚠ {what} was interrupted {span(now - each.updated_at)} ago. Run the same command again to continue: {again}"
        )


def _evidence(run: Run, now: float) -> tuple[str, ...]:
    because = run.because or "nobody has looked yet"
    if run.unreachable_since is not None:
        because += f" (before {run.host} stopped answering: {sanitize_line(run.unreachable_why, 80)})"
    return (run.run_id, run.host, condition(run), seen(run, now), because)


def _look(context: Context, run: Run) -> Run:
    """The run as it is now; as last known, with its age, where the host does not answer."""
    from armada.monitor.observe import observe
    from armada.store import runs

    if context.is_read_only:
        return run
    try:
        with context.session_about(run, patience_s=0) as session:
            observe(context.database, session, [run])
    except (HostUnreachable, NotFound) as error:
        sys.stderr.write(f"armada: {sanitize_line(error)}; showing what was last seen\n")
    return runs.find(context.database, run.run_id)


def _show(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.store import checkpoints, hosts, metrics, runs

    context = Context(reads=True)
    run = context.run(options.run)
    if not run.ended or run.is_guess:
        run = _look(context, run)
    spec = runs.spec(context.database, run.run_id)
    kept = checkpoints.of_run(context.database, run.run_id)
    quota = _allowance(context, run, spec)
    if options.json:
        told = quota.model_dump(exclude_unset=True) if quota is not None else None
        listed = [{**dataclasses.asdict(c), "home_path": str(c.home_path) if c.home_path else None} for c in kept]
        print_json({**summary(run), "spec": spec, "checkpoints": listed, "quota": told})
        return 0
    now = time.time()
    print(f"{run.run_id}   {condition(run)}   on {run.host}, seen {seen(run, now)}")
    if launcher := owner(context, run):
        print(f"  launched by {launcher.named}, not by this home")
    if run.message:
        print(f"  {sanitize_line(run.message)}")
    if run.step is not None:
        # A script's step is that of its last checkpoint, and all that is known of it.
        facts = [f"step {run.step}" + (f" of {run.total_steps}" if run.total_steps else "")]
        facts += [f"{span(run.eta_s)} left"] if run.eta_s else []
        loss = run.loss_not_finite if run.loss is None else str(run.loss)
        facts += [f"loss {loss}"] if loss is not None else []
        facts += [f"{run.tokens_per_s:,.0f} tok/s"] if run.tokens_per_s is not None else []
        print(f"  {', '.join(facts)}")
    for when, state, reason, message in runs.transitions(context.database, run.run_id):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
        print(
            f"  {stamp}  {state}{f': {reason}' if reason else ''}{f' ({sanitize_line(message, 120)})' if message else ''}"
        )
    if run.unreadable_count:
        print(
            f"  unreadable {counted(run.unreadable_count, 'line')} of its own records; the first: {sanitize_line(run.unreadable)}"
        )
    losses = metrics.curve(context.database, run.run_id, "eval_loss")
    if losses:
        print("  eval loss  " + "  ".join(f"{metrics.figure(value)} at {step}" for step, value in losses[-6:]))
    if not run.ended and (host := hosts.find(context.database, run.host)) and host.forecast:
        clause = foreseen(host.forecast)
        print(f"  disk       {amount(host.forecast.free_bytes)} free there{f'; {clause}' if clause else ''}")
    _say_log(context, run)
    for checkpoint in kept:
        trouble = f"  ({sanitize_line(checkpoint.trouble)})" if checkpoint.trouble else ""
        if checkpoint.is_good_home:
            where = f"home, verified: {checkpoint.home_path}"
        elif checkpoint.home_path:
            where = f"not good at home{f', also on {run.host}' if checkpoint.on_host else ''}: {checkpoint.home_path}"
        elif checkpoint.nowhere:
            where, trouble = checkpoint.nowhere, ""
        else:
            where = f"only on {run.host}"
        print(f"  checkpoint-{checkpoint.step}  {amount(checkpoint.size_bytes)}  {where}{trouble}")
    if quota is not None:
        from armada.monitor.queue import describe_allowance

        print("".join(f"  quota {line}\n" for line in describe_allowance(quota)), end="")
    if run.state in ("failed", "cancelled"):
        from armada.verdicts.again import resumes_from, resuming_words

        step = resumes_from(spec, (c.step for c in kept if c.on_host))
        verb = "goes on" if step is not None else "starts it again"
        print(f"  next       armada resume {run.run_id} {verb} {resuming_words(step)}")
    argv = mapping(spec.get("job")).get("argv")  # a model would cost 0.15 s
    print("  command    " + sanitize_line(" ".join(map(str, argv)) if isinstance(argv, list) else "", 400))
    return 0


def _say_log(context: Context, run: Run) -> None:
    """Say of a log that came home in two parts that its middle did not."""
    from armada.sync.outputs.listing import output_log
    from armada.sync.outputs.long_logs import END

    begin = output_log(context.home, run.run_id)
    end = begin.with_name(END) if begin is not None else None
    if begin is None or end is None or not end.is_file() or end.is_symlink():
        return
    sizes = f"its first {amount(begin.stat().st_size)} and its last {amount(end.stat().st_size)} are at home"
    print(f"  log        {sizes}; the middle is only on {run.host} (sync.log_limit): {begin.parent}")


def _allowance(context: Context, run: Run, spec: Mapping[str, object]) -> Quota | None:
    """What the site said was left before and after a run, where its host has a `quota:`."""
    if not mapping(spec.get("scheduler")).get("quota"):
        return None
    from armada.monitor.queue import kept_allowance, look_at_allowance

    kept = kept_allowance(context.home, run.run_id)
    if kept is not None and kept.after is not None:
        return kept
    try:
        with context.session(run.host, patience_s=0) as session:
            return look_at_allowance(session, context.home, run.run_id)
    except (HostUnreachable, NotFound):
        return kept  # the age of what is shown is on the first line


def _stop(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.launch.stop import stop_run
    from armada.operations import operation

    context = Context()
    run = context.run(options.run)
    ask_owner(context, run, options, "stop")
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    had_ended = run.ended and not run.is_guess
    with (
        operation(context.database, kind="stop", run_id=run.run_id, host=run.host, argv=sys.argv) as progress,
        context.session(run.host, looks=had_ended) as session,
    ):
        listener = progress.tells(reporter)
        ended = stop_run(context.database, session, run, options.grace, lambda text: listener.now("stopping", text))
    if options.json:
        print_json(summary(ended))
        return 0
    reporter.line(
        f"{run.run_id}: {condition(ended)}"
        + ("" if ended.state == "cancelled" and not had_ended else " (it had ended before)")
    )
    return 0


def verdict(run: Run) -> int:
    """The exit code of a run that was followed to its end: 0 where it succeeded.

    Raises:
        OutcomeUnknown: Its end is only guessed.
        RunFailed: It did not succeed.
    """
    if run.is_guess:
        raise OutcomeUnknown(
            f"whether {run.run_id} has ended is not known: nobody wrote its end, and its batch system no longer knows its job",
            hint=f"armada why {run.run_id}; armada takes this back by itself when the run shows itself",
            host=run.host,
        )
    if run.state != "succeeded":
        raise failure(run)
    return 0


def failure(run: Run) -> RunFailed:
    """What is said of a run that did not succeed."""
    return RunFailed(
        f"{run.run_id} {run.state}: {run.reason or 'no reason recorded'}"
        + (f" ({run.message})" if run.message else ""),
        hint=f"armada why {run.run_id}",
        host=run.host,
    )
