"""`armada hosts ls | rm`. The other verbs have their own modules."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from typing import TYPE_CHECKING

from armada.cli import connections, homes, host_add, host_check, host_import, provision, reap, release, trust
from armada.cli.disks import room
from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import NotFound
from armada.foundation.sanitize import sanitize_line
from armada.foundation.secrets import without_secrets_in_command
from armada.units import amount, clock, counted, span

if TYPE_CHECKING:
    from armada.store.hosts import HostRecord


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "hosts",
        help="Add, check, list and release hosts",
        description="Manage hosts: the machines and clusters that run your experiments.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)

    host_add.register(verbs)
    host_import.register(verbs)
    ls = verbs.add_parser(
        "ls", help="List hosts", description="List hosts with what armada last saw of them. Asks no host."
    )
    ls.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    ls.set_defaults(handler=_ls)

    host_check.register(verbs)
    remove = verbs.add_parser(
        "rm",
        help="Remove a host from hosts.yaml",
        description="Remove a host from hosts.yaml and forget its SSH key. Nothing on the host changes.",
    )
    add_host_name(remove)
    remove.add_argument("--json", action="store_true", help="Print a JSON object")
    remove.set_defaults(handler=_remove)

    provision.register(verbs)
    trust.register(verbs)
    connections.register(verbs)
    reap.register(verbs)
    release.register(verbs)
    homes.register(verbs)


def _ls(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.table import table
    from armada.compare.costs import gather_costs
    from armada.store import hosts as records
    from armada.verdicts.idle import stopping_of

    context = Context()
    found = context.hosts()
    report = gather_costs(context, hosts=(), run_id=None, weeks=0)
    costs = {each.host: each for each in report.hosts}
    if options.json:
        listed = []
        for host in found.values():
            record = records.find(context.database, host.name)
            plain = json.loads(host.model_dump_json()) | (dataclasses.asdict(record) if record else {})
            if host.stop_command is not None:  # a provider's command may have a key in it, and assistants read this
                plain["stop_command"] = without_secrets_in_command(host.stop_command)
            plain["prices"] = [price._asdict() for price in host.prices]
            cost = costs.get(host.name)
            plain["costs"] = cost.whole.as_json() if cost is not None else None
            plain["idle_costs"] = cost.idle.as_json() if cost is not None and cost.idle is not None else None
            listed.append(plain)
        print_json(listed)
        return 0
    rows: list[tuple[str, ...]] = []
    for host in found.values():
        record = records.find(context.database, host.name)
        tariff = host.tariff()
        price = tariff.price_at(time.time()) if tariff is not None else None
        where, profile = host.ssh or "this machine", host.profile or "by its GPUs"
        shown = price.text if price is not None and price.amount else "—"
        disk = room(record.forecast if record else None)
        rows.append((host.name, where, host.scheduler, profile, shown, disk, _seen(record)))
    header: tuple[str, ...] = ("HOST", "REACHED AT", "SCHEDULER", "PROFILE", "PRICE", "DISK", "SEEN")
    if report.total.is_known:
        paid = [costs[row[0]].whole.text() if row[0] in costs else "" for row in rows]
        header, rows = (*header, "COST"), [(*row, cost or "—") for row, cost in zip(rows, paid, strict=True)]
    print(table(header, rows))
    for host in found.values():
        stopping = stopping_of(record.stopping if (record := records.find(context.database, host.name)) else None)
        if stopping.said and host.stop_command is not None:
            later = max(0.0, stopping.next_try_at - time.time())
            print(
                f"{host.name}: {sanitize_line(stopping.said, 300)}" + (f"; next try in {span(later)}" if later else "")
            )
    return 0


def _seen(record: HostRecord | None) -> str:
    if record is None or record.observed_at is None:
        return "not yet"
    if record.unreachable_since is not None:
        return f"unreachable since {clock(record.unreachable_since, time.time())}"
    return f"{span(time.time() - record.observed_at)} ago"


def _remove(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.config.hosts_file import remove_host
    from armada.provision.admission import forget_host
    from armada.store import hosts as records
    from armada.store import runs
    from armada.sync.release.only_on_host import find_only_on_host
    from armada.transport.ssh.host_keys import unpin
    from armada.transport.ssh.shared_connection import end_connections

    context = Context()
    host = context.host(options.name)
    if host.name == "local":
        raise NotFound("`local` is built in and cannot be removed")
    needed_by = [each for each in context.hosts().values() if each.environments_from == host.name]
    left = runs.every(context.database, host=host.name)
    only_there = [
        c for run in left for c in find_only_on_host(context.database, run, price=None, now=time.time()).checkpoints
    ]
    forget_host(context.database, host.name, lambda: remove_host(context.home, host.name))
    end_connections(host.name, context.home)
    unpin(context.home, host.name)
    records.delete(context.database, host.name)
    if options.json:
        print_json(
            {"name": host.name, "removed": True, "runs": [run.run_id for run in left], "only_there": len(only_there)}
            | {"needed_by": [each.name for each in needed_by]}
        )
        return 0
    print(f"{host.name} removed from hosts.yaml; nothing on the host was changed")
    for each in needed_by:
        print(
            f"  {each.name} gets its environments from it: change `environments_from` in {each.origin or 'hosts.yaml'}"
        )
    if left:
        them, one = ("it", "it") if len(left) == 1 else ("them", "one")
        lists = f"armada ps --all still lists {them}, armada rm RUN --without-host forgets {one}"
        stay = f"{counted(len(left), 'run')} of it: {lists}"
        print(f"  {stay}")
    if left and host.prices and host.batch is None:
        print("  from now on `armada costs` counts only its runs, and not what nobody used of it")
    if only_there:
        size = amount(sum(c.size_bytes for c in only_there))
        print(f"  {counted(len(only_there), 'checkpoint')} ({size}) of these not home, as far as armada knows")
    return 0
