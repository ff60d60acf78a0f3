"""`launch --host auto`: plan for all hosts, take the best of them, and say why the others lost."""

from __future__ import annotations

import datetime as dt
import math
import re
import time
from typing import TYPE_CHECKING

from armada.errors import HostUnreachable, PreflightRefused, UsageError
from armada.launch.comparison.choice import Wish

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from contextlib import ExitStack

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.config.hosts import Host
    from armada.config.tasks.experiment import Experiment
    from armada.launch.comparison.choice import Choice
    from armada.launch.comparison.compare import Compared
    from armada.launch.reconcile import Complete

AUTO = "auto"

_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_THOUSANDS = re.compile(r"\.[0-9]{3}")
"""1.234 may mean a thousand."""


def add_choice(parser: argparse.ArgumentParser) -> None:
    """The options that say which host `--host auto` means."""
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--fastest", action="store_true", help="With --host auto: the host that ends first (the default)")
    one.add_argument("--cheapest", action="store_true", help="With --host auto: the host on which it costs least")
    one.add_argument(
        "--by",
        metavar="HH:MM",
        help="With --host auto: the cheapest host that is done by then (local time), at the latest estimate",
    )
    one.add_argument(
        "--max-cost",
        metavar="MONEY",
        help="With --host auto: the fastest host that costs no more, at the highest estimate",
    )


def wish_of(options: argparse.Namespace, now: dt.datetime) -> Wish | None:
    """Return what the options ask for; None if they ask for nothing.

    Args:
        options: The command's.
        now: Local time, without a zone.

    Raises:
        UsageError: A time or an amount of money is none.
    """
    if options.cheapest:
        return Wish("cheapest")
    if options.by is not None:
        found = _TIME.fullmatch(options.by.strip())
        if found is None:
            raise UsageError(f"--by takes a time of day such as 08:00, not {options.by!r}")
        until = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        if until <= now:
            until += dt.timedelta(days=1)
        # By timestamps: in the night of a change of the clock the difference of local times is an hour wrong.
        return Wish("by", until.timestamp() - now.timestamp(), f"{until:%H:%M}")
    if options.max_cost is not None:
        from armada.costs.price import money, parse_money

        try:
            if _THOUSANDS.search(options.max_cost):
                raise ValueError(options.max_cost)
            limit, currency = parse_money(options.max_cost)
        except ValueError:
            raise UsageError(
                f"--max-cost takes an amount such as 20, 7.50 or '20 EUR', not {options.max_cost!r}"
            ) from None
        if options.max_cost.strip()[-1:].isdigit() and "$" not in options.max_cost:
            return Wish("max-cost", limit, f"{limit:,.2f}")  # in the currency that the hosts have
        return Wish("max-cost", limit, money(limit, currency), currency)
    return Wish("fastest") if options.fastest else None


def is_automatic(context: Context, options: argparse.Namespace, reporter: Reporter) -> bool:
    """Whether a host is to be chosen. If a host is called `auto`, it is not, which the reporter is told.

    Raises:
        UsageError: An option says how to choose, and a host is named; or a host of the user's is called `auto`.
    """
    wish = wish_of(options, dt.datetime.now())  # noqa: DTZ005 - a time of day is meant where the user is
    if options.host != AUTO:
        if wish is not None:
            word = f"--{wish.rule}"
            raise UsageError(f"{word} chooses a host, and goes with --host auto", hint="armada plan compares hosts")
        return False
    if AUTO not in context.hosts():
        return True
    if wish is not None:
        raise UsageError(
            f"a host of yours is called {AUTO}, so --{wish.rule} has nothing to choose",
            hint="give that host another name, then --host auto chooses",
        )
    reporter.stage("host", f"⚠ {AUTO} is a host of yours; no host is chosen. Rename it, then --host {AUTO} chooses")
    return False


def choose_host(
    context: Context, options: argparse.Namespace, experiment: Experiment, reporter: Reporter, closing: ExitStack
) -> str:
    """Choose the host of a launch, say why, and keep other armadas from launching the same meanwhile.

    Args:
        context: This command's.
        options: Its words.
        experiment: What is launched.
        reporter: Told what was chosen, and why the others lost.
        closing: Holds the lock until the launch is carried out.

    Raises:
        PreflightRefused: No host fits.
        HostUnreachable: No host answers.
        Conflict: Another armada has just launched the same.
    """
    from armada.cli.comparisons import say_choice
    from armada.cli.plan_hosts import hosts_to_compare
    from armada.launch.comparison.choice import candidate_of, choose
    from armada.launch.comparison.compare import Question, compare_hosts

    hosts = hosts_to_compare(context, (), reporter.stage)
    if not options.dry_run:
        launched = _Launched(context, options, experiment, hosts)
        launched.lock(reporter, closing)
        if (host := launched.unfinished()) is not None:
            reporter.stage("chosen", f"{host}, where the same launch was interrupted")
            return host
    question = Question(experiment, context.home, options.profile, options.name)
    found = compare_hosts(question, hosts, lambda names: reporter.now("plan", f"asking {names}"))
    reporter.clear()
    # Here, not before: `--by` counts from now.
    wish = wish_of(options, dt.datetime.now()) or Wish("fastest")  # noqa: DTZ005 - a time of day is meant
    choice = choose([candidate_of(each) for each in found], wish)
    say_choice(reporter, choice)
    if choice.winner is None:
        raise _refusal(choice, found, wish)
    return choice.winner


def _refusal(choice: Choice, found: Sequence[Compared], wish: Wish) -> PreflightRefused | HostUnreachable:
    reasons = "; ".join(f"{name}: {why}" for name, why in choice.losers.items())
    if found and all(each.outcome == "unreachable" for each in found):
        return HostUnreachable(f"no host answers ({reasons})", hint="armada hosts check tests the connections")
    hint = "--host NAME starts it on a host of your choice; armada plan shows all figures"
    if wish.limit < math.inf:
        hint = f"a later time or a higher limit; {hint}"
    return PreflightRefused(f"{choice.why}, and nothing was started ({reasons})", hint=hint)


class _Launched:
    """Earlier launches of the same, on whichever host: a repeated launch must not start a second run on another one."""

    def __init__(
        self, context: Context, options: argparse.Namespace, experiment: Experiment, hosts: list[Host]
    ) -> None:
        from armada.launch.reconcile import YOUNG_S, complete_launches, launch_key

        self._context = context
        self._title = f"launch of {experiment.name}"
        self._key = launch_key(experiment, AUTO, options.profile, options.name)
        self._keys = {host.name: launch_key(experiment, host.name, options.profile, options.name) for host in hosts}
        since = time.time() - YOUNG_S
        self._before: dict[str, Complete] = {
            name: complete_launches(context.database, key, name, since) for name, key in self._keys.items()
        }

    def lock(self, reporter: Reporter, closing: ExitStack) -> None:
        """Wait until no other armada chooses a host for the same; refuse the launch if it was carried out meanwhile."""
        from armada.launch.reconcile import refuse_second
        from armada.provision.exclusive_lock import exclusive_lock

        path = self._context.home.lock(f"launch-auto-{self._key[:16]}")
        closing.enter_context(exclusive_lock(path, self._title, lambda who: reporter.stage("waiting", who)))
        for name, key in self._keys.items():
            refuse_second(self._context.database, key, name, self._before[name])

    def unfinished(self) -> str | None:
        """Return the host on which the same launch was interrupted; None if there is none."""
        from armada.launch.reconcile import find_unfinished

        for name, key in self._keys.items():
            if find_unfinished(self._context.database, key, name, time.time()) is not None:
                return name
        return None
