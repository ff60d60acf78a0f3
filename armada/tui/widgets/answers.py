"""The panels at the foot of the first screen: is everything safe, what happened, and what do the GPUs do?"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from textual.containers import Horizontal

from armada.foundation.sanitize import sanitize_line
from armada.sweeps.counts import word_of
from armada.tui.snapshot import EMPTY, RunRow, Snapshot
from armada.tui.widgets.host_loads import HostLoads
from armada.tui.widgets.host_safety import Safety, gone_hosts, matters, moving_by_host, safety_lines, safety_of
from armada.tui.widgets.panel import Panel, Spans
from armada.units import clock, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.app import ComposeResult

    from armada.store.run_sync import RunSync
    from armada.tui.symbols import Symbols

NEWS = 60


def news_of(rows: Iterable[RunRow], most: int = NEWS) -> list[tuple[float, str, RunRow]]:
    """Return the last things that happened, newest first: a run began, ended or was lost, or a checkpoint came home."""
    return heapq.nlargest(most, (each for row in rows for each in _events(row)), key=lambda each: each[0])


def of_hosts(news: Iterable[tuple[float, str, RunRow]]) -> list[tuple[float, str, RunRow, int]]:
    """Return the news with those of the runs of a host that does not answer as one, and of how many runs each is."""
    counts: dict[str, int] = {}
    found = []
    for moment, what, row in news:
        if what == "unreachable":
            counts[row.host] = counts.get(row.host, 0) + 1
        if what != "unreachable" or counts[row.host] == 1:
            found.append((moment, what, row))
    return [(*each, counts.get(each[2].host, 1) if each[1] == "unreachable" else 1) for each in found]


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
        self._syncs: Mapping[str, RunSync] = {}
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
            self._syncs = snapshot.syncs
            self._sum(snapshot.runs)
        elif changed := changed | self._synced(snapshot):
            self._syncs = snapshot.syncs
            rows = [snapshot.by_id[run_id] for run_id in sorted(changed) if run_id in snapshot.by_id]
            kept = (each for each in self.news if each[2].run.run_id not in changed)
            self.news = heapq.nlargest(NEWS, [*kept, *news_of(rows)], key=lambda each: each[0])
            came = (each for each in self.arrivals if each[1].run.run_id not in changed)
            self.arrivals = heapq.nlargest(NEWS, [*came, *arrivals_of(rows)], key=lambda each: each[0])
            self._sum(rows)
        silent = {sanitize_line(name, 80): found.since for name, found in snapshot.silent.items()}
        for each in self._sums.values():
            each.unreachable_since = silent.get(each.host)

    def _synced(self, snapshot: Snapshot) -> set[str]:
        """Return the runs whose syncs changed; their rows may be as before."""
        if snapshot.syncs is self._syncs:
            return set()
        return {run_id for run_id, sync in snapshot.syncs.items() if self._syncs.get(run_id) is not sync}

    def _sum(self, rows: Iterable[RunRow]) -> None:
        hosts = set()
        for row in rows:
            hosts.add(row.host)
            known = self._by_host.setdefault(row.host, {})
            if matters(row, self._syncs.get(row.id)):
                known[row.run.run_id] = row
            else:
                known.pop(row.run.run_id, None)
        for host in hosts:
            found = safety_of(self._by_host[host].values(), self._syncs)
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
        in_sight = self._tally.safety[: self.safe.size.height]
        gone = gone_hosts(snapshot, in_sight)
        lines = safety_lines(self.symbols, in_sight, moving, now, self.safe.size.width, gone=gone)
        self.safe.show(lines if self._tally.safety else no_hosts(snapshot))
        self.happened.show(
            [self._news_line(*each, now) for each in of_hosts(self._tally.news)[: self.happened.size.height]]
            or nothing_yet()
        )

    def on_resize(self) -> None:
        self.tick()

    @property
    def wants_loads(self) -> bool:
        """Whether the load of all GPUs is in sight."""
        return self.display and self.loads.display and self.size.height > 0

    def _news_line(self, moment: float, what: str, row: RunRow, runs: int, now: float) -> Spans:
        when = f"{clock(moment, now):<9} " if now - moment >= 43_200 else f"{clock(moment, now)} "
        name = (row.host if runs > 1 else row.name, "strong")
        if what == "home":
            return [(when, "dim"), name, (f" ckpt-{row.kept.home_step} home", "good")]
        if what == "started":
            return [(when, "dim"), name, (f" started on {row.host}", "dim")]
        if row.is_no_number:
            return [(when, "dim"), name, (f" succeeded, but its loss is {row.run.loss_not_finite}", "warn")]
        if what == "succeeded":
            return [(when, "dim"), name, (" succeeded", "good")]
        is_why = row.trouble is not None and row.trouble.kind in ("failed", "unreachable", "unclear")
        why = row.trouble.words if row.trouble is not None and is_why else ""
        several = f" ({counted(runs, 'run')})" if runs > 1 else ""
        said = f" {what}{several}" + (f": {why.partition(': ')[2] or why}" if why else "")
        return [(when, "dim"), name, (said, {"failed": "bad", "unreachable": "warn"}.get(what, "dim"))]


def nothing_yet() -> list[Spans]:
    return [[("nothing yet", "dim")]]


def no_hosts(snapshot: Snapshot) -> list[Spans]:
    """Say why no host is listed among those that have something to keep."""
    return [[("no run is active, and none has a checkpoint", "dim")]] if snapshot.runs else nothing_yet()
