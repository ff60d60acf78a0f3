"""`armada plan`: what an experiment would be on several hosts, side by side. Nothing is started."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from armada.cli.options import add_changes, add_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.launch.comparison.choice import Rule
    from armada.launch.comparison.compare import Compared

_RULES: tuple[Rule, ...] = ("fastest", "cheapest")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="Compare hosts for an experiment",
        description="Plan an experiment for several hosts, and show them side by side: batch, memory, speed, time, "
        "cost, disk, queue and what must be sent. Nothing is sent or started. "
        "`armada launch --host auto` chooses one of them.",
    )
    parser.add_argument(
        "experiment", metavar="EXPERIMENT", help="Experiment file (YAML), or `quickstart` for the bundled one"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--host",
        action="append",
        metavar="NAME",
        dest="hosts",
        help="Host to compare; repeatable (default: all hosts)",
    )
    where.add_argument("--all-hosts", action="store_true", help="Compare all hosts, as without --host")
    add_profile(parser)
    add_changes(parser)
    parser.add_argument("--json", action="store_true", help="Print one JSON object on stdout")
    parser.set_defaults(handler=_plan)


def _plan(options: argparse.Namespace) -> int:
    from armada.cli.comparisons import comparison_json, show_comparison
    from armada.cli.context import Context
    from armada.cli.experiment import read_experiment
    from armada.cli.printing import print_json
    from armada.cli.progress import Reporter
    from armada.launch.comparison.choice import Wish, candidate_of, choose
    from armada.launch.comparison.compare import Question, compare_hosts

    experiment = read_experiment(options)
    context = Context()
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    hosts = hosts_to_compare(context, options.hosts or (), reporter.stage)
    found = compare_hosts(
        Question(experiment, context.home, options.profile),
        hosts,
        lambda names: reporter.now("plan", f"asking {names}"),
    )
    reporter.clear()
    candidates = [candidate_of(each) for each in found]
    best = {rule: choose(candidates, Wish(rule)) for rule in _RULES}
    if options.json:
        winners = {str(rule): choice.winner for rule, choice in best.items()}
        told: dict[str, object] = {"hosts": comparison_json(found), **winners}
        print_json(told)
        return exit_code_of(found)
    show_comparison(reporter, found)
    for rule, choice in best.items():
        if len(found) > 1 and choice.winner is not None:
            reporter.stage(rule, f"{choice.winner}: {choice.why.partition(': ')[2] or choice.why}")
    return exit_code_of(found)


def hosts_to_compare(context: Context, names: Sequence[str], say: Callable[[str, str], None]) -> list[Host]:
    """Return the named hosts, or all: those that this home has wiped are left out, because a plan would put the agent back.

    Raises:
        NotFound: There is no host of a name.
    """
    from armada.store import hosts as records

    if names:
        return [context.host(name) for name in dict.fromkeys(names)]
    found = []
    for host in context.hosts().values():
        record = records.find(context.database, host.name)
        if record is not None and record.released_at is not None:
            say(
                "left out", f"{host.name}, because this home deleted everything there; --host {host.name} asks it again"
            )
        else:
            found.append(host)
    return found


def exit_code_of(found: Sequence[Compared]) -> int:
    """0 if any host can run it; else 3 if a host refuses it, or the first host's own code, such as 4."""
    codes = [each.exit_code for each in found]
    return 0 if 0 in codes else 3 if 3 in codes else next(iter(codes), 0)
