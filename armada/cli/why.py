"""`armada why`: explain a run's state on one page: evidence, cause, last output, checkpoints, retries and next steps."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from armada.cli.homes import owner
from armada.cli.options import add_run
from armada.cli.printing import print_json
from armada.errors import ArmadaError
from armada.foundation.sanitize import last_states, sanitize_line, sanitize_text
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.home import Home
    from armada.monitor.page import Page
    from armada.store.runs import Run

_SHOWN = 5
_LAST_LINES = 20
_OLD_S = 60.0
"""What a host said longer ago is said with its age."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    why = commands.add_parser(
        "why",
        help="Explain why a run failed, stopped or still waits",
        description="Explain the state of a run on one page: the evidence, the exit code or signal, the last "
        "log lines of the rank that failed first, its checkpoints, the retries used, and what to "
        "do next. If a batch system manages the run, show its answer too.",
    )
    add_run(why)
    why.add_argument("--json", action="store_true", help="Print a JSON object")
    why.set_defaults(handler=_why)


def _why(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.monitor.page import gather
    from armada.store import runs
    from armada.verdicts.advice import for_host_budget, is_host_budget

    context = Context(reads=True)
    run = context.run(options.run)
    engine = str((runs.spec(context.database, run.run_id).get("scheduler") or {}).get("kind") or "")
    told = Told()
    problem: ArmadaError | None = None
    if (not run.ended or run.is_guess or run.is_only_told) and not context.is_read_only:
        try:
            with context.unless_full():
                told = _ask(context, run, engine)
        except ArmadaError as error:
            problem = error
        run = runs.find(context.database, run.run_id)
    page = gather(context.database, run, told.stopped)
    if run.reason == "budget" and is_host_budget(run.host, run.message):
        page = replace(page, steps=for_host_budget(run.host, page.steps))
    if run.state == "failed" and not page.is_told:
        page = replace(page, lines=_read_log(context, run))
    if options.json:
        print_json(_as_json(run, engine, told.said, page, problem))
    else:
        _say(run, engine, told.said, owner(context, run), page)
    if problem is None:
        return 0
    if options.json:
        return problem.exit_code
    sys.stdout.flush()
    raise problem


@dataclass(frozen=True, slots=True)
class Told:
    """The host's answer: its scheduler's output, and which of the run's processes are stopped."""

    said: str | None = None
    stopped: tuple[int, ...] = ()


def _ask(context: Context, run: Run, engine: str) -> Told:
    """Look at the run, then ask its batch system, where it has one and there is more to ask.

    Raises:
        ArmadaError: The host, or its batch system, does not answer.
    """
    from armada.monitor.observe import ask_about, observe
    from armada.monitor.page import stopped_in
    from armada.protocol.runs import ExplainRun
    from armada.store import runs

    with context.session_about(run, patience_s=0) as session:
        observe(context.database, session, [run])
        now = runs.find(context.database, run.run_id)
        stopped = stopped_in(ask_about(session, now).run) if now.state == "running" else ()
        if not engine or now.ended or now.state in ("preparing", "submitted"):
            return Told(stopped=stopped)
        answer = session.call(ExplainRun(run_id=run.run_id), timeout_s=150.0)
        return Told(sanitize_text(last_states(answer.text)), stopped)


def _read_log(context: Context, run: Run) -> list[str]:
    """The last lines of what a run printed, where nobody recorded them and its host answers."""
    from armada.protocol.runs import ReadLog

    try:
        with context.session_about(run, patience_s=0) as session:
            answer = session.call(ReadLog(run_id=run.run_id, tail_lines=_LAST_LINES))
    except ArmadaError:
        return []  # the page says how old the rest of it is
    return [sanitize_line(line, 300) for line in answer.text.splitlines() if line.strip()]


def _as_json(run: Run, engine: str, said: str | None, page: Page, problem: ArmadaError | None) -> dict[str, object]:
    kept = [
        {"step": each.step, "size_bytes": each.size_bytes, "home_path": str(each.home_path) if each.home_path else None}
        | {"on_host": each.on_host}
        for each in page.kept
    ]
    retries = {"used": page.retries.used, "allowed": page.retries.allowed} if page.retries else None
    return {
        "run_id": run.run_id,
        "host": run.host,
        "state": run.state,
        "reason": run.reason,
        "message": run.message,
        "because": run.because,
        "exit_code": run.exit_code,
        "signal": page.signal,
        "rank": page.rank,
        "lines": page.lines,
        "others": page.others,
        "attempt": run.attempt,
        "retries": retries,
        "checkpoints": kept,
        "not_taken": page.not_taken,
        "stopped": list(page.stopped),
        "next": [{"what": step.words, "command": step.command} for step in page.steps],
        "engine": engine or None,
        "explanation": said,
        "error": str(problem) if problem else None,
        "advice": page.advice,
    }


def _say(run: Run, engine: str, said: str | None, launcher: Home | None, page: Page) -> None:
    from armada.cli.runs import condition, seen

    now = time.time()
    word = "seen " if run.unreachable_since is None else ""
    print(f"{run.run_id}   {condition(run)}   on {run.host}, {word}{seen(run, now)}")
    if launcher is not None:
        print(f"  launched   by {launcher.named}, not by this home")
    if run.message:
        print(f"  {'cause' if run.state == 'failed' else 'that is':<10} {sanitize_line(run.message)}")
    age = now - run.observed_at if run.observed_at is not None and not run.ended else 0.0
    told = f"; that was {span(age)} ago" if run.because and age >= _OLD_S else ""
    print(f"  because    {run.because or 'not checked yet'}{told}")
    if run.loss_not_finite is not None:
        print(f"  loss       {run.loss_not_finite}: nothing that it learnt since is worth anything")
    if page.exit:
        print(f"  exit       {page.exit}{f', in attempt {run.attempt}' if run.attempt > 1 else ''}")
    if page.stopped:
        pids = ", ".join(map(str, page.stopped))
        print(f"  stopped    these processes are stopped by SIGSTOP: {pids}")
    if said is not None:
        print(f"  {sanitize_line(engine, 20)} says")
        print("".join(f"    {line}\n" for line in said.strip().splitlines()), end="")
    if page.lines:
        print(f"  last lines{f' of rank {page.rank}, which failed first' if page.rank is not None else ''}")
        print("".join(f"    {line}\n" for line in page.lines), end="")
    for place, other in enumerate(page.others):
        print(f"  {'' if place else 'others':<10} {other}")
    _say_checkpoints(run, page)
    if page.retries:
        print(f"  retries    {page.retries.used} of {page.retries.allowed} used {page.retries.words}")
    if page.advice:
        print(f"  advice     {page.advice}")
    for place, step in enumerate(page.steps):
        print(f"  {'' if place else 'next':<10} {step.words}{':' if step.command else ''}")
        if step.command:
            print(f"               {step.command}")


def _say_checkpoints(run: Run, page: Page) -> None:
    """The newest checkpoints, which matter for what to do next, then what was not taken."""
    left = len(page.kept) - _SHOWN
    places = [
        (each.step, each.size_bytes, "home" if each.home_path else each.nowhere or f"only on {run.host}")
        for each in page.kept[-_SHOWN:]
    ]
    lines = [f"checkpoint-{step}, {amount(size)}, {place}" for step, size, place in places]
    if left > 0:
        lines.insert(0, f"{counted(left, 'earlier one')}: armada show {run.run_id}")
    if run.state in ("failed", "cancelled") and not page.kept:
        lines.append("none was saved")
    lines += page.not_taken
    for place, line in enumerate(lines):
        print(f"  {'' if place else 'checkpoint':<10} {line}")
