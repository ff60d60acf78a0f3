"""`armada launch`, and `armada prepare`, which launches only the preparation of the data."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.auto_host import add_choice, choose_host, is_automatic
from armada.cli.experiment import read_experiment
from armada.cli.options import add_experiment, add_following
from armada.cli.trust import add_expect
from armada.errors import ArmadaError, UsageError

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment
    from armada.launch.plans.plan import Plan


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "launch",
        help="Start an experiment on a host",
        description="Plan an experiment, check it, provision the host and start the run. `quickstart` names "
        "the bundled experiment.",
    )
    _take_options(parser, host="Host to use; `local` is this machine, `auto` the best of all")
    add_choice(parser)
    parser.set_defaults(handler=_launch, only_prepare=False)
    parser = commands.add_parser(
        "prepare",
        help="Tokenise an experiment's data on CPUs in advance",
        description="Tokenise an experiment's data on a host's CPUs, as a separate run, and report how many "
        "tokens there are to train on. Later trainings with the same data, model and chat "
        "template reuse the result.",
    )
    _take_options(parser, host="Host to use; `local` is this machine")
    parser.set_defaults(handler=_launch, only_prepare=True)


def _take_options(parser: argparse.ArgumentParser, *, host: str) -> None:
    on = "Host to use by its address, or the ssh command that its provider shows, in quotes; a new one is added first"
    add_experiment(parser, host=host, required=True, on=on)
    parser.add_argument(
        "--name-of-host", metavar="TEXT", help="With --on: name of a new host (default: made of its address)"
    )
    parser.add_argument(
        "--yes", "-y", action="store_true", help="With --on: pin the key that a new host shows; do not ask"
    )
    add_expect(parser)
    parser.add_argument("--name", metavar="TEXT", help="Use this name instead of the experiment's")
    parser.add_argument("--group", metavar="NAME", help="Put the run into this group, instead of the experiment's")
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="TAG",
        dest="tags",
        help="Add this tag to the experiment's; repeatable",
    )
    parser.add_argument(
        "--follows",
        metavar="RUN",
        help="Record that this launch follows RUN, so that lists by chain show them together",
    )
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and the checks; send and start nothing")
    add_following(parser, what="run", results="its checkpoints", daemon="watches the run and syncs its checkpoints")


def _launch(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.following import announce
    from armada.cli.launch_on import find_launch_host
    from armada.cli.plans import say_plan, show_plan
    from armada.cli.progress import Reporter
    from armada.launch.comparison.estimate import estimate_plan
    from armada.launch.plans.task import Order
    from armada.launch.service import Caller, carry_out, launch_of
    from armada.store import runs

    experiment = _labelled(read_experiment(options), options)
    if experiment.sweep is not None:
        hint = f"armada sweep {options.experiment} launches all of its cells; --set sweep=null launches it without them"
        raise UsageError(f"{experiment.name} has a `sweep`, so it is more than one run", hint=hint)
    context = Context()
    if options.follows is not None:
        run = runs.find(context.database, options.follows)
        experiment = experiment.model_copy(update={"follows": run.run_id})
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with contextlib.ExitStack() as closing, contextlib.ExitStack() as choosing:
        if not options.only_prepare and is_automatic(context, options, reporter):
            options.host = choose_host(context, options, experiment, reporter, choosing)
        there = find_launch_host(context, options, reporter, closing)
        session = closing.enter_context(there.session)
        order = Order(session, context.home, context.database, options.profile, options.name)
        launch = launch_of(experiment, order, only_prepare=options.only_prepare)
        if there.is_new:
            launch.read()  # before anybody is asked about a key
            there.confirm(context, options, sys.stderr if options.json else sys.stdout)
        if options.dry_run:
            reporter.now("plan", f"asking {there.host.name}")
            plan = launch.plan()
            estimate = estimate_plan(plan, context.database, context.home)
            return show_plan(reporter, plan, as_json=options.json, estimate=estimate)

        def show(plan: Plan) -> None:
            estimate = estimate_plan(plan, context.database, context.home)
            say_plan(reporter, plan, everything=False, estimate=estimate)

        caller = Caller(sys.argv, Path.cwd(), reporter, show)
        try:
            run = carry_out(launch, caller)
        except ArmadaError as error:
            there.explain(error, options)
            raise
        choosing.close()  # the same launch may be asked for again from here on
        return announce(context, session, run, options, reporter)


def _labelled(experiment: Experiment, options: argparse.Namespace) -> Experiment:
    """Put --group and --tag over the experiment's own.

    Raises:
        UsageError: One cannot be a group or a tag, or there are too many.
    """
    from armada.config.labels import MOST_TAGS, group_problem, tag_problem

    wrong = [group_problem(options.group) if options.group is not None else None, *map(tag_problem, options.tags)]
    if words := next(filter(None, wrong), None):
        raise UsageError(words)
    tags = tuple(dict.fromkeys((*experiment.tags, *options.tags)))
    if len(tags) > MOST_TAGS:
        raise UsageError(f"the run would have {len(tags)} tags; the most is {MOST_TAGS}")
    return experiment.model_copy(update={"tags": tags, "group": options.group or experiment.group})
