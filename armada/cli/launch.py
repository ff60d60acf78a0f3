"""`armada launch`, and `armada prepare`, which launches only the preparation of the data."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from armada.cli.options import add_experiment, add_following
from armada.cli.trust import add_expect
from armada.errors import ArmadaError, UsageError


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
    on = "Host to use by its address, or the ssh command that its provider shows, in quotes; a new one is added first"
    add_experiment(parser, host="Host to use; `local` is this machine", required=True, on=on)
    parser.add_argument(
        "--name-of-host", metavar="TEXT", help="With --on: name of a new host (default: made of its address)"
    )
    parser.add_argument(
        "--yes", "-y", action="store_true", help="With --on: pin the key that a new host shows; do not ask"
    )
    add_expect(parser)
    parser.add_argument("--name", metavar="TEXT", help="Use this name instead of the experiment's")
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and the checks; send and start nothing")
    add_following(parser, what="run", results="its checkpoints", daemon="watches the run and syncs its checkpoints")


def _launch(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.following import announce
    from armada.cli.launch_on import find_launch_host
    from armada.cli.plans import say_plan, show_plan
    from armada.cli.progress import Reporter
    from armada.config.experiments import load_experiment
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, carry_out, launch_of

    overrides = [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])]
    experiment = load_experiment(experiment_file(options.experiment), overrides)
    if experiment.sweep is not None:
        hint = f"armada sweep {options.experiment} launches all of its cells; --set sweep=null launches it without them"
        raise UsageError(f"{experiment.name} has a `sweep`, so it is more than one run", hint=hint)
    context = Context()
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with contextlib.ExitStack() as closing:
        there = find_launch_host(context, options, reporter, closing)
        session = closing.enter_context(there.session)
        order = Order(session, context.home, context.database, options.profile, options.name)
        launch = launch_of(experiment, order, only_prepare=options.only_prepare)
        if there.is_new:
            launch.read()  # before anybody is asked about a key
            there.confirm(context, options, sys.stderr if options.json else sys.stdout)
        if options.dry_run:
            reporter.now("plan", f"asking {there.host.name}")
            return show_plan(reporter, launch.plan(), as_json=options.json)
        caller = Caller(sys.argv, Path.cwd(), reporter, lambda plan: say_plan(reporter, plan, everything=False))
        try:
            run = carry_out(launch, caller)
        except ArmadaError as error:
            there.explain(error, options)
            raise
        return announce(context, session, run, options, reporter)


def experiment_file(text: str) -> Path:
    """Find the experiment file that a command-line argument names."""
    from armada.paths import bundled

    path = Path(text)
    if not path.exists() and text == "quickstart":
        return bundled("quickstart", "quickstart.yaml")
    if path.is_dir():
        raise UsageError(f"{text} is a folder, but an experiment is a YAML file", hint=f"{path / 'experiment.yaml'}?")
    return path
