"""`armada hosts add | set`: put a host into hosts.yaml and pin its key, or change what stands there."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from armada.cli import trust
from armada.cli.auto_host import AUTO
from armada.cli.host_change import carry_out, foresee, listed, say_changes, say_consequences
from armada.cli.host_check import report_hosts
from armada.cli.host_options import TARGET, add_settings, checked_host, given_settings, one_price
from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import ArmadaError, Conflict, UsageError

if TYPE_CHECKING:
    from typing import TextIO

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.config.hosts_file import HostChange

_EXAMPLE = "armada hosts add NAME user@address:port"
_UNSET = {
    "profile": "profile",
    "identity": "identity",
    "root": "root",
    "price": "price_per_hour",
    "scheduler": "scheduler",
    "budget": "budget",
    "stop-when-idle": "stop_when_idle",
    "stop-command": "stop_command",
    "transport": "transport",
    "environments-from": "environments_from",
    "reuse-only": "reuse_only",
}
"""What `--unset` takes, and the keys in hosts.yaml."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add = verbs.add_parser(
        "add",
        help="Add a host and pin its SSH key",
        description="Add a host to hosts.yaml and pin its SSH key. If the name is known, change what is given and keep "
        "the rest; for a new address the key is shown again.",
    )
    add.add_argument("name", help="Name of the host in armada")
    add.add_argument("target", help=TARGET)
    add_settings(add, defaults=True)
    _add_confirmation(add)
    add.add_argument("--dry-run", action="store_true", help="Show the key; pin and add nothing")
    add.add_argument("--json", action="store_true", help="Print a JSON list with one object, as `hosts check` does")
    add.set_defaults(handler=_add)

    change = verbs.add_parser(
        "set",
        help="Change a host's settings",
        description="Change settings of a host in hosts.yaml, and keep the rest of the file as it is. A new address "
        "shows the host's key and asks before it is pinned.",
    )
    add_host_name(change)
    change.add_argument("--address", metavar="TARGET", help=TARGET)
    add_settings(change, defaults=False)
    change.add_argument(
        "--price-since",
        metavar="WHEN",
        help="With --price: valid from then on (2026-06-01, now); the former price counts before",
    )
    change.add_argument(
        "--unset", action="append", default=[], choices=_UNSET, metavar="SETTING",
        help=f"Remove a setting, so that its default holds: {', '.join(_UNSET)}; repeatable",
    )  # fmt: skip
    _add_confirmation(change)
    change.add_argument("--dry-run", action="store_true", help="Show what would change in hosts.yaml; change nothing")
    change.add_argument("--json", action="store_true", help="Print a JSON object")
    change.set_defaults(handler=_set)


def _add_confirmation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="Pin the key that the host shows; do not ask")
    trust.add_expect(parser)


