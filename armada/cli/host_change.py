"""Change a host that is in hosts.yaml: what is refused while runs are there, and what is asked about another address."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.cli import trust
from armada.cli.host_options import checked_host
from armada.errors import Conflict
from armada.units import amount, counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import TextIO

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.config.hosts_file import HostChange


def foresee(context: Context, known: Host, settings: Mapping[str, object], example: str) -> HostChange:
    """Work out what settings change of a host, and refuse what must not change now. Changes nothing.

    Args:
        context: This command's.
        known: The host as configured.
        settings: By their keys in hosts.yaml; None means the default.
        example: A right command, for the hint.

    Raises:
        UsageError: The settings do not fit together.
        Conflict: The host stands in a project's file, or runs there would no longer be found.
    """
    from armada.config.hosts_file import HostChange, changed_host, foresee_change
    from armada.provision.admission import refuse_change

    after = checked_host(lambda: changed_host(known, settings), example)
    file = known.origin or context.home.hosts_file
    change = HostChange(file, known, after, "", "")
    if not change.keys:
        return change
    if file != context.home.hosts_file:
        words = ", ".join(f"{each['key']}: {plain(each['after'])}" for each in listed(change))
        raise Conflict(
            f"{known.name} stands in {file}, a file of a project, which armada does not change",
            hint=f"change it there: {words}; or take another name",
        )
    refuse_change(context.database, known.name, change.keys)
    return foresee_change(context.home, known.name, settings)


def carry_out(
    context: Context,
    change: HostChange,
    settings: Mapping[str, object],
    options: argparse.Namespace,
    stream: TextIO,
    again: str,
) -> trust.ShownKeys | None:
    """Ask about the key where the address changes, then write the change.

    Args:
        context: This command's.
        change: As foreseen.
        settings: What was given.
        options: With `yes` and `expect`.
        stream: For a person.
        again: The command that shows the key anew, for a hint.

    Returns:
        The keys that the host showed; None where its address stays.

    Raises:
        UsageError: The person says no, or nobody is there to ask.
        Conflict: Something began on the host meanwhile.
        HostUnreachable: The new address does not answer, or shows another key than is expected.
    """
    from armada.config.hosts_file import change_host, foresee_change
    from armada.provision.admission import LEADS_THERE
    from armada.provision.admission import change_host as while_unused
    from armada.transport.ssh.host_keys import pin
    from armada.transport.ssh.shared_connection import end_connections

    name, keys = change.before.name, None
    if "ssh" in change.keys:
        stream.write(f"{name}: the address changes from {change.before.ssh} to {change.after.ssh}\n")
        keys = trust.ask_keys(context, change.after)
        trust.show(keys, stream)
        say_consequences(context, change, keys, stream)
        trust.confirm(change.after, keys, options, stream, again)

    if "root" in change.keys and (only_there := _only_there(context, name)):
        former = change.before.root or "~/.armada"
        stream.write(f"{only_there} below {former} not home: armada finds them again only with that root.\n")

    def write() -> HostChange:
        written = change_host(context.home, name, settings)
        if keys is not None:
            pin(context.home, name, keys.offered)
        return written

    written = while_unused(context.database, name, lambda: foresee_change(context.home, name, settings).keys, write)
    if LEADS_THERE & set(written.keys):
        end_connections(name, context.home)
    say_changes(written, stream, as_diff=False)
    return keys


def say_changes(change: HostChange, stream: TextIO, *, as_diff: bool) -> None:
    """Say what changes: as `diff -u` shows the file, or by key."""
    if as_diff:
        stream.write(change.diff)
        return
    stream.write(f"{change.before.name} changed in {change.file}:\n")
    stream.writelines(f"  {each['key']}: {plain(each['before'])} → {plain(each['after'])}\n" for each in listed(change))


def listed(change: HostChange) -> list[dict[str, object]]:
    """The changes, as `--json` prints them."""
    before, after = (host.model_dump(mode="json") for host in (change.before, change.after))
    return [{"key": key, "before": before[key], "after": after[key]} for key in change.keys]


def plain(value: object) -> str:
    """A value as a person reads it."""
    if value is None or isinstance(value, bool):
        return {None: "—", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return ", ".join(map(plain, value)) or "—"
    if isinstance(value, dict):
        return " ".join(f"{key} {plain(each)}" for key, each in value.items()) or "—"
    return str(value)


def say_consequences(context: Context, change: HostChange, keys: trust.ShownKeys, stream: TextIO) -> None:
    """Say which machine answers at a new address by its key, and what that means for the runs that are known."""
    from armada.provision.admission import alive_runs

    name = change.before.name
    pinned = keys.pinned_of(name)
    if keys.shown_by(name) & pinned:
        stream.write("The key is the one that was pinned before: the same machine, or a copy of it.\n")
        return
    if pinned:
        which = "another machine, or the same one installed anew"
        stream.write(f"The key is NOT the one that was pinned before: this is {which}.\n")
    else:
        stream.write(f"No key was pinned for {name} before.\n")
    if alive := alive_runs(context.database, name):
        stream.write(
            f"{counted(len(alive), 'run')} may still be running at the former address, such as {alive[0].run_id}. If this "
            "is another machine, armada does not find them there, and shows them as unknown, not as ended.\n"
        )
    if only_there := _only_there(context, name):
        stream.write(f"{only_there} at the former address not home, as far as armada knows.\n")


def _only_there(context: Context, name: str) -> str | None:
    from armada.store import runs
    from armada.sync.release.only_on_host import find_only_on_host

    database = context.database
    found = [
        checkpoint
        for run in runs.every(database, host=name)
        for checkpoint in find_only_on_host(database, run, price=None, now=time.time()).checkpoints
    ]
    return f"{counted(len(found), 'checkpoint')} ({amount(sum(each.size_bytes for each in found))})" if found else None
