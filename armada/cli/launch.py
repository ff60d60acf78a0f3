"""`armada launch`, and `armada prepare`, which is a launch that stops before the training."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from armada.errors import UsageError


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "launch",
        help="put an experiment on a host",
        description="Plan, check, provision and start an experiment on a host. `quickstart` names the bundled one.",
    )
    _take_options(parser)
    parser.set_defaults(handler=_launch, only_prepare=False)
    parser = commands.add_parser(
        "prepare",
        help="tokenise an experiment's data before GPUs wait for it",
        description="Tokenise the data of an experiment on a host's CPUs, as a run of its own, and say what there is to train "
        "on. Trainings with the same data, model and chat template find it.",
    )
    _take_options(parser)
    parser.set_defaults(handler=_launch, only_prepare=True)


def _take_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", help="a YAML file, or quickstart")
    parser.add_argument("--host", required=True, metavar="NAME", help="where; `local` is this machine")
    parser.add_argument("--profile", metavar="NAME", help="instead of the host's own")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=c", dest="overrides", help="change a setting; again for more"
    )
    parser.add_argument("--gpus", metavar="N", help="instead of resources.gpus: a number, or all")
    parser.add_argument("--name", metavar="TEXT", help="instead of the experiment's name")
    parser.add_argument(
        "--dry-run", action="store_true", help="stop after the checks and print the plan; nothing is sent or started"
    )
    parser.add_argument(
        "--follow", "-f", action="store_true", help="watch until it ends, then bring its checkpoints home"
    )
    parser.add_argument(
        "--no-daemon", action="store_true", help="start no daemon to watch it and bring checkpoints home"
    )
    parser.add_argument("--json", action="store_true", help="one object on stdout, progress on stderr")


def _launch(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.following import announce
    from armada.cli.plans import say_plan, show_plan
    from armada.cli.progress import Reporter
    from armada.config.experiments import load_experiment
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, carry_out, launch_of

    overrides = [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])]
    experiment = load_experiment(experiment_file(options.experiment), overrides)
    context = Context()
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with context.session(options.host) as session:
        order = Order(session, context.home, context.database, options.profile, options.name)
        launch = launch_of(experiment, order, only_prepare=options.only_prepare)
        if options.dry_run:
            reporter.now("plan", f"asking {options.host}")
            return show_plan(reporter, launch.plan(), as_json=options.json)
        caller = Caller(sys.argv, Path.cwd(), reporter, lambda plan: say_plan(reporter, plan, everything=False))
        run = carry_out(launch, caller)
        return announce(context, session, run, options, reporter)


def experiment_file(text: str) -> Path:
    """The file that a word on the command line means."""
    from armada.paths import bundled

    path = Path(text)
    if not path.exists() and text == "quickstart":
        return bundled("quickstart", "quickstart.yaml")
    if path.is_dir():
        raise UsageError(f"{text} is a folder; an experiment is a YAML file", hint=f"{path / 'experiment.yaml'}?")
    return path
