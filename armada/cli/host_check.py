"""`armada hosts check`: log in to hosts, and show what they say of themselves. `hosts add` does the same for a new host."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import TYPE_CHECKING

from armada.cli.disks import foreseen
from armada.cli.printing import print_json
from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, memory_amount

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.protocol.facts import Facts
    from armada.protocol.scheduler import ClusterQueue
    from armada.store.hosts import DiskForecast
    from armada.sync.transfer.link_quality import Judged

_DOUBTS_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True)
class _Checked:
    """What a host that answers said; `queue` of one with a batch system alone."""

    facts: Facts
    link: Judged
    queue: ClusterQueue | None


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = verbs.add_parser(
        "check",
        help="Test the connection and inspect hosts",
        description="Log in to hosts and show their GPUs, disks, programs and problems.",
    )
    check.add_argument("names", nargs="*", metavar="NAME", help="Host to check (default: all hosts)")
    check.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    check.set_defaults(handler=_check)


def _check(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    wanted = [context.host(name) for name in options.names] or list(context.hosts().values())
    context.say_what_counts(*options.names)
    return report_hosts(context, wanted, as_json=options.json)


def report_hosts(context: Context, wanted: list[Host], *, as_json: bool) -> int:
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
    from armada.config.profiles import DERIVED
    from armada.launch.checks.gpus import unused_gpus
    from armada.provision.state import environment_state

    facts, link = checked.facts, checked.link
    memory = memory_amount(facts.memory_bytes) if facts.memory_bytes is not None else "unknown"
    print(
        f"✓ {host.name}: {facts.user} at {facts.hostname}, {facts.cpu_count} cores, {memory} memory, Python {facts.python}"
    )
    if facts.setup:
        print(f"    ⚠ {sanitize_line(facts.setup, 600)}")
    for doubt in facts.doubts[:_DOUBTS_SHOWN]:
        print(f"    ⚠ {doubt}")
    if host.batch is None:
        _say_gpus(facts)
        if unused := unused_gpus(facts):
            print(f"    ⚠ {unused}")
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
    print(
        f"    profile {found.profile}"
        + ("" if host.profile else f" ({'by its GPUs' if facts.hardware.gpus else 'it has no GPU'})")
    )
    if host.profile is None and (found.profile or "").startswith(DERIVED):
        print("    ⚠ no profile fits its GPUs: the settings are derived from them, and are not measured")
        for note in found.notes:
            print(f"    ⚠ {sanitize_line(note)}")
        print(f"      → armada profiles detect {host.name} shows them; --save NAME makes a profile that you can change")
    there = "ready" if found.condition == "ready" else f"{found.condition} (armada hosts provision {host.name})"
    print(f"    environment {found.key} {there}")


def _say_gpus(facts: Facts) -> None:
    from armada.config.profile_choice import describe

    if not facts.gpus:
        print("    no NVIDIA GPUs")
        return
    busy = sum(1 for gpu in facts.gpus if gpu.processes)
    what = sanitize_line(describe(facts.hardware.gpus))
    print(f"    {what} ({busy} in use), driver {facts.gpus[0].driver_version}")


def _say_queue(host: Host, queue: ClusterQueue) -> None:
    """What a batch system has; the GPUs of the machine one logs in to say nothing about its workers."""
    from armada.monitor.queue import describe_queue

    for line in describe_queue(queue, host.scheduler, time.time()):
        print(f"    {line}")
    if host.profile is None:
        where = "hosts.yaml" if host.origin is None else host.origin
        print(f"    ⚠ `profile:` is missing: armada cannot see which GPUs {host.scheduler} assigns")
        print(f"      → set one in {where}, or give --profile with each training")
