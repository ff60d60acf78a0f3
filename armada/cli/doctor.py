"""`armada doctor`: check home and hosts, and print each finding with its remedy."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.hosts import Host
    from armada.doctor.findings import Report
    from armada.paths import HomePaths

_MARKS = {"ok": "✓", "warn": "⚠", "fail": "✗"}
_SHOWN_LINES = 12
_AT_ONCE = 32
_WORST_FIRST = (2, 4, 5, 3)
"""Exit codes, as the table in errors.py has them: a bad file, a host out of reach, an agent that does not start, launches that fail."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="Diagnose home and hosts, and advise",
        description="Check home and hosts for every known problem, and say how to fix each. Exits with 0 if "
        "runs can work, even if there are warnings; 2 if a file is invalid; 3 if launches would "
        "fail; 4 if a host cannot be reached; 5 if its agent does not start.",
    )
    doctor.add_argument("hosts", nargs="*", metavar="HOST", help="Host to diagnose (default: home and all hosts)")
    doctor.add_argument("--json", action="store_true", help="Print a JSON object")
    doctor.set_defaults(handler=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from armada.cli.printing import print_json
    from armada.doctor.home import examine_home
    from armada.errors import ConfigError
    from armada.paths import HomePaths
    from armada.store.read_only import is_read_only

    home = HomePaths.from_environment()
    read_only = is_read_only(home.store)
    if not read_only:
        home.make()
    if options.hosts:
        from armada.cli.context import Context

        context = Context()
        about_home, wanted = None, [context.host(name) for name in dict.fromkeys(options.hosts)]
    else:
        about_home, hosts = examine_home(home, Path.cwd())
        wanted = [] if read_only else list(hosts.values())
    try:
        reports = _examine_all(wanted, home, by_name=bool(options.hosts))
    except ConfigError:
        if about_home is None or not about_home.exit_code:
            raise
        reports = []  # the report about home says what is wrong with the file
    everything = [*([about_home] if about_home else []), *reports]
    if options.json:
        told = {
            "home": dataclasses.asdict(about_home) if about_home else None,
            "hosts": [dataclasses.asdict(report) for report in reports],
        }
        print_json(told)
    else:
        _print(everything)
    codes = {report.exit_code for report in everything}
    return next((code for code in _WORST_FIRST if code in codes), max(codes, default=0))


def _examine_all(wanted: Sequence[Host], home: HomePaths, *, by_name: bool) -> list[Report]:
    """All at once: a host that does not answer delays nobody else's report but the end.

    A host that this home wiped is asked only `by_name`, and then nothing is put back there.
    """
    from concurrent.futures import ThreadPoolExecutor

    from armada.cli.progress import Reporter
    from armada.doctor.host import examine, unasked
    from armada.doctor.wiped import wiped_hosts

    if not wanted:
        return []
    progress = Reporter(sys.stderr)
    doing: dict[str, str] = {}
    wiped = wiped_hosts(home)

    def say(name: str, what: str | None) -> None:
        if what is None:
            doing.pop(name, None)
        else:
            doing[name] = what
        going = ", ".join(f"{who} {does}" for who, does in sorted(doing.copy().items()))
        if going:
            progress.now("doctor", going)

    def one(host: Host) -> Report:
        if host.name in wiped and not by_name:
            return unasked(host, wiped[host.name])
        say(host.name, "logging in")
        try:
            return examine(host, home, lambda what: say(host.name, what), wiped.get(host.name))
        finally:
            say(host.name, None)

    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted))) as pool:
        reports = list(pool.map(one, wanted))
    progress.clear()
    return reports


def _print(reports: Sequence[Report]) -> None:
    for report in reports:
        print(f"{report.name}{f' ({report.ssh})' if report.ssh else ''}")
        for finding in report.findings:
            print(f"  {_MARKS[finding.outcome]} {finding.subject:<13} {finding.message}")
            if finding.remedy and finding.outcome != "ok":
                print(f"    {'→':>13} {finding.remedy}")
        _quote("its sshd says", report.banner)
        _quote("its start-up files print", report.noise)
    counts = {word: sum(f.outcome == word for r in reports for f in r.findings) for word in _MARKS}
    print(f"{counts['ok']} in order, {counts['warn']} to know about, {counts['fail']} to fix")


def _quote(what: str, text: str) -> None:
    """Show what came from a host as that, cut, and without anything a terminal would obey."""
    from armada.foundation.sanitize import sanitize_line

    lines = [sanitize_line(line, 200) for line in text.splitlines() if line.strip()]
    if lines:
        print(f"    {what}:")
        for line in lines[:_SHOWN_LINES]:
            print(f"      │ {line}")
        if len(lines) > _SHOWN_LINES:
            print(f"      │ … {len(lines) - _SHOWN_LINES} more lines")
