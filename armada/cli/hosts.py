"""`armada hosts add | ls | check | rm`. The other verbs have their own modules."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.cli import connections, homes, provision, release, trust
from armada.cli.disks import foreseen, room
from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.protocol.facts import Facts, Gpu
    from armada.protocol.scheduler import ClusterQueue
    from armada.store.hosts import DiskForecast, HostRecord
    from armada.sync.transfer.link_quality import Judged


_DOUBTS_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True)
class _Checked:
    """What a host that answers said; `queue` of one with a batch system alone."""

    facts: Facts
    link: Judged
    queue: ClusterQueue | None


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "hosts",
        help="Add, check, list and release hosts",
        description="Manage hosts: the machines and clusters that run your experiments.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)

    add = verbs.add_parser(
        "add", help="Add a host and pin its SSH key", description="Add a host to hosts.yaml and pin its SSH key."
    )
    add.add_argument("name", help="Name of the host in armada")
    add.add_argument(
        "target",
        help="user@address:port, a name from your ssh_config, or a whole ssh command in quotes: 'ssh -p 50022 root@…'",
    )
    add.add_argument("--profile", metavar="NAME", help="GPU profile of the machine (default: chosen by its GPUs)")
    add.add_argument("--identity", type=Path, metavar="FILE", help="Private key to log in with")
    add.add_argument("--root", metavar="PATH", help="armada's folder on the host (default: ~/.armada)")
    add.add_argument("--price", type=float, metavar="PER_HOUR", help="Price per hour, in dollars")
    add.add_argument(
        "--scheduler",
        choices=("direct", "slurm", "htcondor"),
        default="direct",
        help="What starts runs there: armada itself (direct), Slurm or HTCondor",
    )
    add.add_argument(
        "--transport",
        choices=("fabric", "openssh"),
        default="fabric",
        help="openssh: use your ssh program and keep one connection open for everything",
    )
    add.add_argument(
        "--reuse-only",
        action="store_true",
        help="With --transport openssh: only `armada hosts connect` opens the connection (sites with one-time codes)",
    )
    add.add_argument("--yes", "-y", action="store_true", help="Pin the key that the host shows; do not ask")
    trust.add_expect(add)
    add.add_argument("--dry-run", action="store_true", help="Show the key; pin and add nothing")
    add.add_argument("--json", action="store_true", help="Print a JSON list with one object, as `hosts check` does")
    add.set_defaults(handler=_add)

    ls = verbs.add_parser(
        "ls", help="List hosts", description="List hosts with what armada last saw of them. Asks no host."
    )
    ls.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    ls.set_defaults(handler=_ls)

    check = verbs.add_parser(
        "check",
        help="Test the connection and inspect hosts",
        description="Log in to hosts and show their GPUs, disks, programs and problems.",
    )
    check.add_argument("names", nargs="*", metavar="NAME", help="Host to check (default: all hosts)")
    check.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    check.set_defaults(handler=_check)

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
    release.register(verbs)
    homes.register(verbs)


def _add(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.config.hosts_file import add_host

    context = Context()
    host = _described(context, options)
    stream = sys.stderr if options.json else sys.stdout
    known = context.hosts().get(host.name)
    if known is not None and _are_same(known, host) and not options.dry_run:
        stream.write(f"{host.name} is already in {known.origin or context.home.hosts_file}, with the same settings\n")
        return _report(context, [host], as_json=options.json)
    if known is not None and not _are_same(known, host):
        raise Conflict(
            f"a host named {host.name!r} exists already", hint=f"armada hosts rm {host.name}, or another name"
        )
    if options.dry_run:
        trust.show_key(context, host, as_json=options.json)
        return 0
    trust.pin_key(context, host, options, stream)
    add_host(context.home, host)
    stream.write(f"{host.name} added to {context.home.hosts_file}\n")
    stays = f"{host.name} stays in hosts.yaml: run the same command to try again, or armada hosts rm {host.name} to remove it"
    try:
        code = _report(context, [host], as_json=options.json)
    except ArmadaError as error:
        error.hint = f"{error.hint}; {stays}" if error.hint else stays
        raise
    if code:
        sys.stderr.write(f"armada: {stays}\n")
    return code


def _described(context: Context, options: argparse.Namespace) -> Host:
    """The host that the command line describes.

    Raises:
        UsageError: A word cannot be what it is meant as.
        Conflict: It is called `local`.
    """
    from armada.config.profiles import load_profile
    from armada.config.ssh_line import read_ssh_line

    line = read_ssh_line(options.target)
    identity = options.identity or line.identity
    if options.profile:
        load_profile(options.profile, context.home)  # a name nobody knows is said now, not at the first launch
    if identity and not identity.expanduser().is_file():
        raise UsageError(f"{identity} is no file", hint="--identity takes a private key, such as ~/.ssh/id_ed25519")
    if identity:
        _check_identity(identity.expanduser())
    if options.name == "local":
        raise Conflict("`local` is this machine, which is always there", hint="another name")
    return _host(
        name=options.name,
        ssh=line.target,
        profile=options.profile,
        identity=identity.expanduser().absolute() if identity else None,
        root=options.root,
        scheduler=options.scheduler,
        price_per_hour=options.price,
        transport=options.transport,
        reuse_only=options.reuse_only,
    )


def _are_same(known: Host, wanted: Host) -> bool:
    """Whether a host is there as it would be added: somebody repeats the command, after what kept it from working."""
    return known.model_dump(exclude={"origin"}) == wanted.model_dump(exclude={"origin"})


def _check_identity(path: Path) -> None:
    """Refuse a key file that no program would log in with.

    Raises:
        UsageError: It is the public half of a key, or others can read it.
    """
    from armada.transport.ssh.authentication import exposed_words, is_exposed

    with path.open("rb") as stream:
        head = stream.read(100)
    if head.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        private = path.with_suffix("") if path.suffix == ".pub" else None
        hint = f"--identity {private}" if private is not None else "the private key has the same name without .pub"
        raise UsageError(f"{path} is a public key; --identity needs the private key", hint=hint)
    if is_exposed(path):
        raise UsageError(exposed_words(path), hint=f"chmod 600 {shlex.quote(str(path))}")


_EXAMPLE = "armada hosts add NAME user@address:port"
_EXAMPLES = {
    "name": "letters, digits, `-`, `_` and `.`, and a letter or digit first: armada hosts add a100-1 user@address:port",
    "root": f"{_EXAMPLE} --root /scratch/me/armada",
    "price_per_hour": f"{_EXAMPLE} --price 12.40",
}


def _host(**fields: Any) -> Host:
    """A host from the command line's words.

    Raises:
        UsageError: A word cannot be what it is meant as.
    """
    from pydantic import ValidationError

    from armada.config.hosts import Host

    try:
        return Host(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "host"
        raise UsageError(f"{where}: {first['msg']}", hint=_EXAMPLES.get(where, _EXAMPLE)) from None


def _ls(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.table import table
    from armada.store import hosts as records

    context = Context()
    found = context.hosts()
    if options.json:
        listed = []
        for host in found.values():
            record = records.find(context.database, host.name)
            listed.append({**json.loads(host.model_dump_json()), **(dataclasses.asdict(record) if record else {})})
        print_json(listed)
        return 0
    rows = []
    for host in found.values():
        record = records.find(context.database, host.name)
        price = f"${host.price_per_hour:.2f}/h" if host.price_per_hour else "—"
        where, profile = host.ssh or "this machine", host.profile or "by its GPUs"
        rows.append(
            (host.name, where, host.scheduler, profile, price, room(record.forecast if record else None), _seen(record))
        )
    print(table(("HOST", "REACHED AT", "SCHEDULER", "PROFILE", "PRICE", "DISK", "SEEN"), rows))
    return 0


def _seen(record: HostRecord | None) -> str:
    if record is None or record.observed_at is None:
        return "not yet"
    if record.unreachable_since is not None:
        return f"unreachable since {time.strftime('%H:%M', time.localtime(record.unreachable_since))}"
    return f"{span(time.time() - record.observed_at)} ago"


def _check(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    wanted = [context.host(name) for name in options.names] or list(context.hosts().values())
    return _report(context, wanted, as_json=options.json)


def _report(context: Context, wanted: list[Host], *, as_json: bool) -> int:
    """Ask hosts for their facts, all at once; the last trouble's exit code, such as 4 if one did not answer."""
    from concurrent.futures import ThreadPoolExecutor

    from armada.monitor.queue import look_at_queue
    from armada.protocol.facts import AskFacts
    from armada.rpc.session import HostSession
    from armada.store import hosts as records
    from armada.sync.schedule.disk_forecast import note_forecast
    from armada.sync.transfer.link_quality import judge_link

    def look(host: Host) -> _Checked | ArmadaError:
        try:
            with HostSession(host, context.home, patience_s=0) as session:
                facts = session.call(AskFacts())
                queue = look_at_queue(session) if host.batch is not None else None
                return _Checked(facts, judge_link(session, facts.as_json()), queue)
        except ArmadaError as error:
            return error

    with ThreadPoolExecutor(max_workers=min(32, len(wanted))) as pool:
        answers = list(pool.map(look, wanted))
    code = 0
    listed: list[dict[str, object]] = []
    for host, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, ArmadaError):
            code = answer.exit_code
            is_away = isinstance(answer, HostUnreachable)
            if len(wanted) == 1 and not is_away:
                raise answer
            if is_away:
                records.mark_unreachable(context.database, host.name, answer.message)
            listed.append({"name": host.name, "reachable": not is_away, "error": answer.message})
            if not as_json:
                print(f"✗ {host.name}: {sanitize_line(answer.message)}")
                if answer.hint:
                    print(f"    → {answer.hint}")
            continue
        told = answer.facts.as_json() | ({"queue": answer.queue.model_dump()} if answer.queue is not None else {})
        records.record_facts(context.database, host.name, told)
        forecast = note_forecast(context.database, host.name)
        disk = dataclasses.asdict(forecast) if forecast is not None else None
        shown = {"forecast": disk, "transfer": dataclasses.asdict(answer.link)}
        listed.append({"name": host.name, "reachable": True, **told, **shown})
        if not as_json:
            _say_facts(context, host, answer, forecast)
    if as_json:
        print_json(listed)
    return code


