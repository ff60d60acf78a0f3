"""`armada reproduce`: what a run was launched from, in a new folder, checked to give the same plan."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.cli.compare import finite
from armada.cli.options import add_run
from armada.cli.printing import print_json
from armada.errors import ArmadaError, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.compare.reproduction import Reproduction
    from armada.launch.plans.plan import Plan

_LONGEST = 300


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="Write what a run was launched from into a folder",
        description="Write the experiment of a run, the code as it was sent, the list of packages and the command that "
        "launches it again into a new folder. Then plan it on the run's host, compare that plan with the run's, and say "
        "what cannot be reproduced. Nothing is started.",
        epilog="example: armada reproduce RUN --to ./again",
    )
    add_run(parser)
    parser.add_argument("--to", required=True, metavar="DIR", help="New folder")
    parser.add_argument("--host", metavar="NAME", help="Plan it on this host (default: the run's)")
    parser.add_argument("--no-plan", action="store_true", help="Only write the folder; ask no host")
    parser.add_argument("--json", action="store_true", help="Print a JSON object: the folder, and what differs")
    parser.set_defaults(handler=_reproduce)


def _reproduce(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.compare.plan_difference import compare_plans
    from armada.compare.reproduction import reproduction_of, write_reproduction
    from armada.store import runs
    from armada.sync.checkpoints.new_folder import check_target, new_folder

    if options.no_plan and options.host is not None:
        raise UsageError("--no-plan asks no host, and --host names one", hint="leave one of them out")
    target = expanded(options.to).absolute()
    if not options.to.strip() or target.name in ("", ".."):
        raise UsageError(f"{options.to!r} is not the name of a new folder", hint="--to ./again")
    if ".." in target.parts:
        target = target.parent.resolve() / target.name
    context = Context(reads=options.no_plan)
    run = context.run(options.run)
    check_target(target, context.home)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    reporter.now("reproduce", "reading what was recorded")
    found = reproduction_of(context.home, run, runs.spec(context.database, run.run_id))
    with new_folder(target, f"the reproduction of {run.run_id}", found.size_bytes, private=True) as folder:
        write_reproduction(folder, found)
    reporter.stage("written", f"{run.run_id} to {sanitize_line(target, 1000)}")
    differs: list[tuple[str, Any, Any]] | None = None
    trouble: ArmadaError | None = None
    if not options.no_plan:
        try:
            plan = _plan(context, found, target, options.host or run.host)
            differs = compare_plans(found, plan.spec.as_json(), target, other_host=options.host not in (None, run.host))
        except ArmadaError as error:
            trouble = error
    if options.json:
        print_json(_as_json(found, target, differs, trouble))
    else:
        _say(found, target, differs, trouble)
    if trouble is not None:
        return trouble.exit_code
    return 3 if differs else 0


def _plan(context: Context, found: Reproduction, target: Path, host: str) -> Plan:
    """Plan what was written. Changes nothing on the host.

    Raises:
        ArmadaError: It cannot be planned, or the host does not answer.
    """
    from armada.compare.reproduction import EXPERIMENT, named_otherwise
    from armada.config.experiments import load_experiment
    from armada.foundation.validation import mapping
    from armada.launch.plans.task import Order
    from armada.launch.service import launch_of

    experiment = load_experiment(target / EXPERIMENT)
    profile = found.spec.get("profile")
    name = named_otherwise(found.run, mapping(found.spec.get("experiment")))
    with context.session(host, patience_s=5.0) as session:
        order = Order(session, context.home, context.database, profile if isinstance(profile, str) else None, name)
        return launch_of(experiment, order, only_prepare=found.run.task == "prepare").plan()


def _say(
    found: Reproduction, target: Path, differs: list[tuple[str, Any, Any]] | None, trouble: ArmadaError | None
) -> None:
    """Print what could not be reproduced, how the plan compares, and the command."""
    for sentence in found.missing:
        print(f"  ⚠ {sentence}")
    if trouble is not None:
        print(f"  ⚠ the plan was not compared: {sanitize_line(trouble, 600)}")
        if trouble.hint:
            print(f"    {sanitize_line(trouble.hint, 600)}")
    elif differs == []:
        print("  the plan is the same as the run's")
    elif differs:
        print("  the plan differs from the run's:")
        for key, then, now in differs:
            print(f"    {key}: {_shown(then)} → {_shown(now)}")
    program, verb, *rest = found.command
    # Not in the folder's own command: another home, which may get the folder, does not know the run.
    command = shlex.join((program, verb, f"--follows={found.run.run_id}", *rest))
    print(f"  launch it  cd {sanitize_line(shlex.quote(str(target)), 1000)} && {sanitize_line(command, 1000)}")


def _shown(value: Any) -> str:
    from armada.compare.settings import text_of

    return "not set" if value is None else sanitize_line(text_of(value), _LONGEST)


def _as_json(
    found: Reproduction, target: Path, differs: list[tuple[str, Any, Any]] | None, trouble: ArmadaError | None
) -> dict[str, object]:
    from armada.cli.printing import error_fields

    told = None if differs is None else [{"key": k, "then": finite(t), "now": finite(n)} for k, t, n in differs]
    return {
        "run_id": found.run.run_id,
        "to": str(target),
        "recorded": found.record is not None,
        "command": list(found.command),
        "not_reproduced": list(found.missing),
        "plan_differs": told,
        "plan_error": error_fields(trouble) if trouble is not None else None,
    }
