"""Format a host for the Hosts screen: its row, and the lines under it."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.config.profiles import DERIVED
from armada.foundation.sanitize import sanitize_line
from armada.protocol.recorded import RecordedFacts
from armada.tui.gpu_strips import NO_GPU, faded, gpu_spans, gpus_or_queue, loads, points_of
from armada.tui.host_runs import idle_since, is_idle_money, needing
from armada.tui.kept import Kept
from armada.tui.widgets.list_table import Item, Line
from armada.tui.widgets.run_signs import host_sign
from armada.tui.widgets.run_table import age
from armada.tui.widgets.table import Cells, Column, Span
from armada.units import amount, brief_span, clock, counted, exact_span, rough_span, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from armada.protocol.recorded import RecordedGpu, RecordedQueue
    from armada.store.hosts import HostRecord
    from armada.store.telemetry import Point
    from armada.tui.host_runs import RunsOfHost
    from armada.tui.snapshot import HostView, RunRow, Snapshot
    from armada.tui.symbols import Symbols

LOADS = 8
"""Cells for what GPUs do now: several GPUs share one where a host has more."""
COLUMNS = (
    Column("", 1),
    Column("HOST", 12, grow=2, most=24),
    Column("GPUS", 16, grow=12, most=18, widest=22, rank=1),
    Column("LOAD", LOADS + 5, grow=3, most=36, rank=2),
    Column("RUNS", 7, grow=5, most=90, rank=3, widest=90),
    Column("SAFE?", 10, rank=4),
    Column("ENVIRONMENT", 11, grow=6, most=28, rank=8, widest=28),
    Column("PRICE", 9, right=True, rank=5),
    Column("DISK FREE", 9, right=True, rank=6),
    Column("LAST SEEN", 10, rank=7),
)
GPUS, PRICE = ([column.title for column in COLUMNS].index(title) for title in ("GPUS", "PRICE"))
GPUS_SHOWN = 16
QUEUE_SHOWN = 4
HISTORY_WIDE, HISTORY, HISTORY_NARROW = 45, 16, 6
LOAD_HISTORY = 10
"""Cells for the mean load over time in a row of a wide screen."""
WIDE = 150
NARROW = 110
FREE = "free"
_LIMIT = re.compile(r"(?:(\d{1,4})-)?(?:(\d{1,4}):)?(\d{1,4}):(\d{2})")


def columns_for(hosts: Sequence[HostView], now: float) -> tuple[Column, ...]:
    """Return the columns, of which that of prices is wide enough for each of them if there is room.

    That of GPUs yields it what its words do not need.
    """
    prices = (host.tariff.price_at(now) for host in hosts if host.tariff is not None)
    wide = max((cell_len(price.text) for price in prices if price is not None), default=0)
    gpus, price = COLUMNS[GPUS], COLUMNS[PRICE]
    if wide <= price.width:
        return COLUMNS
    needed = max(cell_len(_gpus_of(host)) for host in hosts)
    fitted = {
        GPUS: gpus._replace(width=min(gpus.width, max(needed, len(gpus.title)))),
        PRICE: price._replace(wants=wide),
    }
    return tuple(fitted.get(place, column) for place, column in enumerate(COLUMNS))


def _gpus_of(host: HostView) -> str:
    """Say which GPUs a host has, or that nobody asked it."""
    is_known = host.record is not None and host.record.facts is not None
    return gpus_or_queue(host.facts or RecordedFacts()) if is_known else "not checked"


class GpuLines:
    """Makes the lines of GPUs: those of hosts in sight alone, and again only after something that they show has changed."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._kept: Kept[tuple[Span, ...]] = Kept()

    def together(self, host: HostView, shown: int, *, is_stale: bool = False) -> tuple[Span, ...]:
        """Return what all GPUs of a host do now, and their mean over time in `shown` cells; what is of earlier is faint."""
        made_from = (host.facts, host.telemetry, shown, is_stale)

        def make() -> tuple[Span, ...]:
            spans = loads(host.gpus, host.telemetry, self._symbols, LOADS, shown)
            return tuple(faded(spans) if is_stale else spans)

        return self._kept.get(host.name, made_from, make)

    def one(
        self, host: HostView, place: int, index: Mapping[str, RunRow], shown: int, *, is_stale: bool = False
    ) -> tuple[Span, ...]:
        """Return the line of one GPU of a host."""
        gpu = host.gpus[place]
        points, users = points_of(host.telemetry, gpu), _users(gpu, index)
        made_from = (gpu, points, users, shown, is_stale)

        def make() -> tuple[Span, ...]:
            spans = _gpu_line(gpu, points, users, self._symbols, shown)
            return tuple(faded(spans)) if is_stale else spans

        return self._kept.get((host.name, place), made_from, make)


