"""How safe each host is: what of it is at home, what travels, what is only there, and what runs there now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.foundation.sanitize import sanitize_line
from armada.store.transfers import LIVES_S
from armada.units import amount, brief_span, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from armada.store.run_sync import RunSync
    from armada.store.transfers import Transfer
    from armada.tui.snapshot import RunRow, Snapshot
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.panel import Spans
    from armada.tui.widgets.table import Span

NAMES = 14
"""Characters of a host's name."""
REMOVED = "removed"
"""What became of a host that is not listed any more."""
INDENT = 2
"""Cells before a line of a panel."""


class Safety:
    """What of one host is at home, and what is not."""

    def __init__(self, host: str, *, home: int = 0, only_host: int = 0, damaged: int = 0, unsynced: int = 0) -> None:
        self.host = host
        self.home = home
        self.only_host = only_host
        self.damaged = damaged
        self.unsynced = unsynced
        """Runs that have ended, whose last sync is missing or fails, and of which nothing else is known to wait."""
        self.running = 0
        self.unreachable_since: float | None = None
        """Since when the host does not answer; its rows do not say that once all of its runs have ended."""

    def add(self, row: RunRow, sync: RunSync | None) -> None:
        kept, run = row.kept, row.run
        self.home += kept.home
        self.only_host += kept.only_host
        self.damaged += kept.damaged
        self.unsynced += not (kept.only_host or kept.damaged) and lacks_last_sync(row, sync)
        self.running += not run.ended

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, where home is: that it can be destroyed is never said."""
        return self.host == "local"

    @property
    def rank(self) -> tuple[int, int]:
        """The host with the most at risk first."""
        at_risk = (
            0 if self.damaged or self.unreachable_since is not None else 1 if self.only_host or self.unsynced else 2
        )
        return (at_risk, -self.only_host)


def safety_of(rows: Iterable[RunRow], syncs: Mapping[str, RunSync]) -> list[Safety]:
    """Sum up by host, the one with the most at risk first; hosts with nothing to keep are left out."""
    hosts: dict[str, Safety] = {}
    for row in rows:
        sync = syncs.get(row.id)
        if not matters(row, sync):
            continue
        (hosts.get(row.host) or hosts.setdefault(row.host, Safety(row.host))).add(row, sync)
    return sorted(hosts.values(), key=lambda each: (*each.rank, each.host))


def matters(row: RunRow, sync: RunSync | None) -> bool:
    """Whether a run is active, has checkpoints, or left what is not known on its host."""
    has_checkpoints = bool(row.kept.home or row.kept.only_host or row.kept.damaged)
    return not row.run.ended or has_checkpoints or lacks_last_sync(row, sync)


def lacks_last_sync(row: RunRow, sync: RunSync | None) -> bool:
    """Whether a run on another machine has ended, and its last sync is missing or fails: what it left there is not known."""
    run = row.run
    return run.ended and run.attempt > 0 and run.host != "local" and not (sync is not None and sync.final_done)


def may_stay(row: RunRow, snapshot: Snapshot) -> bool:
    """Whether what waits of a run may not come home by itself: its syncs fail, it has ended, or its host does not answer."""
    sync = snapshot.syncs.get(row.id)
    return (sync is not None and sync.failing_since is not None) or row.run.ended or row.host in snapshot.silent


def moving_by_host(snapshot: Snapshot) -> dict[str, list[Transfer]]:
    """Return the transfers that run now."""
    moving: dict[str, list[Transfer]] = {}
    for each in snapshot.transfers:
        row = snapshot.row(each.run_id)
        if each.state == "running" and row is not None:
            moving.setdefault(row.host, []).append(each)
    return moving


def gone_hosts(snapshot: Snapshot, found: Iterable[Safety]) -> dict[str, str]:
    """Return what became of those hosts that were wiped, or are not listed any more."""
    listed = {sanitize_line(host.name, 80): host for host in snapshot.hosts}
    gone = {name: "wiped" for name, host in listed.items() if host.record is not None and host.record.released_at}
    # The hosts of hosts.yaml come after those that the store knows, and this machine is always one of them.
    if snapshot.config_trouble is None and any(host.configured for host in snapshot.hosts):
        gone |= {each.host: REMOVED for each in found if each.host not in listed}
    return gone


def stopped_s(each: Transfer, now: float) -> float:
    """Return for how many seconds a running transfer has received nothing; 0 while it does. Its rate is then of before."""
    if each.state != "running" or each.updated_at is None or now - each.updated_at <= LIVES_S:
        return 0.0
    return now - each.updated_at


def no_progress(each: Transfer, now: float) -> str:
    """Say for how long a running transfer has received nothing; empty while it does."""
    lasted_s = stopped_s(each, now)
    return f"no progress for {brief_span(lasted_s)}" if lasted_s else ""


def alive(moving: Iterable[Transfer], now: float) -> list[Transfer]:
    """Return the transfers that receive something."""
    return [each for each in moving if not stopped_s(each, now)]


def verdict(
    symbols: Symbols, each: Safety, moving: Sequence[Transfer], now: float, *, brief: bool = False
) -> tuple[Span, Spans]:
    """Say whether a host can be destroyed, as far as home knows: the one answer of Runs, Sync and Hosts.

    Amber is for what needs the user: checkpoints that wait and do not travel, damaged ones, a run that ended without its
    last sync, a host that does not answer, a transfer that receives nothing.
    A run that is active and a checkpoint that travels are usual; the host is not safe to destroy all the same. This machine
    has home on it: of it, only what is at home is said.

    Args:
        symbols: What the terminal can show.
        each: What of the host is at home.
        moving: Its transfers that run now; their checkpoints are among those that are only there.
        now: Unix time.
        brief: Whether the words must be short.

    Returns:
        The sign, and the words.
    """
    stopped = [lasted_s for one in moving if (lasted_s := stopped_s(one, now))]
    moving = alive(moving, now)
    there = max(0, each.only_host - len(moving))
    lost = each.unreachable_since is not None
    waits = lost or there > 0 or each.damaged > 0 or each.unsynced > 0 or bool(stopped)
    if not (waits or moving or each.running):
        return (symbols.states["succeeded"], "good"), [(f"{counted(each.home, 'checkpoint')} home", "good")]
    style = "warn" if waits else "plain"
    if each.unreachable_since is not None:
        sign, head = symbols.unreachable, f"unreachable {brief_span(now - each.unreachable_since)}, "
    else:
        sign = symbols.attention if waits else symbols.states["running"]
        head = "not all home: " if each.is_local else "not safe: " if brief else "not safe to destroy: "
    parts: list[Spans] = []
    if each.damaged:
        parts.append([(f"{each.damaged} damaged at home", "bad")])
    if stopped:
        parts.append([(f"{counted(len(stopped), 'transfer')} without progress for {brief_span(max(stopped))}", "warn")])
    if there:
        parts.append([(counted(there, "checkpoint") + " only there", "warn")])
    if each.unsynced:
        parts.append([(f"the last sync of {counted(each.unsynced, 'run')} is missing", "warn")])
    if each.running:
        parts.append([(counted(each.running, "active run"), "plain" if moving or not waits else "more")])
    if moving:
        parts.append(_travels(symbols, moving))
    if each.home or not (each.only_host or each.damaged):
        parts.append([(f"{each.home} home" if each.home else "no checkpoint yet", "more")])
    said: Spans = [(head, style)]
    for number, part in enumerate(parts):
        comma = ", " if number else ""
        said += [(comma + part[0][0], part[0][1]), *part[1:]]
    return (sign, style), said


def in_brief(symbols: Symbols, each: Safety, moving: Sequence[Transfer], now: float) -> Span:
    """Return the verdict in so few cells that it fits into a column."""
    sign, style = verdict(symbols, each, moving, now)[0]
    return f"{sign} {'all home' if style == 'good' else 'not home' if each.is_local else 'not safe'}", style


def _travels(symbols: Symbols, moving: Sequence[Transfer]) -> Spans:
    """Say how many checkpoints travel, how much of them is here, how fast, and for how long still."""
    done, whole = sum(one.done_bytes for one in moving), sum(one.total_bytes or 0 for one in moving)
    rate = sum(one.rate or 0.0 for one in moving)
    bar, rest = symbols.meter(done / whole if whole else 0.0, 10)
    pace = f" {amount(rate)}/s" if rate else ""
    left = f", {brief_span((whole - done) / rate)} left" if rate and whole > done else ""
    return [(f"{len(moving)} on the way ", "dim"), (bar, "accent"), (rest, "faint"), (pace, "more"), (left, "more")]


def safety_lines(
    symbols: Symbols,
    found: Sequence[Safety],
    moving: Mapping[str, Sequence[Transfer]],
    now: float,
    room: int,
    picture: Callable[[Safety, int, bool], Sequence[Span]] | None = None,
    gone: Mapping[str, str] | None = None,
) -> list[Spans]:
    """Return a line for each host: its sign, its name, a picture if there is one, and the verdict.

    Args:
        symbols: What the terminal can show.
        found: What of each host is at home.
        moving: The transfers of each host that run now.
        now: Unix time.
        room: Cells of a line; where one does not fit, the words of all are short, and then their pictures.
        picture: Draws what stands between the name and the words, from a host, the number of its transfers, and whether
            it must be short.
        gone: What became of hosts that need not be asked any more; see `gone_hosts`.
    """
    names = [sanitize_line(each.host, NAMES) for each in found]
    wide = max(map(cell_len, names), default=0)
    lines: list[Spans] = []
    for brief, is_narrow in ((False, False), (True, False), (True, True)):
        lines = []
        for each, name in zip(found, names, strict=True):
            travels = moving.get(each.host, ())
            (sign, style), said = verdict(symbols, each, travels, now, brief=brief)
            if style == "good":
                left = (gone or {}).get(each.host, "3 r before you destroy it")
                hint = f" · {'this machine' if each.is_local else left}"
                said = [*said, (hint, "more")]
            elif (gone or {}).get(each.host) == REMOVED and not each.running:
                said = [(f"{REMOVED}: ", style), *said[1:]]
            drawn = picture(each, len(alive(travels, now)), is_narrow) if picture is not None else ()
            lines.append([(f"{sign} ", style), (f"{name}{' ' * (wide - cell_len(name))}  ", "strong"), *drawn, *said])
        if all(INDENT + sum(cell_len(words) for words, _ in line) <= room for line in lines):
            break
    return lines
