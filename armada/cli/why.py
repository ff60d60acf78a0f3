"""`armada why`: what a run's state comes from, and what its batch system says about it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from armada.cli.homes import owner
from armada.errors import ArmadaError
from armada.inert import inert_line, inert_text, last_states

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.home import Home
    from armada.store.runs import Run


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    why = commands.add_parser(
        "why",
        help="why a run is in its state, or still waits",
        description="The evidence a run's state comes from and, while a batch system has it, what that says about it.",
    )
    why.add_argument("run", metavar="RUN", help="run id, or its beginning")
    why.add_argument("--json", action="store_true", help="an object")
    why.set_defaults(handler=_why)


def _why(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.store import runs

    context = Context()
    run = context.run(options.run)
    engine = str((runs.spec(context.database, run.run_id).get("scheduler") or {}).get("kind") or "")
    said: str | None = None
    problem: ArmadaError | None = None
    if not run.ended or run.is_guess:
        try:
            said = _ask(context, run, engine)
        except ArmadaError as error:
            problem = error
        run = runs.find(context.database, run.run_id)
    if options.json:
        state = {"run_id": run.run_id, "host": run.host, "state": run.state, "reason": run.reason}
        told = {"message": run.message, "because": run.because, "engine": engine or None, "explanation": said}
        print(json.dumps({**state, **told, "error": str(problem) if problem else None}, indent=1))
    else:
        _say(run, engine, said, owner(context, run))
    if problem is None:
        return 0
    if options.json:
        return problem.exit_code
    sys.stdout.flush()
    raise problem


def _ask(context: Context, run: Run, engine: str) -> str | None:
    """Look at the run, then ask its batch system; None where it has none, or nothing more to ask.

    Raises:
        ArmadaError: The host, or its batch system, does not answer.
    """
    from armada.monitor.observe import observe
    from armada.store import runs

    with context.session(run.host, patience_s=0) as session:
        observe(context.database, session, [run])
        now = runs.find(context.database, run.run_id)
        if not engine or now.ended or now.state in ("preparing", "submitted"):
            return None
        told = str(session.call("run.explain", {"run_id": run.run_id}, timeout_s=150.0).get("text") or "")
        return inert_text(last_states(told))


def _say(run: Run, engine: str, said: str | None, launcher: Home | None) -> None:
    from armada.cli.runs import condition, seen

    print(f"{run.run_id}   {condition(run)}   on {run.host}, seen {seen(run, time.time())}")
    if launcher is not None:
        print(f"  launched   by {launcher.named}, not by this home")
    print(f"  because    {run.because or 'nobody has looked yet'}")
    if run.message:
        print(f"  that is    {inert_line(run.message)}")
    if said is not None:
        print(f"  {inert_line(engine, 20)} says")
        print("".join(f"    {line}\n" for line in said.strip().splitlines()), end="")