def host_item(
    host: HostView,
    runs: RunsOfHost,
    snapshot: Snapshot,
    symbols: Symbols,
    now: float,
    width: int,
    lines: GpuLines,
    card: Iterable[tuple[Span, ...]] = (),
    *,
    safe: Span = ("", "dim"),
    lists: bool = False,
) -> Item:
    """Return a host's row, with its problems below it.

    `safe` says whether it can be destroyed. With a card, its queue and its GPUs one by one are below it, too; where
    `lists` is true, at least its GPUs. They and the row itself are made when they come in sight.
    """
    history = (HISTORY_WIDE if width >= WIDE else HISTORY) if width >= NARROW else HISTORY_NARROW
    record = host.record
    is_known = record is not None and record.facts is not None
    facts, gpus = host.facts or RecordedFacts(), host.gpus
    price = host.tariff.price_at(now) if host.tariff is not None else None
    active = runs.active
    sign, is_stale = host_sign(host, active, symbols), host.is_stale(now)
    seen = host.seen_at
    unknown = " (not in hosts.yaml)" if snapshot.config_trouble is None else " (hosts.yaml cannot be used)"
    shown = LOAD_HISTORY if width >= WIDE else 0

    def cells() -> Cells:
        return (
            (sign,),
            ((sanitize_line(host.name, 60), "strong"), ("" if host.configured else unknown, "dim")),
            ((_gpus_of(host), "plain"),),
            lines.together(host, shown, is_stale=is_stale) if gpus else (("" if is_known else "c checks it", "dim"),),
            _work(active, facts, snapshot),
            (safe,),
            _environment(host, snapshot),
            ((price.text if price is not None else "", "warn" if is_idle_money(host, runs, now) else "plain"),),
            ((_disk(facts), "plain"),),
            ((f"{rough_span(now - seen)} ago" if seen is not None else "never", "dim"),),
        )

    about: list[Cells] = [(line,) for line in card]
    more: list[Line] = [(line,) for line in _troubles(host, record, now)]
    more += about or [(line,) for line in (*_needing(active), *_idle(host, runs, now))]
    if not (about or lists):
        return Item(host.name, cells, tuple(more))
    more += [(line,) for line in queue_lines(facts.queue, snapshot, now)]
    more += [
        partial(_line_of, lines, host, place, snapshot.by_id, history, is_stale=is_stale)
        for place in range(min(len(gpus), GPUS_SHOWN))
    ]
    if len(gpus) > GPUS_SHOWN:
        more.append((((f"and {counted(len(gpus) - GPUS_SHOWN, 'GPU')} more", "dim"),),))
    return Item(host.name, cells, tuple(more))


def has_no_gpu(host: HostView) -> bool:
    """Return whether a host was asked and is a machine without GPUs; a cluster has those of its queue."""
    return host.facts is not None and not host.facts.gpus and gpus_or_queue(host.facts) == NO_GPU


def _work(active: Sequence[RunRow], facts: RecordedFacts, snapshot: Snapshot) -> tuple[Span, ...]:
    """Say how many runs a host has, how many wait for its GPUs, and who uses which of them."""
    spans: list[Span] = [(counted(len(active), "run") if active else "idle", "plain" if active else "dim")]
    if facts.queue is not None and facts.queue.waiting:
        waiting = len(facts.queue.waiting)
        spans.append((f", {waiting} {'waits' if waiting == 1 else 'wait'}", "accent"))
    used: dict[str, list[int]] = {}
    for place, gpu in enumerate(facts.gpus or ()):
        used.setdefault(_users(gpu, snapshot.by_id), []).append(place if gpu.index is None else gpu.index)
    if (free := len(used.pop(FREE, ()))) and used:
        spans.append((f", {counted(free, 'GPU')} free", "plain"))
    spans += [(f"  {user} ({ranges(of)})", "dim") for user, of in used.items()]
    return tuple(spans)


def _environment(host: HostView, snapshot: Snapshot) -> tuple[Span, ...]:
    found = host.environment
    ours = [each for each in snapshot.operations if each.state == "running" and each.host == host.name]
    if any(each.kind == "provision" for each in ours):
        return (("building", "accent"),)  # known here at once; the host reports it with the next poll
    if found is None or found.condition == "unknown":
        return (("", "dim"),)
    style = {"ready": "good", "building": "accent"}.get(found.condition, "plain")
    return ((found.condition, style), (f" {found.key}", "dim"))


def _disk(facts: RecordedFacts) -> str:
    free = facts.disk.free_bytes if facts.disk is not None else None
    return amount(free) if free is not None else ""


def _needing(active: Sequence[RunRow]) -> Iterator[tuple[Span, ...]]:
    """Yield which runs of a host need you, and why."""
    if words := needing(active):
        yield ((words, "warn"),)


def _idle(host: HostView, runs: RunsOfHost, now: float) -> Iterator[tuple[Span, ...]]:
    """Yield what a host costs that has run nothing for some time."""
    price = host.tariff.price_at(now) if host.tariff is not None else None
    since = idle_since(host, runs)
    if since is not None and price is not None and is_idle_money(host, runs, now):
        yield ((f"idle for {span(now - since)}: it costs {price.text} all the same", "warn"),)


