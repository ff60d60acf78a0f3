"""`armada show`: the details of one run."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import time
from typing import TYPE_CHECKING

from armada.cli.disks import foreseen
from armada.cli.homes import owner
from armada.cli.labels import label_lines
from armada.cli.missing_home import describe_missing
from armada.cli.options import add_run
from armada.cli.printing import print_json
from armada.cli.runs import condition, seen, summary
from armada.errors import HostUnreachable, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.cli.context import Context
    from armada.costs.tariff import Tariff
    from armada.protocol.runs import Quota
    from armada.store.checkpoints import Checkpoint
    from armada.store.runs import Run

_SPEED = re.compile(r"_per_s(ec(ond)?)?$")
_MOST_SPEEDS = 4
_SET_LOSS = re.compile(r"eval_.+_loss")
_MOST_SETS = 12


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    show = commands.add_parser(
        "show",
        help="Show the details of a run",
        description="Show the details of a run: its state, history, checkpoints and command.",
    )
    add_run(show)
    show.add_argument("--time", action="store_true", help="Show where the time of a training's step goes")
    show.add_argument("--last", type=_count, metavar="N", help="With --time: the last N steps; 50 by default")
    show.add_argument("--json", action="store_true", help="Print a JSON object, including the run's spec")
    show.set_defaults(handler=_show)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps, such as 50")
    return int(text)


def _show(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.step_times import say_step_times, step_times_fields
    from armada.monitor.step_times import WINDOW, find_advice
    from armada.store import checkpoints, metrics, runs
    from armada.sync.checkpoints.folders import find_deleted

    if options.last is not None and not options.time:
        raise UsageError("--last belongs to --time", hint=f"armada show {options.run} --time --last {options.last}")
    context = Context(reads=True)
    run = context.run(options.run)
    if not run.ended or run.is_guess or run.is_only_told:
        run = _look(context, run)
    last = options.last or WINDOW
    if options.time and not options.json:
        _say_state(context, run)
        say_step_times(context.database, run, last)
        return 0
    spec = runs.spec(context.database, run.run_id)
    kept = checkpoints.of_run(context.database, run.run_id)
    quota = _allowance(context, run, spec)
    if options.json:
        told = quota.model_dump(exclude_unset=True) if quota is not None else None
        gone = {each.digest for each in find_deleted(context.database, kept)}
        listed = [
            {**dataclasses.asdict(c), "home_path": str(c.home_path) if c.home_path and c.digest not in gone else None}
            for c in kept
        ]
        results = metrics.results(context.database, run.run_id)
        value = {**summary(run), "spec": spec, "checkpoints": listed, "quota": told, "results": results}
        value |= {"advice": find_advice(context.database, run.run_id)}
        value |= {"time": step_times_fields(context.database, run, last)} if options.time else {}
        print_json({**value, **_costs(context, run)})
        return 0
    _say_state(context, run)
    _say_cost(context, run)
    _say_records(context, run)
    if advice := find_advice(context.database, run.run_id):
        print(f"  advice     {advice}")
    _say_log(context, run)
    missing = describe_missing(context.database, run, kept)
    for checkpoint in kept:
        _say_checkpoint(run, checkpoint, missing)
    if quota is not None:
        from armada.monitor.queue import describe_allowance

        print("".join(f"  quota {line}\n" for line in describe_allowance(quota)), end="")
    if run.state in ("failed", "cancelled"):
        _say_next(run, spec, kept)
    environment = mapping(spec.get("environment"))
    if environment.get("existing") is True:
        print(f"  environment {sanitize_line(environment.get('path'), 400)} (yours)")
    if container := mapping(spec.get("container")):
        image = container.get("digest") or container.get("image")
        print(f"  container  {sanitize_line(image, 400)} ({sanitize_line(container.get('tool'), 20)})")
    if run.sweep is not None:
        label = sanitize_line(mapping(spec.get("sweep")).get("label"), 200)
        waits = "; it waits for its turn" if run.state == "submitted" else ""
        print(f"  sweep      {run.sweep}, cell {run.cell} ({label}){waits}")
    if run.follows is not None:
        print(f"  follows    {sanitize_line(run.follows, 200)}")
    argv = mapping(spec.get("job")).get("argv")  # a model would cost 0.15 s
    print("  command    " + sanitize_line(" ".join(map(str, argv)) if isinstance(argv, list) else "", 400))
    return 0


def _tariff(context: Context, run: Run) -> Tariff | None:
    """What its host costs, else what it cost at the launch."""
    return context.prices().of(run)


def _costs(context: Context, run: Run) -> dict[str, object]:
    from armada.costs.report import forecast
    from armada.store.queries.uses import read_use

    now, tariff = time.time(), _tariff(context, run)
    use = read_use(context.database, run, now)
    later = forecast(tariff, use, run.eta_s, now)
    rate = tariff.run_rate(use.held, now) if tariff is not None else None
    return {
        "costs": use.cost(tariff).as_json() if use.spans else None,
        "per_hour": {rate[1]: rate[0]} if rate is not None else None,
        "forecast": later.as_json() if later is not None else None,
    }


def _say_cost(context: Context, run: Run) -> None:
    """Print what it cost, and what it will have cost at its last step."""
    from armada.costs.price import money
    from armada.costs.report import forecast
    from armada.store.queries.uses import read_use

    now, tariff = time.time(), _tariff(context, run)
    use = read_use(context.database, run, now)
    cost = use.cost(tariff)
    if not use.spans or not cost.is_known:
        return
    rate = tariff.run_rate(use.held, now) if tariff is not None and not run.ended else None
    later = forecast(tariff, use, run.eta_s, now)
    words = [cost.text() + (f" at {money(*rate)}/h" if rate is not None else "")]
    words += [f"about {later.text()} at its last step"] if later is not None else []
    words += [f"it is assumed to run, although {run.host} does not answer"] if use.is_assumed else []
    print(f"  cost       {'; '.join(words)}")


def _look(context: Context, run: Run) -> Run:
    """Return the run as it is now, or, if the host does not answer, as it was last known."""
    from armada.monitor.observe import observe
    from armada.store import runs

    if context.is_read_only:
        return run
    try:
        with context.unless_full(), context.session_about(run, patience_s=0) as session:
            observe(context.database, session, [run])
    except (HostUnreachable, NotFound) as error:
        sys.stderr.write(f"armada: {sanitize_line(error)}; showing the last known state\n")
    return runs.find(context.database, run.run_id)


def _say_state(context: Context, run: Run) -> None:
    """Print how the run is, and how far."""
    print(f"{run.run_id}   {condition(run)}   on {run.host}, seen {seen(run, time.time())}")
    if launcher := owner(context, run):
        print(f"  launched by {launcher.named}, not by this home")
    if run.message:
        print(f"  {sanitize_line(run.message)}")
    for line in label_lines(run):
        print(line)
    if run.step is None:
        return
    # A script's step is that of its last checkpoint, and all that is known of it.
    facts = [f"step {run.step}" + (f" of {run.total_steps}" if run.total_steps else "")]
    facts += [f"{span(run.eta_s)} left"] if run.eta_s else []
    loss = run.loss_not_finite if run.loss is None else f"{run.loss:.4g}"
    facts += [f"loss {loss}"] if loss is not None else []
    facts += [f"{run.tokens_per_s:,.0f} tok/s"] if run.tokens_per_s is not None else []
    print(f"  {', '.join(facts)}")


def _unreadable_words(run: Run) -> str:
    """Say what of a run could not be read: lines of its records, or its part of its host's answer."""
    from armada.monitor.observe import MISFIT

    said = sanitize_line(run.unreadable)
    if not said.startswith(MISFIT):
        return f"{counted(run.unreadable_count, 'line')} in its records; the first: {said}"
    later = run.unreadable_count - 1
    return said + (f"; and later {counted(later, 'line')} in its records" if later else "")