def _say_facts(context: Context, host: Host, checked: _Checked, forecast: DiskForecast | None) -> None:
    from armada.provision.state import environment_state

    facts, link = checked.facts, checked.link
    memory = amount(facts.memory_bytes) if facts.memory_bytes is not None else "unknown"
    print(
        f"✓ {host.name}: {facts.user} at {facts.hostname}, {facts.cpu_count} cores, {memory} memory, Python {facts.python}"
    )
    if facts.setup:
        print(f"    ⚠ {sanitize_line(facts.setup, 600)}")
    for doubt in facts.doubts[:_DOUBTS_SHOWN]:
        print(f"    ⚠ {doubt}")
    if host.batch is None:
        _say_gpus(facts.gpus)
    disk = facts.disk
    free = f"{amount(disk.free_bytes)} of {amount(disk.total_bytes)} free at {sanitize_line(facts.root)}"
    mark = "⚠ " if forecast is not None and forecast.full_at is not None else ""
    print(f"    {mark}{'; '.join(filter(None, [free, foreseen(forecast)]))}")
    if not host.local and not facts.tools.rsync:
        print("    no rsync: files are sent as a tar stream, which is slower on long links")
    print(f"    checkpoints come by {'rsync' if link.method == 'rsync' else 'the stream'}: {link.reason}")
    if checked.queue is not None:
        _say_queue(host, checked.queue)
        if host.profile is None:
            return
    found = environment_state(host, facts.hardware, facts.environments, context.home)
    if found.key is None:
        print(f"    ⚠ {sanitize_line(found.trouble)}")
        return
    print(f"    profile {found.profile}" + ("" if host.profile else " (by its GPUs)"))
    there = "ready" if found.condition == "ready" else f"{found.condition} (armada hosts provision {host.name})"
    print(f"    environment {found.key} {there}")


