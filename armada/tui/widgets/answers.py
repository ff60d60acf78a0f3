"""The panels at the foot of the first screen: is everything safe, what happened, and what do the GPUs do?"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.containers import Horizontal

from armada.foundation.sanitize import sanitize_line
from armada.sweeps.counts import word_of
from armada.tui.snapshot import EMPTY, RunRow, Snapshot
from armada.tui.widgets.host_loads import HostLoads
from armada.tui.widgets.panel import Panel, Spans
from armada.tui.widgets.run_table import clock, short
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult

    from armada.store.transfers import Transfer
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

NEWS = 60
NAMES = 14
"""Characters of a host's name."""


class Safety:
    """What of one host is at home, and what is not."""

    def __init__(self, host: str, *, home: int = 0, only_host: int = 0, damaged: int = 0) -> None:
        self.host = host
        self.home = home
        self.only_host = only_host
        self.damaged = damaged
        self.running = 0
        self.unreachable_since: float | None = None

    def add(self, row: RunRow) -> None:
        kept, run = row.kept, row.run
        self.home += kept.home
        self.only_host += kept.only_host
        self.damaged += kept.damaged
        self.running += not run.ended
        if run.unreachable_since is not None and not run.ended:
            since = self.unreachable_since
            self.unreachable_since = run.unreachable_since if since is None else min(since, run.unreachable_since)

    @property
    def rank(self) -> tuple[int, int]:
        """The host with the most at risk first."""
        at_risk = 0 if self.damaged or self.unreachable_since is not None else 1 if self.only_host else 2
        return (at_risk, -self.only_host)


def safety_of(rows: Iterable[RunRow]) -> list[Safety]:
    """Sum up by host, the one with the most at risk first; hosts with nothing to keep are left out."""
    hosts: dict[str, Safety] = {}
    for row in rows:
        if not _matters(row):
            continue
        (hosts.get(row.host) or hosts.setdefault(row.host, Safety(row.host))).add(row)
    return sorted(hosts.values(), key=lambda each: (*each.rank, each.host))


def _matters(row: RunRow) -> bool:
    """Whether a run is active or has checkpoints."""
    return not row.run.ended or bool(row.kept.home or row.kept.only_host or row.kept.damaged)


def news_of(rows: Iterable[RunRow], most: int = NEWS) -> list[tuple[float, str, RunRow]]:
    """Return the last things that happened, newest first: a run began, ended or was lost, or a checkpoint came home."""
    return heapq.nlargest(most, (each for row in rows for each in _events(row)), key=lambda each: each[0])


def arrivals_of(rows: Iterable[RunRow], most: int = NEWS) -> list[tuple[float, RunRow]]:
    """Return the runs whose newest checkpoint came home last, with when it did."""
    came = ((row.kept.home_at, row) for row in rows if row.kept.home_at is not None)
    return heapq.nlargest(most, came, key=lambda each: each[0])


def _events(row: RunRow) -> Iterable[tuple[float, str, RunRow]]:
    run = row.run
    if run.is_archived:
        return
    if run.ended_at is not None:
        yield run.ended_at, word_of(run), row
    elif run.unreachable_since is not None:
        yield run.unreachable_since, "unreachable", row
    if row.kept.home_at is not None:
        yield row.kept.home_at, "home", row
    if run.started_at is not None:
        yield run.started_at, "started", row


class Tally:
    """Sums up all runs once, and after that only those that changed: all of 10,000 would take 30 ms of each second."""

    def __init__(self) -> None:
        self._generation = -1
        self._by_host: dict[str, dict[str, RunRow]] = {}
        self._sums: dict[str, Safety] = {}
        self.news: list[tuple[float, str, RunRow]] = []
        self.arrivals: list[tuple[float, RunRow]] = []
        """The runs whose newest checkpoint came home last, newest first."""

    @property
    def safety(self) -> list[Safety]:
        return sorted(self._sums.values(), key=lambda each: (*each.rank, each.host))

    def take(self, snapshot: Snapshot) -> None:
        """Take a new snapshot."""
        generation, changed = snapshot.generation, snapshot.changed
        if generation == self._generation:
            return
        follows = generation == self._generation + 1 and changed is not None and len(self.news) >= NEWS // 2
        self._generation = generation
        if not follows or changed is None:
            self._by_host = {}
            self._sums = {}
            self.news = news_of(snapshot.runs)
            self.arrivals = arrivals_of(snapshot.runs)
            self._sum(snapshot.runs)
        elif changed:
            rows = [snapshot.by_id[run_id] for run_id in sorted(changed) if run_id in snapshot.by_id]
            kept = (each for each in self.news if each[2].run.run_id not in changed)
            self.news = heapq.nlargest(NEWS, [*kept, *news_of(rows)], key=lambda each: each[0])
            came = (each for each in self.arrivals if each[1].run.run_id not in changed)
            self.arrivals = heapq.nlargest(NEWS, [*came, *arrivals_of(rows)], key=lambda each: each[0])
            self._sum(rows)

    def _sum(self, rows: Iterable[RunRow]) -> None:
        hosts = set()
        for row in rows:
            hosts.add(row.host)
            known = self._by_host.setdefault(row.host, {})
            if _matters(row):
                known[row.run.run_id] = row
            else:
                known.pop(row.run.run_id, None)
        for host in hosts:
            found = safety_of(self._by_host[host].values())
            self._sums.pop(host, None)
            self._sums.update({each.host: each for each in found})