def _add(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    if options.name == "local":
        raise Conflict("`local` is this machine, which is always there", hint="another name")
    settings = given_settings(options, options.target, context.home)
    known = context.hosts().get(options.name)
    if known is not None:
        return _add_again(context, known, settings, options)
    host = new_host(options.name, settings)
    if options.dry_run:
        refuse_taken(context, host)
        trust.show_key(context, host, as_json=options.json)
        return 0
    stream = sys.stderr if options.json else sys.stdout
    add_new(context, host, options, stream)
    return _report(context, host, options)


def new_host(name: str, settings: dict[str, object]) -> Host:
    """A host that is not in hosts.yaml yet.

    Raises:
        UsageError: Its name or a setting cannot be used.
    """
    from armada.config.hosts import Host

    if name == AUTO:
        raise UsageError(f"no host can be called {AUTO}: launch --host {AUTO} chooses a host", hint="another name")
    return checked_host(lambda: Host.model_validate({"name": name, **settings}), _EXAMPLE)


def add_new(
    context: Context, host: Host, options: argparse.Namespace, stream: TextIO, *, expects_one_of: bool = False
) -> None:
    """Show a new host's key, ask, pin it and write the host into hosts.yaml.

    Args:
        context: This command's.
        host: Which.
        options: With `yes` and `expect`.
        stream: For a person.
        expects_one_of: The keys of `expect` are those of several hosts.

    Raises:
        UsageError: The person says no, or nobody is there to ask.
        HostUnreachable: It does not answer, or shows another key than is expected.
        ConfigError: Runs may still be running on another machine of that name, which a project's file names.
    """
    from armada.config.hosts_file import add_host
    from armada.transport.ssh.host_keys import pin

    refuse_taken(context, host)
    again = f"armada hosts add {host.name} {shlex.quote(str(host.ssh))} --dry-run"
    keys = trust.ask_keys(context, host)
    trust.show(keys, stream)
    trust.confirm(host, keys, options, stream, again, one_of=expects_one_of)
    add_host(context.home, host, first=lambda: pin(context.home, host.name, keys.offered))
    stream.write(f"{host.name} added to {context.home.hosts_file}\n")


def refuse_taken(context: Context, host: Host) -> None:
    """Refuse a new host whose name a project's file gave to another machine, on which runs may still be running.

    Raises:
        ConfigError: So it is; the error names that file.
    """
    from armada.provision.namesakes import refuse_while_runs_left

    to_be = host.model_copy(update={"origin": context.home.hosts_file})
    refuse_while_runs_left(context.database, to_be, "nothing was added")


def _add_again(context: Context, known: Host, settings: dict[str, object], options: argparse.Namespace) -> int:
    """Change what is given of a host that is there: somebody repeats the command, or the box has come back elsewhere."""
    stream = sys.stderr if options.json else sys.stdout
    one_price(known, settings)
    change = foresee(context, known, settings, _EXAMPLE)
    again = f"armada hosts add {known.name} {shlex.quote(options.target)} --dry-run"
    if options.dry_run:
        return _foresee_again(context, change, options)
    if change.keys:
        carry_out(context, change, settings, options, stream, again)
    else:
        stream.write(f"{known.name} is already in {change.file}, with the same settings\n")
    return _report(context, change.after, options)


def _foresee_again(context: Context, change: HostChange, options: argparse.Namespace) -> int:
    """Show what adding a known host again would change, and its key."""
    if options.json:
        trust.show_key(context, change.after, as_json=True, more={"changes": listed(change)} if change.keys else {})
        return 0
    say_changes(change, sys.stdout, as_diff=True)
    keys = trust.ask_keys(context, change.after)
    trust.show(keys, sys.stdout)
    if "ssh" in change.keys:
        say_consequences(context, change, keys, sys.stdout)
    return 0


def _report(context: Context, host: Host, options: argparse.Namespace) -> int:
    stays = f"{host.name} stays in hosts.yaml: run the same command to try again, or armada hosts rm {host.name} to remove it"
    try:
        code = report_hosts(context, [host], as_json=options.json)
    except ArmadaError as error:
        error.hint = f"{error.hint}; {stays}" if error.hint else stays
        raise
    if code:
        sys.stderr.write(f"armada: {stays}\n")
    return code


def _say_stop(host: Host, changed: set[str], stream: TextIO) -> None:
    """Say when the stop command is run, where that has changed."""
    if host.stop_command is None or not changed & {"stop_when_idle", "stop_command"}:
        return
    words = " ".join(shlex.quote(word) for word in shlex.split(host.stop_command))
    stream.write(
        f"{host.name}: idle for {host.stop_when_idle}, and if `armada hosts release {host.name}` says that nothing is lost, "
        f"the daemon (armada daemon start) runs here: {words}\n"
    )


def _set(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    known = context.host(options.name)
    settings = given_settings(options, options.address, context.home)
    for word in options.unset:
        if _UNSET[word] in settings:
            raise UsageError(f"--{word} and --unset {word} exclude each other")
        settings[_UNSET[word]] = None
    one_price(known, settings, options.price_since)
    if not settings:
        raise UsageError("nothing to change was given", hint=f"armada hosts set {known.name} --price 12.40")
    change = foresee(context, known, settings, f"armada hosts set {known.name}")
    stream = sys.stderr if options.json else sys.stdout
    keys = None
    if not change.keys:
        stream.write(f"{known.name} has these settings already, in {change.file}\n")
    elif options.dry_run:
        say_changes(change, stream, as_diff=True)
        keys = trust.ask_keys(context, change.after) if "ssh" in change.keys else None
        if keys is not None:
            trust.show(keys, stream)
            say_consequences(context, change, keys, stream)
    else:
        again = f"armada hosts set {known.name} --address {shlex.quote(str(change.after.ssh))} --dry-run"
        keys = carry_out(context, change, settings, options, stream, again)
        if keys is not None:
            stream.write(f"next: armada hosts check {known.name}\n")
    _say_stop(change.after, set(change.keys), stream)
    if options.json:
        print_json(
            {
                "name": known.name,
                "changed": bool(change.keys) and not options.dry_run,
                "changes": listed(change),
                "diff": change.diff,
                "offered": trust.listed(keys.offered, keys.whose) if keys is not None else [],
                "pinned_before": trust.listed(keys.former, keys.whose) if keys is not None else [],
            }
        )
    return 0
