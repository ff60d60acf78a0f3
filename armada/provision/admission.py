"""Decide who may work on a host at the same time: a launch and a release never overlap.

Each announces itself and checks for the other in one transaction of the store. So of two that begin at the same instant
one sees the other, and always the one that deletes gives way.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from armada.config.hosts import load_hosts
from armada.errors import Conflict
from armada.foundation.sanitize import sanitize_line
from armada.provision.namesakes import refuse_namesake
from armada.store import operations as records
from armada.store import runs
from armada.store.queries.host_costs import why_not_counted, why_over_budget
from armada.store.running_operations import CLEARING, WIPING, is_alive
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.store.database import Database
    from armada.store.operations import Operation
    from armada.store.runs import Run

T = TypeVar("T")

PUTS = frozenset({"launch", "resume", "retry", "provision"})
"""Operations that put something on a host."""

FINDS_RUNS = frozenset({"root", "scheduler"})
"""Settings by which armada finds the runs of a host: with another value it looks for them where they are not."""
LEADS_THERE = frozenset({"ssh", "identity", "transport", "reuse_only"})
"""Settings that say how a host is reached."""


def putting(database: Database, host: str) -> frozenset[str]:
    """Return the ids of all operations that put something on a host, ended or not; `begin_clearing` compares with them later."""
    return frozenset(each.id for each in records.on_host(database, host) if each.kind in PUTS)


def begin_clearing(database: Database, own_id: str, host: str, before: frozenset[str]) -> None:
    """Announce that everything on a host will be deleted, unless another operation put something there or is doing so.

    Args:
        database: The store.
        own_id: The operation that deletes.
        host: The host.
        before: The result of `putting` from when the host was judged.

    Raises:
        Conflict: Such an operation exists; the error names it. Nothing was deleted.
    """
    with database.transaction():
        for each in records.on_host(database, host):
            if each.kind in PUTS and (is_alive(each) or each.id not in before):
                what = "goes on" if is_alive(each) else "put something there in the meantime"
                raise Conflict(
                    f"{_who(each)} {what}; nothing was deleted", hint="run the same command again later", host=host
                )
        records.advance(database, own_id, step=CLEARING)


def admit(database: Database, home: HomePaths, project: Path, host: Host) -> None:
    """Check that something may be put on a host. Called within the operation that does it.

    Args:
        database: The store.
        home: The folder of hosts.yaml.
        project: A folder whose own hosts count too.
        host: The host as the operation knows it.

    Raises:
        Conflict: Another process has removed or changed the host, or is deleting everything on it; or its budget is spent.
        ConfigError: Another file means another machine by its name.
    """
    now = load_hosts(home, project).get(host.name)
    if now is None:
        raise Conflict(
            "it was removed from hosts.yaml by another armada a moment ago; nothing was started",
            hint=f"armada hosts add {host.name} adds it again",
            host=host.name,
        )
    if any(getattr(now, key) != getattr(host, key) for key in FINDS_RUNS | LEADS_THERE):
        raise Conflict(
            "it was changed in hosts.yaml a moment ago; nothing was started",
            hint="run the command again",
            host=host.name,
        )
    refuse_namesake(database, project, now)
    refuse_over_budget(database, now)
    refuse_while_clearing(database, host.name)


def refuse_over_budget(database: Database, host: Host) -> None:
    """Refuse to start something on a host whose budget is spent.

    Raises:
        Conflict: It is spent.
    """
    if (refusal := over_budget(database, host)) is not None:
        refusal.message += "; nothing was started"
        raise refusal


def over_budget(database: Database, host: Host) -> Conflict | None:
    """Return why nothing may start on a host: its budget is spent, or nobody can tell. None if it is not."""
    now = time.time()
    if (unknown := why_not_counted(database, host, now)) is not None:
        priced = f"armada hosts set {host.name} --price with the price of the whole box"
        hint = f"armada hosts check {host.name} once nvidia-smi answers there, or {priced}"
        return Conflict(unknown, hint=hint, host=host.name)
    why = why_over_budget(database, host, now)
    hint = f"armada hosts set {host.name} --budget MONEY, or --unset budget"
    return Conflict(why, hint=hint, host=host.name) if why is not None else None


def refuse_while_clearing(database: Database, host: str) -> None:
    """Refuse to put something on a host while everything on it is being deleted. Called after the operation announced itself.

    Raises:
        Conflict: A release is deleting; the error names it. Nothing was put there.
    """
    for each in records.running(database):
        if each.kind == "release" and each.host == host and each.step in (CLEARING, WIPING) and is_alive(each):
            raise Conflict(
                f"process {each.pid} is releasing it (armada {_words(each)}); nothing was started",
                hint="run the command again when that has ended; it puts everything there again",
                host=host,
            )


def forget_host(database: Database, host: str, forget: Callable[[], None]) -> None:
    """Forget a host while no operation on it runs, and none can begin.

    Raises:
        Conflict: An operation runs; the error names it.
    """
    with database.transaction():
        if alive := alive_runs(database, host):
            raise Conflict(
                f"{counted(len(alive), 'run')} on {host} may still be running, such as {alive[0].run_id}",
                hint=f"armada stop {alive[0].run_id}; if {host} is gone for good: armada rm {alive[0].run_id} --without-host",
            )
        _refuse_while_used(database, host)
        forget()


def refuse_change(database: Database, host: str, keys: Collection[str]) -> None:
    """Refuse a change of settings under which runs of a host would no longer be found, or a command that uses it would go astray.

    Args:
        database: The store.
        host: Its name.
        keys: Of the settings that would change.

    Raises:
        Conflict: What goes on is named.
    """
    found_by = sorted(FINDS_RUNS & set(keys))
    if found_by and (alive := alive_runs(database, host)):
        raise Conflict(
            f"{counted(len(alive), 'run')} on {host} may still be running, such as {alive[0].run_id}; with another "
            f"`{found_by[0]}` armada would no longer find them. Nothing was changed",
            hint=f"armada stop {alive[0].run_id}, or wait for its end; or add the host once more, under another name",
        )
    if (FINDS_RUNS | LEADS_THERE) & set(keys):
        _refuse_while_used(database, host, PUTS | {"release"})


def change_host(database: Database, host: str, find_keys: Callable[[], Collection[str]], change: Callable[[], T]) -> T:
    """Change settings of a host while nothing goes on that the change would lead astray, and nothing can begin.

    Args:
        database: The store.
        host: Its name.
        find_keys: Gives the keys of the settings that would change now.
        change: Changes them.

    Raises:
        Conflict: Something goes on; it is named, and nothing was changed.
    """
    with database.transaction():
        refuse_change(database, host, find_keys())
        return change()


def alive_runs(database: Database, host: str) -> list[Run]:
    """The runs of a host that may go on, as far as the store knows."""
    return [run for run in runs.every(database, host=host) if not run.is_settled(time.time())]


def _refuse_while_used(database: Database, host: str, kinds: Collection[str] | None = None) -> None:
    for each in records.on_host(database, host):
        if is_alive(each) and (kinds is None or each.kind in kinds):
            raise Conflict(
                f"{_who(each)} is still running", hint="run the command again when that has ended", host=host
            )


def _who(found: Operation) -> str:
    of = f" of {found.run_id}" if found.run_id else ""
    return f"{found.kind}{of} (process {found.pid})"


def _words(found: Operation) -> str:
    return sanitize_line(" ".join(found.argv[1:]), 100)
