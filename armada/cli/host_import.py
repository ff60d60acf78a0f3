"""`armada hosts import`: take hosts over from ssh_config, each by its name there."""

from __future__ import annotations

import argparse
import fnmatch
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from armada.cli import trust
from armada.cli.host_add import add_new, new_host
from armada.cli.printing import print_json
from armada.cli.table import table
from armada.errors import ArmadaError, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.config.ssh_aliases import Alias, Aliases
    from armada.transport.ssh.resolve import HostSpec

Outcome = Literal["new", "known", "refused", "added", "failed"]
_WORDS: Mapping[Outcome, str] = {"new": "can be added", "added": "added"}


@dataclass(slots=True)
class _Candidate:
    """A name of ssh_config, what it stands for, and what becomes of it; `why` of one that is not added."""

    alias: Alias
    outcome: Outcome = "new"
    host: Host | None = None
    spec: HostSpec | None = None
    why: str | None = None
    known_as: str | None = None

    @property
    def words(self) -> str:
        if self.outcome == "known":
            return f"known as {self.known_as}"
        return _WORDS.get(self.outcome) or f"{self.outcome}: {self.why}"


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "import",
        help="Add hosts that your ssh_config names",
        description="List the hosts in your ssh_config, with the files that it includes, and add those that match a "
        "PATTERN. They stay names of ssh_config: what changes there holds for armada, too. Names with wildcards and "
        "Match blocks are not listed.",
    )
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="Names to add, such as gpu-1 or 'gpu-*' (default: only list)"
    )
    parser.add_argument("--all", action="store_true", help="Add all that can be added")
    parser.add_argument("--file", type=Path, metavar="FILE", help="Read this file, which your ssh_config includes")
    parser.add_argument("--yes", "-y", action="store_true", help="Pin the keys that the hosts show; do not ask")
    trust.add_expect(parser)
    parser.add_argument("--dry-run", action="store_true", help="Show what would be added; ask no host")
    parser.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    parser.set_defaults(handler=_import)


