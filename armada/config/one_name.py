"""Two files that name one host: whether they mean the same machine, and which of them counts for what.

A project's settings count for commands in its folder, but only for a machine that the user's hosts.yaml means by the
name, too: a cloned project must not say where a name leads. The daemon, which serves all projects, goes by hosts.yaml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.costs.price import parse_money

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.hosts import Host

_MONEY = ("price", "price_per_hour", "budget")
_DEFAULT_ROOT = "~/.armada"
_PORT_22 = re.compile(r"([^:]*|.*\]):22")
"""`host:22`, `[::1]:22`; an IPv6 address without brackets has no port."""


def is_same_machine(one: Host, other: Host) -> bool:
    """Return whether two entries lead to one machine, and to the same runs there."""
    return not differences_of_place(one, other)


def differences_of_place(one: Host, other: Host) -> tuple[str, ...]:
    """Return the keys by which two entries mean another machine, or another place for runs there."""
    before, after = _place(one), _place(other)
    return tuple(key for key in before if before[key] != after[key])


def _place(host: Host) -> dict[str, object]:
    address = host.ssh or ""
    if (with_port := _PORT_22.fullmatch(address)) is not None:
        address = with_port[1]
    root = host.root or _DEFAULT_ROOT
    return {"ssh": address, "local": host.local, "root": root.rstrip("/") or "/", "scheduler": host.scheduler}


def joined(own: Mapping[str, Host], theirs: Mapping[str, Host]) -> dict[str, Host]:
    """Return the hosts of the user and of a project, as commands in the project's folder use them.

    Of two entries for one machine the project's counts, except for a budget of the user's: a project may only lower it.
    Of two machines the user's counts.
    """
    found = dict(own)
    for name, host in theirs.items():
        if name not in own:
            found[name] = host
        elif is_same_machine(own[name], host):
            found[name] = _with_money_of(own[name], host)
    return found


def _with_money_of(own: Host, theirs: Host) -> Host:
    return theirs.model_copy(update={key: getattr(own, key) for key in kept_of_own(own, theirs)}).owned_by(own)


def kept_of_own(own: Host, theirs: Host) -> tuple[str, ...]:
    """Return the keys of the user's entry that count although the project's does: a budget, and the prices it is counted by."""
    if own.budget is None:
        return ()
    return ("price", "price_per_hour") if _is_lower(theirs.budget, own.budget) else _MONEY


def _is_lower(budget: str | None, limit: str) -> bool:
    if budget is None:
        return False
    (amount, currency), (most, of) = parse_money(budget), parse_money(limit)
    return currency == of and amount < most


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A host that hosts.yaml and a project's file describe in different ways.

    Attributes:
        name: Its name.
        own: The user's entry.
        theirs: The project's entry.
        place: Of the project's entry: `file:line`.
        ignored: The keys in which they differ; those of one of them do not count here.
        elsewhere: The keys by which they mean two machines; none if they mean one.
    """

    name: str
    own: Host
    theirs: Host
    place: str
    ignored: tuple[str, ...]
    elsewhere: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return which file counts, and what of the other does not, as one line."""
        keys = ", ".join(f"`{key}`" for key in self.ignored)
        if self.elsewhere:
            ways = ", ".join(f"`{key}`" for key in self.elsewhere)
            return (
                f"{self.name}: {self.own.origin} counts; {self.place} means another machine by this name ({ways}), and "
                f"nothing of it counts: {keys}"
            )
        kept = [key for key in kept_of_own(self.own, self.theirs) if key in self.ignored]
        of_own = f" (but for {', '.join(f'`{key}`' for key in kept)})" if kept else ""
        return (
            f"{self.name}: {self.place} counts here, not {self.own.origin}{of_own}; what differs: {keys}. "
            "The daemon goes by the latter"
        )


def shadowed(own: Mapping[str, Host], theirs: Mapping[str, Host], places: Mapping[str, str]) -> list[Shadowed]:
    """Return the hosts that two files describe in different ways.

    Args:
        own: The user's hosts.
        theirs: Those of a project.
        places: Of the project's entries, by name: `file:line`.
    """
    found = []
    for name in sorted(own.keys() & theirs.keys()):
        one, other = own[name], theirs[name]
        written = sorted((one.model_fields_set | other.model_fields_set) - {"name", "origin"})
        ways = differences_of_place(one, other)
        same = set() if ways else {"ssh", "root", "local"}
        differ = tuple(key for key in written if key not in same and getattr(one, key) != getattr(other, key))
        if differ:
            found.append(Shadowed(name, one, other, places[name], differ, ways))
    return found
