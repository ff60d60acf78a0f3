"""Follow a started run: report the start, watch it to its end, bring its checkpoints home. Used by launch, resume and merge."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import ArmadaError, OutcomeUnknown
from armada.foundation.sanitize import sanitize_line
from armada.units import counted, span

if TYPE_CHECKING:
    import argparse

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.rpc.session import HostSession
    from armada.store.runs import Run

_EVAL_SET = re.compile(r"eval [A-Za-z]\w*")


def announce(context: Context, session: HostSession, run: Run, options: argparse.Namespace, reporter: Reporter) -> int:
    """Report that a run was started, and follow it if requested. Return the exit code."""
    from armada.cli.daemon import start_for_launch

    place = f", GPUs {','.join(map(str, run.gpus))}" if run.gpus else ""
    reminder = "   (Ctrl-C leaves it running)" if options.follow else ""
    reporter.stage("launched", f"{run.run_id} on {run.host}{place}{reminder}")
    if not options.no_daemon and start_for_launch(context.home):
        reporter.stage("daemon", "started; it watches the run and brings its checkpoints home (armada daemon status)")
    if options.follow:
        return _follow(context, session, run, reporter, as_json=options.json)
    if options.json:
        from armada.cli.runs import summary

        print_json(summary(run), indent=None)
    else:
        reporter.line(f" next       armada logs -f {run.run_id} · armada pull {run.run_id}")
    return 0


def _follow(context: Context, session: HostSession, run: Run, reporter: Reporter, *, as_json: bool) -> int:
    from armada.cli.runs import summary, verdict

    try:
        run = _watch(context, session, run, reporter)
    except KeyboardInterrupt:
        reporter.line()
        verbs = " · ".join(f"armada {verb} {run.run_id}" for verb in ("logs -f", "pull", "stop"))
        reporter.stage("left", f"it continues without you: {verbs}")
        return 130
    _say_end(run, reporter)
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


def _watch(context: Context, session: HostSession, run: Run, reporter: Reporter) -> Run:
    """Show how a run is until it has ended, for good or until somebody goes on with it; gives the run as it is then."""
    from armada.launch.retry import Retries
    from armada.monitor.follow import follow, goes_on
    from armada.store import checkpoints, runs
    from armada.verdicts.again import resumes_from, resuming_words

    retries = Retries(session)
    going = True
    while going:
        for now in follow(context.database, session, run.run_id):
            run = now
            reporter.now(*live_line(run))
        with contextlib.suppress(OutcomeUnknown):  # the next look tells
            retries.look(context.database, only=run.run_id)
        lost, run = run.reason, context.run(run.run_id)
        going = goes_on(run, time.time())  # it was resumed by us, or the daemon was faster
        if going:
            spec = runs.spec(context.database, run.run_id)
            there = (c.step for c in checkpoints.of_run(context.database, run.run_id) if c.on_host)
            reporter.stage("resumed", f"it was lost ({lost}) and resumed {resuming_words(resumes_from(spec, there))}")
    return run


def _say_end(run: Run, reporter: Reporter) -> None:
    reason = f" ({run.reason})" if run.reason and run.state != "succeeded" else ""
    lasted = f" after {span(run.ended_at - run.started_at)}" if run.ended_at and run.started_at else ""
    step = f", step {run.step}" if run.step else ""
    reporter.stage("gone?" if run.is_guess else "ended", f"{run.state}{reason}{lasted}{step}")
    if run.message and run.state == "succeeded":
        reporter.stage("", f"⚠ {run.message}")


def _bring_home(context: Context, session: HostSession, run: Run, reporter: Reporter) -> None:
    """Bring what a run that has ended saved; where it did not succeed, trouble with that is said, and the run's own verdict counts.

    Raises:
        ArmadaError: The run succeeded, and what it saved did not come home.
    """
    from armada.cli.pull import bring_home

    try:
        pulled = bring_home(context, session, run, reporter)
    except ArmadaError as error:
        if run.state == "succeeded":
            raise
        reporter.stage("pull", f"not everything came home: {error}; armada pull {run.run_id} continues")
        return
    for place in pulled.published:
        reporter.stage("home", f"{place} (every byte verified)")


def live_line(run: Run) -> tuple[str, str]:
    """Return the current status of a run that is followed: (label, text)."""
    if run.unreachable_since is not None:
        return (
            "link",
            f"{run.host} does not answer ({run.unreachable_why}); {run.run_id} continues without the connection",
        )
    if run.is_guess:
        return (
            "gone?",
            f"the scheduler no longer lists the job of {run.run_id}, and no end was recorded; waiting for either",
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
    from armada.protocol.runs import ReadLog

    for line in session.call(ReadLog(run_id=run.run_id, tail_lines=50)).text.splitlines():
        label, colon, text = line.partition(": ")
        if colon and (label in {"train", "eval", "data", "finding"} or _EVAL_SET.fullmatch(label)):
            reporter.stage(label, sanitize_line(text, 2000))


def _say_losses(context: Context, run: Run, reporter: Reporter) -> None:
    from armada.store import metrics

    for name, label in (("eval_loss", "eval loss"), ("loss", "train loss")):
        values = metrics.curve(context.database, run.run_id, name)
        if len(values) > 1:
            (first_step, first), (last_step, last) = values[0], values[-1]
            told = metrics.figure(first), metrics.figure(last)
            reporter.stage("loss", f"{label} {told[0]} (step {first_step}) → {told[1]} (step {last_step})")
