"""Sync: what is safe, transfers, waiting runs and their reasons, when each run is due, and the disk at home."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from armada.filters.trouble import copies
from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import bindings
from armada.tui.screens.verdict import ask_release
from armada.tui.screens.view import View
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.host_safety import alive, lacks_last_sync, may_stay, no_progress
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.run_cells import meter
from armada.tui.widgets.safety import CameHome, SafetyPicture
from armada.tui.widgets.table import Cells, Column, Span, Table
from armada.tui.widgets.words import Words
from armada.units import amount, brief_span, counted, rough_span, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from armada.store.run_sync import RunSync
    from armada.store.transfers import Transfer
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunRow, Snapshot
    from armada.tui.symbols import Symbols

COLUMNS = (
    Column("RUN", 16, grow=2, most=50),
    Column("HOST", 8, grow=4, most=20, rank=3),
    Column("HOME", 9, grow=1, most=24, rank=1),
    Column("WAITS", 5, right=True),
    Column("LAST SYNC", 15, rank=2),
    Column("NEXT", 12),
)


class SyncScreen(View):
    """A row per run that is not completely at home, or is on a schedule; its transfers under it."""

    PLACE = "sync"
    BINDINGS = bindings("sync")
    DEFAULT_CSS = """
    SyncScreen #disk { height: 1; color: $text-muted; }
    SyncScreen CameHome { display: none; }
    SyncScreen.-high ListTable { height: auto; min-height: 8; max-height: 60%; }
    SyncScreen.-high CameHome { display: block; height: 1fr; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012  # Textual declares it so

    def __init__(self) -> None:
        super().__init__()
        self._listed: tuple[tuple[object, ...], list[RunRow]] | None = None
        """The runs that are listed, and what of a snapshot they were chosen from."""

    def body(self) -> Iterable[Widget]:
        self.disk = Words(id="disk")
        yield self.disk
        self.safety = SafetyPicture(self.board.symbols, self.board.tally)
        yield self.safety
        self.table = ListTable(COLUMNS, self.board.symbols, classes=frame.FRAME)
        frame.title(self.table, "Sync  what is not at home yet")
        yield self.table
        self.came = CameHome(self.board.symbols, self.board.tally)
        yield self.came

    def on_mount(self) -> None:
        self.set_focus(self.table)  # before the first paint: the frame is lit at once

    def come_back(self) -> None:
        if self.is_ahead:
            self.table.forget()  # its cursor is at what was first then

    def wants(self) -> Subscription:
        return Subscription(frozenset(self.table.visible_keys))

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        del updates
        self.disk.say(_disk(self.snapshot, self.board.symbols, time.time()))
        self.safety.take(self.snapshot)
        seen = self.snapshot
        read = (seen.runs, seen.syncs, seen.transfers, seen.taken_at > 0)
        if self._listed is None or any(old is not new for old, new in zip(self._listed[0], read, strict=True)):
            self._listed = (read, not_home(seen))  # of 10,000 runs: 5 ms of each second
        self.came.take(seen)
        self.table.empty = self.board.symbols.text(why_none(seen))
        self.table.show_items(items(seen, self._listed[1], self.board.symbols, time.time()))

    def tick(self) -> None:
        super().tick()
        self.draw()

    def concerned(self) -> list[RunRow]:
        return [row for row in self.snapshot.runs if row.run.run_id == self.table.cursor]

    @property
    def cursor_run(self) -> str | None:
        return self.table.cursor

    def on_table_chosen(self, event: Table.Chosen) -> None:
        del event
        self.action_open()

    def action_open(self) -> None:
        self._open("open", "checkpoints")

    def action_logs(self) -> None:
        self._open("logs", "log")

    def action_release(self) -> None:
        """Check the host of the run first, and show what would be lost before anything is done."""
        if (row := self._row("release")) is not None:
            ask_release(self.board, row.run.host)

    def _open(self, verb: str, page: str) -> None:
        if (row := self._row(verb)) is not None:
            self.board.open_run(row.run.run_id, page)

    def _row(self, verb: str) -> RunRow | None:
        """Return the run under the cursor; if there is none, say so."""
        rows = self.concerned()
        if not rows:
            self.notify(f"{verb}: no run under the cursor", severity="warning")
        return rows[0] if rows else None


def _disk(snapshot: Snapshot, symbols: Symbols, now: float) -> Text:
    if snapshot.disk_free_bytes is None or not snapshot.disk_total_bytes:
        return Text("")
    used = 1 - snapshot.disk_free_bytes / snapshot.disk_total_bytes
    free = f"{amount(snapshot.disk_free_bytes)} free of {amount(snapshot.disk_total_bytes)}"
    rates = sum(each.rate or 0 for each in alive(snapshot.transfers, now) if each.state == "running")
    coming = symbols.text(f" · {amount(rates)}/s incoming") if rates else ""
    return Text(f" disk at home {symbols.bar(used, 20)} {free}{coming}", no_wrap=True)


def not_home(snapshot: Snapshot) -> list[RunRow]:
    """Return runs in this order: those that need somebody, with transfers, waiting; not those all at home.

    A run needs somebody if its syncs fail, if checkpoints are damaged at home, or if its last sync is missing.
    """
    moving = {each.run_id for each in snapshot.transfers}
    found = []
    for row in snapshot.runs if snapshot.taken_at else ():
        run_id = row.run.run_id
        sync = snapshot.syncs.get(run_id)
        if run_id not in moving and is_home(row, sync):
            continue
        failing = sync is not None and sync.failing_since is not None
        needs = failing or row.kept.damaged or misses_last_sync(row, sync)
        rank = 0 if needs else 1 if run_id in moving else 2 if row.kept.only_host else 3
        found.append((rank, -row.run.created_at, row))
    found.sort(key=lambda each: each[:2])
    return [row for _, _, row in found]


def is_home(row: RunRow, sync: RunSync | None) -> bool:
    """Whether a run has ended and left nothing anywhere else; one of this machine without a sync never was elsewhere."""
    if not row.run.ended or row.kept.only_host or row.kept.damaged:
        return False
    return not lacks_last_sync(row, sync) if sync is None else sync.final_done


def misses_last_sync(row: RunRow, sync: RunSync | None) -> bool:
    """Whether a run has ended without its last sync, and none is planned or asked for: it comes only if somebody asks."""
    is_coming = sync is not None and (sync.requested_at is not None or sync.next_due_at is not None)
    return not is_coming and lacks_last_sync(row, sync)


def items(snapshot: Snapshot, rows: Iterable[RunRow], symbols: Symbols, now: float) -> list[Item]:
    """Return the items of runs, with their transfers."""
    moving: dict[str, list[Transfer]] = {}
    for each in snapshot.transfers:
        moving.setdefault(each.run_id, []).append(each)
    return [_item(row, moving.get(row.run.run_id, []), snapshot, symbols, now) for row in rows]


def why_none(snapshot: Snapshot) -> str:
    """Say why there is no item."""
    if snapshot.is_unread:
        return snapshot.reading
    return "everything is home" if snapshot.runs else "no runs yet"


def _item(row: RunRow, transfers: Sequence[Transfer], snapshot: Snapshot, symbols: Symbols, now: float) -> Item:
    sync = snapshot.syncs.get(row.run.run_id)
    last = sync.last_at if sync is not None else None
    silent = snapshot.silent.get(row.run.host)
    cells: Cells = (
        ((row.name, "strong"), (f" {row.run.run_id[-6:]}", "dim")),
        ((row.host, "plain"),),
        _home(row),
        ((str(row.kept.only_host) if row.kept.only_host else "", "warn" if may_stay(row, snapshot) else "plain"),),
        ((f"{rough_span(now - last)} ago" if last is not None else "never", "dim"),),
        (_next(row, snapshot, now),),
    )
    more: list[Cells] = []
    if sync is not None and sync.failing_since is not None:
        tried = "tried once" if sync.failures == 1 else f"tried {sync.failures} times"
        words = f"failing for {span(now - sync.failing_since)}, {tried}: {sanitize_line(sync.reason, 300)}"
        more.append((((words, "warn"),),))
    elif sync is not None and sync.is_put_off(now):
        more.append((((f"waits: {sanitize_line(sync.reason, 300)}", "plain"),),))
    elif silent is not None and (row.kept.only_host or lacks_last_sync(row, sync) or not row.run.ended):
        since, why = brief_span(now - silent.since), sanitize_line(silent.why, 200)
        words = f"waits: {row.host} has been unreachable for {since}{f': {why}' if why else ''}"
        more.append((((symbols.text(words), "warn"),),))
    elif row.run.ended and (damaged := copies(sync, row.kept.damaged).damaged):
        words = f"{counted(damaged, 'checkpoint')} damaged at home: y fetches again what {row.host} still has"
        more.append((((symbols.text(words), "warn"),),))
    elif misses_last_sync(row, sync):
        words = f"its last sync is missing: y brings home what {row.host} still has of it"
        more.append((((symbols.text(words), "warn"),),))
    more += [(_transfer(each, symbols, now),) for each in transfers]
    return Item(row.run.run_id, cells, tuple(more))


def _home(row: RunRow) -> tuple[Span, ...]:
    kept = row.kept
    if not (kept.home or kept.only_host or kept.damaged):
        return (("none yet", "dim"),)
    if kept.damaged:  # in a narrow column, what is damaged stays
        return (f"{kept.damaged} damaged", "bad"), (f" {kept.home} home", "plain")
    return ((f"{kept.home} home", "plain"),)


def _next(row: RunRow, snapshot: Snapshot, now: float) -> Span:
    sync = snapshot.syncs.get(row.run.run_id)
    if sync is not None and sync.requested_at is not None:
        return "asked for", "accent"
    if sync is None or sync.next_due_at is None or sync.final_done:
        return "not planned", "dim"
    if not snapshot.has_daemon:
        return "no daemon", "warn"
    return (f"in {rough_span(sync.next_due_at - now)}", "plain") if sync.next_due_at > now else ("due now", "accent")


def _transfer(each: Transfer, symbols: Symbols, now: float) -> tuple[Span, ...]:
    share = each.done_bytes / each.total_bytes if each.total_bytes else 0.0
    spans: list[Span] = [
        (f"{each.digest[:8] if each.step is None else f'checkpoint-{each.step}':<18} ", "dim"),
        *meter(share, 16, symbols),
        (f" {share:>4.0%}  ", "plain"),
    ]
    if silent := no_progress(each, now):
        return (*spans, (silent, "warn"), (f" · {amount(each.done_bytes)}", "plain"))
    if each.state == "running":
        rate = f"{amount(each.rate)}/s" if each.rate else "starting"
        left = (
            f" · {span((each.total_bytes - each.done_bytes) / each.rate)} left"
            if each.rate and each.total_bytes
            else ""
        )
        spans.append((f"{amount(each.done_bytes)} · {rate}{left}", "plain"))
        return tuple(spans)
    again = f" · retry in {span(each.next_try_at - now)}" if each.next_try_at and each.next_try_at > now else ""
    spans.append((f"{each.state}: {sanitize_line(each.reason or 'no reason recorded', 300)}{again}", "warn"))
    return tuple(spans)