def _say_records(context: Context, run: Run) -> None:
    """Print the run's history, its evaluations, and the room on its host."""
    from armada.store import hosts, metrics, transitions

    for when, state, reason, message in transitions.of_run(context.database, run.run_id):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
        why, words = f": {reason}" if reason else "", f" ({sanitize_line(message, 120)})" if message else ""
        print(f"  {stamp}  {state}{why}{words}")
    if run.unreadable_count:
        print(f"  unreadable {_unreadable_words(run)}")
    losses = metrics.curve(context.database, run.run_id, "eval_loss")
    if losses:
        print("  eval loss  " + "  ".join(f"{metrics.figure(value)} at {step}" for step, value in losses[-6:]))
    of_sets = [name for name in metrics.names(context.database, run.run_id) if _SET_LOSS.fullmatch(name)]
    for name in of_sets[:_MOST_SETS]:
        values = metrics.curve(context.database, run.run_id, name)[-6:]
        measured = "  ".join(f"{metrics.figure(value)} at {step}" for step, value in values)
        print(f"  {sanitize_line(name, 60)}  {measured}")
    results = metrics.results(context.database, run.run_id)
    if speeds := {name: value for name, value in results.items() if _SPEED.search(name) and value is not None}:
        told = (f"{sanitize_line(name, 60)} {value:.4g}" for name, value in sorted(speeds.items())[:_MOST_SPEEDS])
        print("  speed      " + "  ".join(told))
    if not run.ended and (host := hosts.find(context.database, run.host)) and host.forecast:
        clause = foreseen(host.forecast)
        print(f"  disk       {amount(host.forecast.free_bytes)} free there{f'; {clause}' if clause else ''}")


