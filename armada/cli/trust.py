"""`armada hosts trust`: show a host's key, ask, and pin it. `hosts add` does the same for a new host."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import HostKeyChanged, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.rpc.outage import waiting_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.transport.ssh.host_keys import HostKey


class _Key(TypedDict):
    """A key, as `--json` prints it."""

    alias: str
    algorithm: str
    fingerprint: str
    machine: str


class _Trusted(TypedDict):
    """What `--json` prints."""

    host: str
    ssh: str | None
    offered: list[_Key]
    pinned_before: list[_Key]
    pinned: bool


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    trust = verbs.add_parser(
        "trust", help="Pin a host's changed SSH key", description="Show the SSH key that the host has now and pin it."
    )
    add_host_name(trust)
    trust.add_argument("--yes", "-y", action="store_true", help="Pin without asking")
    trust.add_argument("--dry-run", action="store_true", help="Show the new key and the pinned one; pin nothing")
    add_expect(trust)
    trust.add_argument("--json", action="store_true", help="Print a JSON object")
    trust.set_defaults(handler=_trust)


@dataclass(frozen=True, slots=True)
class ShownKeys:
    """The keys that a host and the hops on its way show now, those that were pinned, and whose each alias is."""

    offered: Sequence[HostKey]
    former: Sequence[HostKey]
    whose: Mapping[str, str]

    def shown_by(self, name: str) -> set[HostKey]:
        """The keys that the host itself shows, without those of its hops."""
        return {key for key in self.offered if key.alias == f"armada-{name}"}

    def pinned_of(self, name: str) -> set[HostKey]:
        """The keys of the host itself that were pinned."""
        return {key for key in self.former if key.alias == f"armada-{name}"}


def confirm(
    host: Host,
    keys: ShownKeys,
    options: argparse.Namespace,
    stream: TextIO,
    again: str,
    *,
    one_of: bool = False,
    question: str = "Pin it?",
) -> None:
    """Compare the shown keys with `--expect`, or ask a person, unless `--yes` says that somebody compared them.

    Args:
        host: Whose they are.
        keys: As shown.
        options: With `yes` and `expect`.
        stream: Where the person reads the question.
        again: The command that shows the key anew, for a hint.
        one_of: The keys of `expect` are those of several hosts.
        question: What a yes means.

    Raises:
        UsageError: The person says no, or nobody is there to ask.
        HostKeyChanged: It is not the key of `--expect`.
    """
    if options.expect is not None:
        fingerprints = {key.fingerprint for key in keys.offered}
        _expect(host, keys.offered, [each for each in options.expect if not one_of or each in fingerprints], again)
    else:
        _ask(stream, question, yes=options.yes)


def show_key(context: Context, host: Host, *, as_json: bool, more: Mapping[str, object] | None = None) -> None:
    """Show a host's key beside the pinned one, and change nothing.

    Args:
        context: This command's.
        host: Whose.
        as_json: For a program.
        more: What the program is told beside the keys.

    Raises:
        HostUnreachable: It does not answer.
    """
    keys = ask_keys(context, host)
    if as_json:
        print_json({**_told(host, keys, pinned=False), **(more or {})})
    else:
        show(keys, sys.stdout)


def add_expect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expect",
        action="append",
        metavar="FINGERPRINT",
        help="Pin without asking if the host shows this key; repeat the option for each jump host",
    )


def _trust(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.transport.ssh.host_keys import pin

    context = Context()
    host = context.host(options.name)
    if host.local:
        raise UsageError(f"{host.name} is this machine; it has no key")
    keys = ask_keys(context, host)
    stream = sys.stderr if options.json else sys.stdout
    if not (options.json and (options.dry_run or options.yes or options.expect)):
        show(keys, stream)
    if not options.dry_run:
        confirm(host, keys, options, stream, f"armada hosts trust {host.name} --dry-run")
        pin(context.home, host.name, keys.offered)
    if options.json:
        print_json(_told(host, keys, pinned=not options.dry_run))
    else:
        print(f"{host.name}: {'nothing was pinned (--dry-run)' if options.dry_run else 'pinned'}")
    return 0


def ask_keys(context: Context, host: Host) -> ShownKeys:
    """Ask a host, and the hops on its way, for the keys they show now.

    Raises:
        HostUnreachable: A machine does not answer.
    """
    from armada.transport.ssh.handshake import scan
    from armada.transport.ssh.host_keys import pinned_keys
    from armada.transport.ssh.resolve import resolve

    spec = resolve(host)
    with waiting_for(f"{host.name} to show its key", lambda: True):
        offered = scan(spec, context.home)
    known = pinned_keys(context.home)
    whose = {hop.alias: f"jump host {hop.target}, on the way to {host.name}" for hop in spec.hops}
    whose[spec.alias] = f"{host.name} ({host.ssh})"
    return ShownKeys(offered, [old for key in offered for old in known.get(key.alias, ())], whose)


def show(keys: ShownKeys, stream: TextIO) -> None:
    """Show each machine's keys under a line that says which machine it is: a host may be reached through others."""
    for alias in dict.fromkeys(key.alias for key in keys.offered):
        stream.write(f"{sanitize_line(keys.whose.get(alias, alias), 300)} shows this key:\n")
        for key in keys.offered:
            if key.alias == alias:
                known = "  (pinned already)" if key in keys.former else ""
                stream.write(f"  {key.algorithm} {key.fingerprint}{known}\n")
        for old in keys.former:
            if old.alias == alias and old not in keys.offered:
                stream.write(f"  {old.algorithm} {old.fingerprint}  (pinned before)\n")


def _ask(stream: TextIO, question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("comparing the key needs a terminal", hint="compare the key yourself, then add --yes")
    stream.write(f"Is this the right key? {question} [y/N] ")
    stream.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not pinned, nothing changed")


def _expect(host: Host, offered: Sequence[HostKey], expected: Sequence[str], hint: str) -> None:
    """Whoever compared a key a moment ago compared this one, not another that has taken its place since."""
    shown = [key.fingerprint for key in offered]
    if set(shown) != set(expected):
        raise HostKeyChanged(
            f"it shows {', '.join(shown)}, not the expected key; nothing was pinned",
            hint=hint,
            host=host.name,
        )


def _told(host: Host, keys: ShownKeys, *, pinned: bool) -> _Trusted:
    return {
        "host": host.name,
        "ssh": host.ssh,
        "offered": listed(keys.offered, keys.whose),
        "pinned_before": listed(keys.former, keys.whose),
        "pinned": pinned,
    }


def listed(keys: Sequence[HostKey], whose: Mapping[str, str]) -> list[_Key]:
    """Keys, as `--json` prints them."""
    return [
        {
            "alias": key.alias,
            "algorithm": key.algorithm,
            "fingerprint": key.fingerprint,
            "machine": whose.get(key.alias, key.alias),
        }
        for key in keys
    ]
