"""`armada hosts trust`: a person compares a host's key, then it is pinned. `hosts add` does the same with a new host's."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from armada.errors import HostKeyChanged, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.transport.host_keys import HostKey


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    trust = verbs.add_parser("trust", help="pin a changed key", description="Show the key a host has now and pin it.")
    trust.add_argument("name")
    trust.add_argument("--yes", "-y", action="store_true", help="without asking")
    trust.add_argument("--dry-run", action="store_true", help="show it beside the pinned one; pin nothing")
    trust.add_argument(
        "--expect",
        action="append",
        metavar="FINGERPRINT",
        help="pin without asking, if this is the key it shows (again for each hop on the way)",
    )
    trust.add_argument("--json", action="store_true", help="an object")
    trust.set_defaults(handler=_trust)


def pin_key(context: Context, host: Host, *, yes: bool) -> None:
    """Show a host's key beside the pinned one, ask unless `yes`, and pin it.

    Raises:
        UsageError: The person says no, or nobody is there to ask.
        HostUnreachable: It does not answer.
    """
    from armada.transport.host_keys import pin

    offered, former = _keys(context, host)
    _show(host, offered, former)
    _ask(yes=yes)
    pin(context.home, host.name, offered)


def _trust(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.transport.host_keys import pin

    context = Context()
    host = context.host(options.name)
    if host.local:
        raise UsageError(f"{host.name} is this machine; there is no key")
    offered, former = _keys(context, host)
    if not options.json:
        _show(host, offered, former)
    if not options.dry_run:
        if options.expect is not None:
            _expect(host, offered, options.expect)
        else:
            _ask(yes=options.yes)
        pin(context.home, host.name, offered)
    if options.json:
        listed = {"offered": _listed(offered), "pinned_before": _listed(former)}
        print(json.dumps({"host": host.name, "ssh": host.ssh, **listed, "pinned": not options.dry_run}, indent=1))
    else:
        print(f"{host.name}: {'nothing was pinned (--dry-run)' if options.dry_run else 'pinned'}")
    return 0


def _keys(context: Context, host: Host) -> tuple[list[HostKey], list[HostKey]]:
    """The keys of the host and of the hops on its way: (shown now, pinned)."""
    from armada.transport.host_keys import pinned_keys, scan
    from armada.transport.resolve import resolve

    offered = scan(resolve(host), context.home)
    known = pinned_keys(context.home)
    return offered, [old for key in offered for old in known.get(key.alias, ())]


def _show(host: Host, offered: Sequence[HostKey], former: Sequence[HostKey]) -> None:
    print(f"{host.name} ({host.ssh}) shows this key:")
    for key in offered:
        print(f"  {key.algorithm} {key.fingerprint}{'  (pinned already)' if key in former else ''}")
        for old in former:
            if old.alias == key.alias and old not in offered:
                print(f"  {old.algorithm} {old.fingerprint}  (pinned before)")


def _ask(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to compare the key", hint="compare it yourself, then add --yes")
    if input("Is it the right one? It will be pinned. [y/N] ").strip().lower() not in ("y", "yes"):
        raise UsageError("not pinned, nothing changed")


def _expect(host: Host, offered: Sequence[HostKey], expected: Sequence[str]) -> None:
    """Whoever compared a key a moment ago compared this one, not another that has taken its place since."""
    shown = [key.fingerprint for key in offered]
    if set(shown) != set(expected):
        raise HostKeyChanged(
            f"it shows {', '.join(shown)}, which is not what was expected; nothing was pinned",
            hint=f"armada hosts trust {host.name} --dry-run",
            host=host.name,
        )


def _listed(keys: Sequence[HostKey]) -> list[dict[str, str]]:
    return [{"alias": key.alias, "algorithm": key.algorithm, "fingerprint": key.fingerprint} for key in keys]