def _troubles(host: HostView, record: HostRecord | None, now: float) -> Iterator[tuple[Span, ...]]:
    if host.silent is not None:
        since = clock(host.silent.since, time.time())
        lasted = span(now - host.silent.since)
        yield ((f"unreachable since {since} ({lasted}): {sanitize_line(host.silent.why, 200)}", "warn"),)
    forecast = record.forecast if record is not None else None
    if forecast is not None and forecast.full_at is not None:
        pace = f"its runs save {amount(forecast.bytes_per_s * 3600)} an hour"
        yield ((f"disk full in about {span(forecast.full_at - now)}: {pace}", "warn"),)
    if record is not None and record.released_at is not None:
        yield ((f"wiped {age(record.released_at, now)}: not watched until something is launched on it", "dim"),)
    derived = host.environment.profile if host.environment is not None else None
    if derived is not None and derived.startswith(DERIVED):
        yield ((f"no profile fits its GPUs: {derived} is made from them (armada profiles detect {host.name})", "warn"),)
    if host.facts is not None and host.facts.queue is not None and host.facts.queue.error:
        yield ((f"its scheduler does not answer: {sanitize_line(host.facts.queue.error, 300)}", "warn"),)
    if host.environment is not None and host.environment.key is None and host.environment.trouble:
        yield ((f"environment: {sanitize_line(host.environment.trouble, 300)}", "warn"),)


def queue_lines(queue: RecordedQueue | None, snapshot: Snapshot, now: float) -> Iterator[tuple[Span, ...]]:
    """Yield the jobs that wait for GPUs, in order, and the batch system's last answer."""
    if queue is None:
        return
    if waiting := queue.waiting:
        names = []
        for each in waiting[:QUEUE_SHOWN]:
            lasted = f" {brief_span(now - each.since)}" if each.since is not None else ""
            names.append(f"{_whose(each.run_id, snapshot.by_id)}{lasted}")
        more = f", {len(waiting) - QUEUE_SHOWN} more" if len(waiting) > QUEUE_SHOWN else ""
        verb = "waits" if len(waiting) == 1 else "wait"
        yield ((f"{len(waiting)} {verb} for GPUs: ", "accent"), (", ".join(names) + more, "plain"))
    counts = {"mine": _counts(queue.mine), "others": _counts(queue.others)}
    jobs = [f"{whose}: {said}" for whose, said in counts.items() if said]
    if queue.quota is not None and queue.quota.strip():
        jobs.append(f"quota: {sanitize_line(queue.quota.strip().splitlines()[-1], 120)}")
    if jobs:
        yield (("queue  ", "accent"), (" · ".join(jobs), "plain"))
    for part in queue.partitions[:QUEUE_SHOWN]:
        state = f" · {sanitize_line(part.state, 30)}" if part.state else ""
        limit = f" · at most {time_limit(part.time_limit)}" if part.time_limit else ""
        room = f"  {part.gpus_free} of {counted(part.gpus, 'GPU')} free · {counted(part.nodes, 'node')}{state}{limit}"
        yield ((sanitize_line(part.name, 40), "strong"), (room, "plain"))


def time_limit(written: str) -> str:
    """Write a limit of Slurm's, `1-00:00:00` or `30:00`, as a span; what has another form stays."""
    match = _LIMIT.fullmatch(written.strip())
    if match is None:
        return sanitize_line(written, 30)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return exact_span(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _counts(jobs: Mapping[str, int]) -> str:
    """Format counts: `2 running, 1 pending`."""
    return ", ".join(f"{count} {sanitize_line(state, 20).lower()}" for state, count in jobs.items() if count)


def _line_of(
    lines: GpuLines, host: HostView, place: int, index: Mapping[str, RunRow], shown: int, *, is_stale: bool
) -> Cells:
    return (lines.one(host, place, index, shown, is_stale=is_stale),)


def _gpu_line(gpu: RecordedGpu, history: Sequence[Point], users: str, symbols: Symbols, shown: int) -> tuple[Span, ...]:
    spans = gpu_spans(gpu, history, symbols, shown)
    spans.append((f"  {users}", "plain"))
    return tuple(spans)


def ranges(numbers: Sequence[int]) -> str:
    """Write numbers as ranges: `0-3,6`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _users(gpu: RecordedGpu, index: Mapping[str, RunRow]) -> str:
    users = []
    for process in gpu.processes or ():
        stranger = f"stranger (pid {'unknown' if process.pid is None else process.pid})"
        users.append(_whose(process.run_id, index) if process.run_id else stranger)
    return ", ".join(dict.fromkeys(users)) or FREE


def _whose(run_id: object, index: Mapping[str, RunRow]) -> str:
    known = isinstance(run_id, str) and run_id in index
    return sanitize_line(run_id, 60) + ("" if known else " (of another home)")