def _say_gpus(gpus: Sequence[Gpu]) -> None:
    if not gpus:
        print("    no NVIDIA GPUs")
        return
    busy = sum(1 for gpu in gpus if gpu.processes)
    print(f"    {len(gpus)} × {gpus[0].name} ({busy} in use), driver {gpus[0].driver_version}")


def _say_queue(host: Host, queue: ClusterQueue) -> None:
    """What a batch system has; the GPUs of the machine one logs in to say nothing about its workers."""
    from armada.monitor.queue import describe_queue

    for line in describe_queue(queue, host.scheduler, time.time()):
        print(f"    {line}")
    if host.profile is None:
        where = "hosts.yaml" if host.origin is None else host.origin
        print(f"    ⚠ `profile:` is missing: armada cannot see which GPUs {host.scheduler} assigns")
        print(f"      → set one in {where}, or give --profile with each training")


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
    left = runs.every(context.database, host=host.name)
    only_there = [
        c
        for run in left
        for c in find_only_on_host(context.database, run, price_per_hour=None, now=time.time()).checkpoints
    ]
    forget_host(context.database, host.name, lambda: remove_host(context.home, host.name))
    end_connections(host.name, context.home)
    unpin(context.home, host.name)
    records.delete(context.database, host.name)
    if options.json:
        print_json(
            {"name": host.name, "removed": True, "runs": [run.run_id for run in left], "only_there": len(only_there)}
        )
        return 0
    print(f"{host.name} removed from hosts.yaml; nothing on the host was changed")
    if left:
        stay = f"{counted(len(left), 'run')} of it: armada ps --all still lists them, armada rm RUN --without-host forgets one"
        print(f"  {stay}")
    if only_there:
        size = amount(sum(c.size_bytes for c in only_there))
        print(f"  {counted(len(only_there), 'checkpoint')} ({size}) of these not home, as far as armada knows")
    return 0
