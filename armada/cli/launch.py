"""`armada launch`, and `armada prepare`, which is a launch that stops before the training."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import ArmadaError, OutcomeUnknown, UsageError
from armada.inert import inert_line
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.launch.plan import Plan
    from armada.session import HostSession
    from armada.store.runs import Run


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "launch",
        help="Start an experiment on a host",
        description="Plan an experiment, check it, provision the host and start the run. `quickstart` names "
        "the bundled experiment.",
    )
    _take_options(parser)
    parser.set_defaults(handler=_launch, only_prepare=False)
    parser = commands.add_parser(
        "prepare",
        help="Tokenise an experiment's data on CPUs in advance",
        description="Tokenise an experiment's data on a host's CPUs, as a separate run, and report how many "
        "tokens there are to train on. Later trainings with the same data, model and chat "
        "template reuse the result.",
    )
    _take_options(parser)
    parser.set_defaults(handler=_launch, only_prepare=True)


def _take_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment", metavar="EXPERIMENT", help="Experiment file (YAML), or `quickstart` for the bundled one"
    )
    parser.add_argument("--host", required=True, metavar="NAME", help="Host to use; `local` is this machine")
    parser.add_argument("--profile", metavar="NAME", help="Use this profile instead of the host's own")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=c",
        dest="overrides",
        help="Override a setting of the experiment; repeatable",
    )
    parser.add_argument("--gpus", metavar="N", help="Use this many GPUs, or `all`, instead of resources.gpus")
    parser.add_argument("--name", metavar="TEXT", help="Use this name instead of the experiment's")
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and the checks; send and start nothing")
    parser.add_argument(
        "--follow", "-f", action="store_true", help="Watch the run until it ends, then bring its checkpoints home"
    )
    parser.add_argument(
        "--no-daemon",
        action="store_true",
        help="Do not start the daemon, which watches the run and syncs its checkpoints",
    )
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object on stdout and the progress on stderr"
    )


def _launch(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.config.experiments import load_experiment
    from armada.launch.plan import make_plan
    from armada.launch.reconcile import launch_key
    from armada.launch.warmstart import find_start

    overrides = [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])]
    experiment = load_experiment(experiment_file(options.experiment), overrides)
    context = Context()
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with context.session(options.host) as session:
        if options.dry_run:
            reporter.now("plan", f"asking {options.host}")
            plan = make_plan(
                session,
                context.home,
                experiment,
                profile_name=options.profile,
                name=options.name,
                start=find_start(context.database, session, experiment),
                only_prepare=options.only_prepare,
            )
            return show_plan(reporter, plan, as_json=options.json)
        key = launch_key(
            experiment, session.host.name, options.profile, options.name, only_prepare=options.only_prepare
        )

        def make(run_id: str | None) -> Plan:
            return make_plan(
                session,
                context.home,
                experiment,
                profile_name=options.profile,
                name=options.name,
                run_id=run_id,
                launch_key=key,
                start=find_start(context.database, session, experiment),
                only_prepare=options.only_prepare,
            )

        run = start_planned(context, session, reporter, key=key, title=f"launch of {experiment.name}", make=make)
        return announce(context, session, run, options, reporter)


def announce(context: Context, session: HostSession, run: Run, options: argparse.Namespace, reporter: Reporter) -> int:
    """Say that a run was started, and follow it where that was asked for; gives the exit code."""
    from armada.cli.daemon import start_for_launch

    place = f", GPUs {','.join(map(str, run.gpus))}" if run.gpus else ""
    reminder = "   (Ctrl-C leaves it running)" if options.follow else ""
    reporter.stage("launched", f"{run.run_id} on {run.host}{place}{reminder}")
    if not options.no_daemon and start_for_launch(context.home):
        reporter.stage("daemon", "started: it watches the run and brings its checkpoints home (armada daemon status)")
    if options.follow:
        return _follow(context, session, run, reporter, as_json=options.json)
    if options.json:
        from armada.cli.runs import summary

        print_json(summary(run), indent=None)
    else:
        reporter.line(f" next       armada logs -f {run.run_id} · armada pull {run.run_id}")
    return 0


def show_plan(reporter: Reporter, plan: Plan, *, as_json: bool) -> int:
    """Print what a dry run found.

    Raises:
        PreflightRefused: A check failed.
    """
    from armada.launch.checks import refuse_failures

    _say_plan(reporter, plan, everything=True)
    if as_json:
        print_json({"spec": plan.spec, "files": plan.files, "checks": _checks(plan)})
    refuse_failures(plan.checks, plan.host.name)
    return 0


def start_planned(
    context: Context,
    session: HostSession,
    reporter: Reporter,
    *,
    key: str,
    title: str,
    make: Callable[[str | None], Plan],
) -> Run:
    """Carry a launch out as an operation; one like it that broke off is found first, and followed or continued.

    Args:
        context: Home.
        session: With the host.
        reporter: Told how it goes.
        key: What makes two launches the same.
        title: What is done, for who has to wait for it.
        make: Makes the plan, under the id of a launch that broke off where there is one.

    Raises:
        Conflict: Another armada carried out the same launch since this one began, or released or removed the host.
    """
    from armada.launch.reconcile import YOUNG_S, complete_launches, find_former, refuse_second
    from armada.launch.start import start
    from armada.operations import operation
    from armada.provision.turn import turn
    from armada.store import hosts as host_records

    host, database = session.host, context.database
    before = complete_launches(database, key, host.name, time.time() - YOUNG_S)
    with operation(database, kind="launch", host=host.name, argv=sys.argv) as progress:
        context.admit(host)
        listener = progress.tells(reporter)
        same = context.home.lock(f"launch-{key[:16]}")
        with turn(same, title, lambda who: listener.stage("waiting", who)):
            refuse_second(database, key, host.name, before)
            listener.now("plan", f"asking {host.name}")
            former = find_former(database, session, key, time.time())
            run_id = former.run.run_id if former else None
            if former and former.started:
                progress.concerns(former.run.run_id)
                reporter.stage(
                    "found", f"{run_id} was handed over before and is {former.run.state}; nothing was started twice"
                )
                return former.run
            if former:
                reporter.stage("continues", f"{run_id}, whose launch broke off: {host.name} has nothing of it")
            plan = make(run_id)
            progress.concerns(plan.run_id)
            host_records.record_facts(database, host.name, plan.facts, origin=str(host.origin) if host.origin else None)
            host_records.mark_released(database, host.name, None)
            _say_plan(reporter, plan, everything=False)
            lock = context.home.lock(f"host-{host.name}")
            return start(database, session, plan, listener, lock=lock, again=former is not None)


def experiment_file(text: str) -> Path:
    """The file that a word on the command line means."""
    from armada.paths import bundled

    path = Path(text)
    if not path.exists() and text == "quickstart":
        return bundled("quickstart", "quickstart.yaml")
    if path.is_dir():
        raise UsageError(f"{text} is a folder; an experiment is a YAML file", hint=f"{path / 'experiment.yaml'}?")
    return path


def _checks(plan: Plan) -> list[dict[str, str | None]]:
    return [{"code": c.code, "outcome": c.outcome, "message": c.message, "hint": c.hint} for c in plan.checks]


def _say_plan(reporter: Reporter, plan: Plan, *, everything: bool) -> None:
    parts = []
    if plan.batch is not None:
        b = plan.batch
        ranks = counted(b.processes, "GPU") if plan.gpus else f"{b.processes} process{'es' if b.processes > 1 else ''}"
        parts.append(f"{b.global_} samples a step = micro {b.micro} × accumulate {b.accumulation} × {ranks}")
    if plan.profile is not None and plan.batch is not None:
        parts.append(plan.profile.train.precision)
    if plan.spec["task"] == "script":
        parts.append(f"{plan.experiment.script} under accelerate")
        parts.append(counted(plan.gpus, "GPU") if plan.gpus else f"{plan.spec['processes']} on CPUs")
    elif plan.gpus and plan.batch is None:
        parts.append(counted(plan.gpus, "GPU"))
    if plan.dataset_rows:
        parts.append(f"{plan.dataset_rows:,} rows of data" + (" and more" if plan.counts_on_host else ""))
    if plan.counts_on_host:
        parts.append("parquet, saved and hub datasets are counted on the host")
    if plan.host.price_per_hour:
        parts.append(f"${plan.host.price_per_hour:.2f}/h")
    reporter.stage("plan", " · ".join(parts) or f"one command on {plan.host.name}")
    warnings = [check for check in plan.checks if check.outcome == "warn"]
    failures = [check for check in plan.checks if check.outcome == "fail"]
    passed = len(plan.checks) - len(warnings) - len(failures)
    counts = [f"{passed} checks passed"]
    counts += [counted(len(warnings), "warning")] if warnings else []
    counts += [f"{len(failures)} failed"] if failures else []
    reporter.stage("preflight", ", ".join(counts))
    for check in plan.checks if everything else (*warnings, *failures):
        mark = {"ok": "✓", "warn": "⚠", "fail": "✗"}[check.outcome]
        reporter.stage("", f"{mark} {check.code} {check.message}" + (f" → {check.hint}" if check.hint else ""))
    if everything:
        if plan.environment is not None:
            there = "already there" if plan.environment.ready else "to be built"
            reporter.stage("environment", f"{plan.environment.key} ({there})")
            if plan.gpus and plan.environment.flash_attn is not None:
                reporter.stage(
                    "attention", f"hub kernel, then flash-attn, then SDPA; {plan.environment.flash_attn.why}"
                )
        for content in plan.contents:
            there = "to be sent" if content in plan.missing else "already there"
            what = f"{content.kind} {content.sha[:12]} · {counted(len(content.manifest), 'file')} · {amount(content.size_bytes)}"
            reporter.stage("files", f"{what} ({there}) from {content.source}")
        for name, text in plan.files.items():
            reporter.line(f"\n--- {name}")
            for line in text.splitlines():
                reporter.line("    " + inert_line(line, 2000))


def _follow(context: Context, session: HostSession, run: Run, reporter: Reporter, *, as_json: bool) -> int:
    from armada.cli.runs import summary, verdict
    from armada.launch.retry import Retries
    from armada.monitor.follow import follow, goes_on
    from armada.store import checkpoints, runs
    from armada.verdicts.again import resumes_from, resuming_words

    retries = Retries(session)
    try:
        going = True
        while going:
            for now in follow(context.database, session, run.run_id):
                run = now
                name, text = live_line(run)
                reporter.now(name, text)
            with contextlib.suppress(OutcomeUnknown):  # the next look tells
                retries.look(context.database, only=run.run_id)
            lost, run = run.reason, context.run(run.run_id)
            going = goes_on(run, time.time())  # it was resumed by us, or the daemon was faster
            if going:
                spec = runs.spec(context.database, run.run_id)
                there = (c.step for c in checkpoints.of_run(context.database, run.run_id) if c.on_host)
                reporter.stage(
                    "resumed", f"it was lost ({lost}) and goes on {resuming_words(resumes_from(spec, there))}"
                )
    except KeyboardInterrupt:
        reporter.line()
        verbs = " · ".join(f"armada {verb} {run.run_id}" for verb in ("logs -f", "pull", "stop"))
        reporter.stage("left", f"it goes on without you: {verbs}")
        return 130
    reason = f" ({run.reason})" if run.reason and run.state != "succeeded" else ""
    lasted = f" after {span(run.ended_at - run.started_at)}" if run.ended_at and run.started_at else ""
    reporter.stage(
        "gone?" if run.is_guess else "ended",
        f"{run.state}{reason}{lasted}" + (f", step {run.step}" if run.step else ""),
    )
    if run.message and run.state == "succeeded":
        reporter.stage("", f"⚠ {run.message}")
    _bring_home(context, session, run, reporter)
    if run.task == "prepare":
        _say_report(session, run, reporter)
    _say_losses(context, run, reporter)
    if as_json:
        print_json(summary(context.run(run.run_id)), indent=None)
    verdict(run)
    if not as_json:
        reporter.line(f" next       armada show {run.run_id} · armada logs {run.run_id} · armada ps")
    return 0


def _bring_home(context: Context, session: HostSession, run: Run, reporter: Reporter) -> None:
    """Bring what a run that has ended saved; where it did not succeed, trouble with that is said, and the run's own verdict counts.

    Raises:
        ArmadaError: The run succeeded, and what it saved did not come home.
    """
    from armada.sync.pull import pull

    try:
        pulled = pull(
            context.database,
            session,
            context.home,
            run.run_id,
            progress=lambda what, seen: reporter.transfer("pull", what, seen),
            hashing=lambda count: reporter.now("hashing", f"{counted(count, 'checkpoint')} on {run.host}"),
        )
    except ArmadaError as error:
        if run.state == "succeeded":
            raise
        reporter.stage("pull", f"not all came home: {error}; armada pull {run.run_id} goes on")
        return
    for place in pulled.published:
        reporter.stage("home", f"{place} (every byte verified)")


def live_line(run: Run) -> tuple[str, str]:
    """What a person watching wants to know now: (label, text)."""
    if run.unreachable_since is not None:
        return "link", f"{run.host} does not answer ({run.unreachable_why}); {run.run_id} goes on without it"
    if run.is_guess:
        return (
            "gone?",
            f"its batch system no longer knows the job of {run.run_id}, and nobody wrote its end; waiting for either",
        )
    if run.state != "running" or not run.step:
        phase = run.phase if run.state == "running" and run.phase else run.state
        return phase, run.message or run.run_id
    parts = [f"{run.step:,}/{run.total_steps:,}" if run.total_steps else f"{run.step:,}"]
    if run.loss_text is not None:
        parts.append(f"loss {run.loss_text}")
    if run.tokens_per_s is not None:
        parts.append(f"{run.tokens_per_s:,.0f} tok/s")
    if run.eta_s:
        parts.append(f"eta {span(run.eta_s)}")
    if run.checkpoints_host:
        parts.append(f"{counted(run.checkpoints_host, 'checkpoint')} on host")
    if run.phase not in ("training", None):
        parts.append(run.phase or "")
    return "step", "   ".join(parts)


def _say_report(session: HostSession, run: Run, reporter: Reporter) -> None:
    """What the run said about the data, which is the last it printed."""
    answer = session.call("run.log", {"run_id": run.run_id, "tail_lines": 50})
    for line in str(answer["text"]).splitlines():
        label, colon, text = line.partition(": ")
        if colon and label in {"train", "eval", "data", "finding"}:
            reporter.stage(label, inert_line(text, 2000))


def _say_losses(context: Context, run: Run, reporter: Reporter) -> None:
    from armada.store import metrics

    for name, label in (("eval_loss", "eval loss"), ("loss", "train loss")):
        values = metrics.curve(context.database, run.run_id, name)
        if len(values) > 1:
            (first_step, first), (last_step, last) = values[0], values[-1]
            told = metrics.figure(first), metrics.figure(last)
            reporter.stage("loss", f"{label} {told[0]} (step {first_step}) → {told[1]} (step {last_step})")