class Answers(Horizontal):
    """Is everything safe? What happened? What do the GPUs do? All of them answer for all runs and hosts."""

    DEFAULT_CSS = "Answers #loads { display: none; }"

    def __init__(self, symbols: Symbols, tally: Tally) -> None:
        super().__init__()
        self.symbols = symbols
        self.safe = Panel(symbols, "Is everything safe?", id="safe")
        self.happened = Panel(symbols, "What happened", id="happened")
        self.loads = HostLoads(symbols, id="loads")
        self._snapshot: Snapshot = EMPTY
        self._tally = tally

    def compose(self) -> ComposeResult:
        yield self.safe
        yield self.happened
        yield self.loads

    def take(self, snapshot: Snapshot) -> None:
        """Sum up a new snapshot, if this is visible: reading 10,000 runs takes milliseconds."""
        self._snapshot = snapshot
        self.tick()

    def tick(self) -> None:
        """Draw again if a text changed, as ages do."""
        snapshot = self._snapshot
        if not self.display or not snapshot.taken_at or not self.size.height:
            return
        self.loads.take(snapshot)
        self._tally.take(snapshot)
        now, moving = time.time(), moving_by_host(snapshot)
        shown = self._tally.safety[:NEWS]
        wide = widest(shown)
        in_sight = shown[: self.safe.size.height]
        lines = [safety_line(self.symbols, each, moving.get(each.host, []), now, wide) for each in in_sight]
        self.safe.show(lines if shown else nothing_yet())
        self.happened.show(
            [self._news_line(*each, now) for each in self._tally.news[: self.happened.size.height]] or nothing_yet()
        )

    def on_resize(self) -> None:
        self.tick()

    @property
    def wants_loads(self) -> bool:
        """Whether the load of all GPUs is in sight."""
        return self.display and self.loads.display and self.size.height > 0

    def _news_line(self, moment: float, what: str, row: RunRow, now: float) -> Spans:
        when = f"{clock(moment, now):<9} " if now - moment >= 43_200 else f"{clock(moment, now)} "
        name = (row.name, "strong")
        if what == "home":
            return [(when, "dim"), name, (f" ckpt-{row.kept.home_step} home", "good")]
        if what == "started":
            return [(when, "dim"), name, (f" started on {row.host}", "dim")]
        if what == "succeeded":
            return [(when, "dim"), name, (" succeeded", "good")]
        said = f" {what}" + (f": {row.trouble.partition(': ')[2] or row.trouble}" if row.trouble else "")
        return [(when, "dim"), name, (said, {"failed": "bad", "unreachable": "warn"}.get(what, "dim"))]


def moving_by_host(snapshot: Snapshot) -> dict[str, list[Transfer]]:
    """Return the transfers that run now."""
    moving: dict[str, list[Transfer]] = {}
    for each in snapshot.transfers:
        row = snapshot.row(each.run_id)
        if each.state == "running" and row is not None:
            moving.setdefault(row.host, []).append(each)
    return moving


def widest(found: Iterable[Safety]) -> int:
    """Return the cells that the names of these hosts take."""
    return max((cell_len(sanitize_line(each.host, NAMES)) for each in found), default=0)


def safety_line(
    symbols: Symbols, each: Safety, moving: Sequence[Transfer], now: float, wide: int, picture: Sequence[Span] = ()
) -> Spans:
    """Say how safe a host is: its sign, its name, a picture if there is one, and the worst that is known in words.

    Args:
        symbols: What the terminal can show.
        each: What of the host is at home.
        moving: Its transfers that run now.
        now: Unix time.
        wide: Cells for the name.
        picture: What stands between the name and the words.
    """
    sign, said = _said(symbols, each, moving, now)
    name = sanitize_line(each.host, NAMES)
    return [sign, (f"{name}{' ' * (wide - cell_len(name))}  ", "strong"), *picture, *said]


def _said(symbols: Symbols, each: Safety, moving: Sequence[Transfer], now: float) -> tuple[Span, Spans]:
    there = counted(each.only_host, "checkpoint") + " only there"
    if each.unreachable_since is not None:
        lost = f"unreachable {short(now - each.unreachable_since)}"
        more = (f", {there}", "warn") if each.only_host else (f", {each.home} home", "more")
        return (symbols.unreachable + " ", "warn"), [(lost, "warn"), more]
    if each.damaged:
        return (symbols.attention + " ", "warn"), [(f"{each.damaged} damaged at home", "bad")]
    if moving:
        done, whole = sum(one.done_bytes for one in moving), sum(one.total_bytes or 0 for one in moving)
        rate = sum(one.rate or 0.0 for one in moving)
        bar, rest = symbols.meter(done / whole if whole else 0.0, 10)
        pace = f" {amount(rate)}/s" if rate else ""
        left = f", {short((whole - done) / rate)} left" if rate and whole > done else ""
        sign = (symbols.states["running"] + " ", "good")
        travels: Spans = [(f"{len(moving)} on the way ", "dim"), (bar, "accent"), (rest, "faint")]
        return sign, [*travels, (pace, "more"), (left, "more"), (f", {each.home} home", "more")]
    if each.only_host:
        active = f", {counted(each.running, 'run')} active" if each.running else ""
        return (symbols.attention + " ", "warn"), [(f"not safe: {there}", "warn"), (active, "more")]
    if each.running:
        kept = f"{each.home} home" if each.home else "no checkpoint yet"
        return (symbols.states["running"] + " ", "good"), [(f"{counted(each.running, 'run')} active, {kept}", "dim")]
    home = f"{counted(each.home, 'checkpoint')} home"
    return (symbols.states["succeeded"] + " ", "good"), [(home, "good"), (" · 3 r before you destroy it", "more")]


def nothing_yet() -> list[Spans]:
    return [[("nothing yet", "dim")]]
