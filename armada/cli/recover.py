"""`armada recover`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict

from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    import argparse

    from armada.cli.progress import Reporter
    from armada.recovery.recover import Recovery

WRONG = 7
"""The exit code where something that lies at home is not what it says, or cannot be read: no such thing."""


class _Damaged(TypedDict):
    run_id: str
    why: str


class _Host(TypedDict):
    """What was found on one host."""

    host: str
    runs: int
    added: list[str]
    elsewhere: list[str]
    damaged: list[_Damaged]
    unenrolled: list[str]
    error: str | None


class _Wrong(TypedDict):
    path: str
    why: str


class _Recovered(TypedDict):
    """What `--json` prints."""

    dry_run: bool
    store: str
    problems: list[str]
    kept_as: str | None
    salvaged: dict[str, int]
    hosts: list[_Host]
    runs_from_home: list[str]
    recognised: list[str]
    known_before: int
    wrong: list[_Wrong]
    unreadable: list[_Wrong]
    gone: list[str]
    sweeps: list[str]


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "recover",
        help="Rebuild a lost or damaged store",
        description="Rebuild the local database from all hosts and from the files at home. A damaged "
        "database is kept under another name. Exits with 4 if a host did not answer; run the "
        "command again when it does.",
    )
    parser.add_argument("--host", action="append", metavar="NAME", dest="hosts", help="Ask only this host; repeatable")
    parser.add_argument(
        "--sizes-only",
        action="store_true",
        help="Recognise checkpoints at home by names and sizes; their bytes are read before anything relies on them",
    )
    parser.add_argument("--dry-run", action="store_true", help="Rebuild a copy and report the result; change nothing")
    parser.add_argument("--json", action="store_true", help="Print a JSON object")
    parser.set_defaults(handler=_recover)


def _recover(options: argparse.Namespace) -> int:
    from pathlib import Path

    from armada.cli.printing import print_json
    from armada.cli.progress import Reporter
    from armada.config.hosts import Host, load_hosts
    from armada.daemon.hosts import KnownHosts
    from armada.errors import NotFound
    from armada.paths import HomePaths
    from armada.recovery.recover import recover
    from armada.store.database import Database
    from armada.store.read_only import is_read_only, unwritable

    home = HomePaths.from_environment()
    if is_read_only(home.store):
        raise unwritable(home)  # also a rebuilt copy is made beside the store
    configured = load_hosts(home, Path.cwd())
    reporter = Reporter(sys.stderr if options.json else sys.stdout)

    def hosts(database: Database) -> dict[str, Host]:
        known = KnownHosts(home).read(database) | configured
        for name in options.hosts or ():
            if name not in known:
                raise NotFound(f"no host is called {name!r}", hint=f"known: {', '.join(known)}")
        return {name: known[name] for name in options.hosts or known}

    recovery = recover(home, hosts, reporter, dry_run=options.dry_run, read_data=not options.sizes_only)
    if options.json:
        print_json(_listed(recovery, dry_run=options.dry_run))
    else:
        _say(reporter, recovery, dry_run=options.dry_run)
    failed = [found.error for found in recovery.hosts if found.error is not None]
    return failed[0].exit_code if failed else WRONG if recovery.wrong or recovery.unreadable else 0


def _say(reporter: Reporter, recovery: Recovery, *, dry_run: bool) -> None:
    added = sum(len(found.added) for found in recovery.hosts) + len(recovery.runs_from_home)
    if recovery.salvaged:
        rows = ", ".join(f"{count} {table}" for table, count in recovery.salvaged.items())
        reporter.stage("salvaged", f"from the damaged store: {rows}")
    for found in recovery.hosts:
        for run_id in found.elsewhere:
            reporter.stage(
                "", f"⚠ {run_id} is also on {found.host}; the store has it on another host and keeps that record"
            )
        for run_id, why in found.damaged:
            reporter.stage("", f"⚠ {run_id} on {found.host} cannot be added: {why}")
        if found.unenrolled:
            runs = counted(len(found.unenrolled), "run")
            words = f"⚠ {found.host} did not record that this home wants {runs} of it ({found.unenrolled[0]}, for one)"
            reporter.stage("", f"{words}: until the next sync, another home may delete what is not here yet")
    for run_id in recovery.runs_from_home:
        reporter.stage("", f"{run_id} is known only from the files at home")
    for place in recovery.gone:
        reporter.stage("", f"{place} no longer exists; removed from the store")
    counts = f"{counted(added, 'run')} and {counted(len(recovery.recognised), 'checkpoint')} added"
    reporter.stage("recovered", f"{counts}, {counted(recovery.already, 'checkpoint')} known before")
    for place, why in recovery.wrong:
        name = sanitize_line(place.name)
        reporter.stage("⚠", f"{name}: {why}; it is not used; if a host still has it, armada sync now fetches it again")
    for place, why in recovery.unreadable:
        reporter.stage(
            "⚠", f"{sanitize_line(place.name)} cannot be read: {why}; it stays. Run armada recover again once it can"
        )
    for name in map(sanitize_line, recovery.sweeps):
        reporter.stage(
            "⚠",
            f"{name}: only the lost store had its `stop:` rules, metric, limit and search. Its cells go on without them; "
            f"armada sweep stop {name} stops them",
        )
    silent = [found for found in recovery.hosts if found.error is not None]
    for found in silent:
        reporter.stage("⚠", f"{found.host} could not be read: {found.error}")
    if silent:
        again = " ".join(f"--host {found.host}" for found in silent)
        reporter.line(f" next       when {'it answers' if len(silent) == 1 else 'they answer'}: armada recover {again}")
    if dry_run:
        reporter.line("nothing was changed (--dry-run)")


def _listed(recovery: Recovery, *, dry_run: bool) -> _Recovered:
    return {
        "dry_run": dry_run,
        "store": recovery.found.condition,
        "problems": list(recovery.found.problems),
        "kept_as": str(recovery.aside) if recovery.aside else None,
        "salvaged": recovery.salvaged,
        "hosts": [
            {
                "host": found.host,
                "runs": found.seen,
                "added": list(found.added),
                "elsewhere": list(found.elsewhere),
                "damaged": [{"run_id": run_id, "why": why} for run_id, why in found.damaged],
                "unenrolled": list(found.unenrolled),
                "error": str(found.error) if found.error else None,
            }
            for found in recovery.hosts
        ],
        "runs_from_home": recovery.runs_from_home,
        "recognised": [str(found.place) for found in recovery.recognised],
        "known_before": recovery.already,
        "wrong": [{"path": str(place), "why": why} for place, why in recovery.wrong],
        "unreadable": [{"path": str(place), "why": why} for place, why in recovery.unreadable],
        "gone": [str(place) for place in recovery.gone],
        "sweeps": recovery.sweeps,
    }