def _say_log(context: Context, run: Run) -> None:
    """If the log came home in two parts, say that its middle did not."""
    from armada.sync.outputs.listing import output_log
    from armada.sync.outputs.long_logs import END

    begin = output_log(context.home, run.run_id)
    end = begin.with_name(END) if begin is not None else None
    if begin is None or end is None or not end.is_file() or end.is_symlink():
        return
    sizes = f"its first {amount(begin.stat().st_size)} and its last {amount(end.stat().st_size)} are at home"
    print(f"  log        {sizes}; the middle is only on {run.host} (sync.log_limit): {begin.parent}")


def _say_checkpoint(run: Run, checkpoint: Checkpoint, missing: Mapping[str, str]) -> None:
    trouble = f"  ({sanitize_line(checkpoint.trouble)})" if checkpoint.trouble else ""
    if checkpoint.digest in missing:
        where = missing[checkpoint.digest]
    elif checkpoint.is_good_home:
        where = f"home, verified: {checkpoint.home_path}"
    elif checkpoint.is_unread:
        where = f"home, not read{f', also on {run.host}' if checkpoint.on_host else ''}: {checkpoint.home_path}"
    elif checkpoint.home_path:
        where = f"damaged at home{f', also on {run.host}' if checkpoint.on_host else ''}: {checkpoint.home_path}"
    elif checkpoint.nowhere:
        where, trouble = checkpoint.nowhere, ""
    else:
        where = f"only on {run.host}"
    print(f"  checkpoint-{checkpoint.step}  {amount(checkpoint.size_bytes)}  {where}{trouble}")


def _say_next(run: Run, spec: Mapping[str, object], kept: Sequence[Checkpoint]) -> None:
    from armada.verdicts.again import resumes_from, resuming_words

    step = resumes_from(spec, (c.step for c in kept if c.on_host))
    verb = "goes on" if step is not None else "starts it again"
    print(f"  next       armada resume {run.run_id} {verb} {resuming_words(step)}")


def _allowance(context: Context, run: Run, spec: Mapping[str, object]) -> Quota | None:
    """Return what the site said was left before and after the run, if its host has a `quota:`."""
    if not mapping(spec.get("scheduler")).get("quota"):
        return None
    from armada.monitor.queue import kept_allowance, look_at_allowance

    kept = kept_allowance(context.home, run.run_id)
    if kept is not None and kept.after is not None:
        return kept
    try:
        with context.session_of(run, patience_s=0) as session:
            return look_at_allowance(session, context.home, run.run_id)
    except (HostUnreachable, NotFound):
        return kept  # the age of what is shown is on the first line
