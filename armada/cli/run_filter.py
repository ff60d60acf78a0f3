"""The filters of `armada ps`: hosts, states, a part of the name, and how many runs are shown."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import NotFound, UsageError
from armada.verdicts.states import STATES

if TYPE_CHECKING:
    from collections.abc import Collection

    from armada.cli.context import Context
    from armada.filters.filter import Filter
    from armada.filters.run_facts import RunFacts
    from armada.store.runs import Run


def add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        dest="hosts",
        help="List only the runs of this host, and ask no other; repeatable",
    )
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="STATE",
        dest="states",
        help=f"List only runs in this state; repeatable. One of {', '.join(STATES)}",
    )
    parser.add_argument(
        "--name",
        metavar="TEXT",
        help="List only runs whose name or id contains this, or matches it as a pattern such as 'qwen*lora'. "
        "Upper and lower case are the same",
    )
    parser.add_argument("--archived", action="store_true", help="Also list runs that `armada archive` hid")
    parser.add_argument(
        "expression",
        nargs="*",
        metavar="EXPR",
        help="List only runs that match this filter, however old they are: 'loss<0.4 tag:arc lr>1e-5 host:a100* age<2d'",
    )
    parser.add_argument("--limit", type=_count, metavar="N", help="List at most this many runs, the newest first")


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs, such as 20")
    return int(text)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are listed.

    Attributes:
        hosts: Their hosts; empty for all.
        states: Their states; empty for all.
        name: Matches their name or id; None for all.
        facts: Reads what the expression asks; None without an expression.
        expression: The filter expression; None for all.
        archived: Whether archived runs are listed too.
    """

    hosts: frozenset[str]
    states: frozenset[str]
    name: re.Pattern[str] | None
    facts: RunFacts | None
    expression: Filter | None
    archived: bool

    @classmethod
    def of(cls, options: argparse.Namespace, context: Context) -> RunFilter:
        """Make it of the options that `add_filters` added.

        Raises:
            NotFound: A host is neither configured nor the host of any run.
            UsageError: There is no such state, or the expression is wrong.
        """
        for name in options.states:
            if name not in STATES:
                raise UsageError(f"no state is called {name!r}", hint=_hint(name, STATES))
        facts = expression = None
        if text := " ".join(options.expression).strip():
            from armada.filters.run_facts import RunFacts  # 5 ms

            facts = RunFacts(context)
            expression = facts.filter(text)
        hosts = _hosts(options.hosts, context)
        return cls(hosts, frozenset(options.states), _pattern(options.name), facts, expression, options.archived)

    @property
    def is_empty(self) -> bool:
        """Whether all runs pass."""
        return not (self.hosts or self.states or self.name or self.expression)

    def may_match(self, run: Run) -> bool:
        """Whether a run is listed if it is in the right state: its state may be an older one."""
        is_there = not self.hosts or run.host in self.hosts
        return is_there and (self.name is None or bool(self.name.search(run.name) or self.name.search(run.run_id)))

    def find(self, context: Context) -> tuple[list[Run], int]:
        """Return the runs in the store that match, newest first, and how many more are archived."""
        from armada.store import runs

        found = runs.every(context.database, hosts=self.hosts, states=self.states)
        if self.name is not None:
            found = [run for run in found if self.may_match(run)]
        if self.expression is not None and self.facts is not None:
            matches = self.expression.matches
            found = [each.run for each in self.facts.subjects(found, self.expression.keys) if matches(each)]
        if self.archived or (self.expression is not None and self.expression.names_archive):
            return found, 0
        shown = [run for run in found if not run.is_archived]
        return shown, len(found) - len(shown)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """A pattern such as `qwen*` is for the whole name; other text may stand anywhere in it."""
    import fnmatch

    if text is None:
        return None
    is_glob = any(sign in text for sign in "*?[")
    return re.compile(rf"\A{fnmatch.translate(text)}" if is_glob else re.escape(text), re.IGNORECASE)


def _hosts(names: Collection[str], context: Context) -> frozenset[str]:
    from armada.store import runs

    known = runs.hosts(context.database) if names else set[str]()
    if not known.issuperset(names):
        known |= set(context.hosts())  # reading them costs 0.2 s
    for name in names:
        if name not in known:
            raise NotFound(f"no host is called {name!r}", hint=_hint(name, sorted(known)))
    return frozenset(names)


def _hint(word: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), known, 1)
    return f"{f'did you mean {near[0]}? ' if near else ''}known: {', '.join(known)}"