def _import(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    if options.all and options.patterns:
        raise UsageError("--all and a PATTERN exclude each other")
    found = _aliases(options.file)
    candidates = _judged(context, _chosen(found, options.patterns))
    adds = (options.all or options.patterns) and not options.dry_run
    stream = sys.stderr if options.json else sys.stdout
    code = _add_each(context, candidates, options, stream) if adds else 0
    if options.json:
        print_json([_told(each) for each in candidates])
        return code
    _say(candidates, found, stream)
    new = [each.alias.name for each in candidates if each.outcome == "new"]
    if new and not adds:
        words = "--all" if options.all else shlex.join(options.patterns)
        how = (
            f"armada hosts import {words} adds" if words else f"armada hosts import {new[0]} adds this one, --all adds"
        )
        stream.write(f"nothing was added; {how} {counted(len(new), 'host')}\n")
    added = [each.alias.name for each in candidates if each.outcome == "added"]
    if added:
        stream.write(
            f"{counted(len(added), 'host')} added to {context.home.hosts_file}; armada hosts check {shlex.join(added)}\n"
        )
    return code


def _aliases(given: Path | None) -> Aliases:
    """Read the names.

    Raises:
        ConfigError: The file cannot be read.
        UsageError: It is one that `ssh` does not read, so that its names mean nothing to it.
    """
    from armada.config.ssh_aliases import list_aliases, own_config

    own = own_config()
    if given is None:
        return list_aliases(own)
    found = list_aliases(given)
    system = [] if os.environ.get("ARMADA_SSH_CONFIG") else [Path("/etc/ssh/ssh_config")]
    read = {path for file in (own, *system) if file.is_file() for path in list_aliases(file).files}
    if expanded(given).resolve() not in read:
        raise UsageError(
            f"ssh does not read {given}, so it does not know the names in it",
            hint=f"put this line at the top of {own}: Include {expanded(given).absolute()}",
        )
    return found


def _chosen(found: Aliases, patterns: Sequence[str]) -> list[Alias]:
    """The names that match.

    Raises:
        NotFound: A pattern matches none.
    """
    for pattern in patterns:
        if not fnmatch.filter(found.names, pattern):
            import difflib

            near = difflib.get_close_matches(pattern, found.names, 1)
            hint = f"did you mean {near[0]}?" if near else "armada hosts import lists the names"
            raise NotFound(f"no name in your ssh_config matches {pattern!r}", hint=hint)
    return [
        alias
        for name, alias in found.names.items()
        if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def _judged(context: Context, aliases: Sequence[Alias]) -> list[_Candidate]:
    """Ask OpenSSH what each name stands for, and compare with the hosts that are known."""
    from concurrent.futures import ThreadPoolExecutor

    known = {name: host for name, host in context.hosts().items() if host.ssh is not None}
    with ThreadPoolExecutor(max_workers=8) as pool:
        specs = pool.map(_resolved, known.values())
        places = {
            spec.place: name for name, spec in zip(known, specs, strict=True) if not isinstance(spec, ArmadaError)
        }
        return list(pool.map(lambda alias: _judge(alias, known, places), aliases))


def _judge(alias: Alias, known: Mapping[str, Host], places: Mapping[tuple[object, ...], str]) -> _Candidate:
    found = _Candidate(alias)
    same = next((name for name, host in known.items() if host.ssh == alias.name), None)
    try:
        found.host = new_host(alias.name, {"ssh": alias.name})
    except UsageError as error:
        found.outcome, found.why = "refused", error.message
        return found
    spec = _resolved(found.host)
    if isinstance(spec, ArmadaError):
        found.outcome, found.why = "refused", spec.message
        return found
    found.spec = spec
    found.known_as = same or places.get(spec.place)
    if found.known_as is not None:
        found.outcome = "known"
    elif alias.name in known:
        where = known[alias.name].ssh or "this machine"
        found.outcome, found.why = "refused", f"another host is called {alias.name}, at {where}"
    return found


def _resolved(host: Host) -> HostSpec | ArmadaError:
    from armada.transport.ssh.resolve import resolve

    try:
        return resolve(host)
    except ArmadaError as error:
        return error


def _add_each(context: Context, candidates: Sequence[_Candidate], options: argparse.Namespace, stream: TextIO) -> int:
    """Add those that are new, each after its own question; the last trouble's exit code.

    Raises:
        UsageError: Nobody is there to compare keys.
    """
    code = 0
    new = [each for each in candidates if each.outcome == "new"]
    if new and not options.yes and options.expect is None and not sys.stdin.isatty():
        raise UsageError(
            "comparing the keys needs a terminal", hint="compare them yourself, then add --yes, or --expect for each"
        )
    places: dict[tuple[object, ...], str] = {}
    for each, host, spec in [(each, each.host, each.spec) for each in new]:
        if host is None or spec is None:
            continue
        if spec.place in places:
            each.outcome, each.known_as = "known", places[spec.place]
            continue
        try:
            add_new(context, host, options, stream, expects_one_of=True)
            each.outcome, places[spec.place] = "added", host.name
        except ArmadaError as error:
            code, each.outcome, each.why = error.exit_code, "failed", sanitize_line(error.message, 500)
            stream.write(f"{host.name}: {each.why}\n")
    return code


def _say(candidates: Sequence[_Candidate], found: Aliases, stream: TextIO) -> None:
    rows = []
    for each in candidates:
        target = sanitize_line(each.spec.target, 100) if each.spec is not None else "—"
        through = ", ".join(hop.target for hop in each.spec.hops) if each.spec is not None else ""
        rows.append(
            (
                sanitize_line(each.alias.name, 63),
                target,
                sanitize_line(through, 100) or "—",
                sanitize_line(each.words, 200),
            )
        )
    if rows:
        stream.write(table(("NAME", "ADDRESS", "THROUGH", "STATE"), rows) + "\n")
    else:
        stream.write("your ssh_config names no hosts without wildcards\n")
    stream.writelines(f"  {sanitize_line(note, 300)}\n" for note in found.notes)


def _told(each: _Candidate) -> dict[str, object]:
    spec = each.spec
    return {
        "name": each.alias.name,
        "file": str(each.alias.file),
        "line": each.alias.line,
        "address": spec.hostname if spec is not None else None,
        "port": spec.port if spec is not None else None,
        "user": spec.user if spec is not None else None,
        "through": [hop.target for hop in spec.hops] if spec is not None else [],
        "outcome": each.outcome,
        "known_as": each.known_as,
        "error": each.why,
    }
