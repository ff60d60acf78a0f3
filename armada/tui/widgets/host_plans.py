"""The hosts of Launch side by side: what is known of each, and its plan."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui.beginnings import first_fitting
from armada.tui.gpu_strips import gpus_or_queue
from armada.tui.host_runs import NO_RUNS
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import Column
from armada.units import brief_span, counted, memory_amount, rough_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.tui.host_runs import RunsOfHost
    from armada.tui.planned import HostPlan, Plans
    from armada.tui.snapshot import HostView, Snapshot
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Cells, Span

COLUMNS = (
    Column("", 1),
    Column("HOST", 9, grow=2, most=24),
    Column("LAUNCH", 13, most=30),
    Column("MEMORY", 9, grow=2, most=20, rank=4),
    Column("TIME", 9, grow=1, most=14, rank=1),
    Column("COST", 9, grow=1, most=14, rank=2),
    Column("QUEUE", 8, grow=3, most=40, rank=3),
    Column("DISK", 13, grow=2, most=24, rank=5),
    Column("GPUS", 12, grow=2, rank=6, most=30),
)
"""What is left out first says least to who chooses a host: can it run there, when does it end, what does it cost, does it wait."""
QUEUE = next(place for place, column in enumerate(COLUMNS) if column.title == "QUEUE")
UNASKED = (
    *COLUMNS[:2],
    Column("LAUNCH", 11, most=30),
    Column("MEMORY", 30, most=9, rank=4),
    *COLUMNS[4:6],
    Column("QUEUE", 8, rank=3),
    COLUMNS[7],
    Column("GPUS", 11, grow=4, most=30, widest=30),
)
"""Before any host was asked, its GPUs say most: their memory, which most of their names have, gets what they leave."""
NOT_KNOWN = tuple(place for place, column in enumerate(COLUMNS) if column.title in ("TIME", "DISK"))
"""What only a plan says."""
NOW_S = 60.0
_FREE = re.compile(r"(\d+) of (\d+) GPUs? free")
_WAITING = re.compile(r"([\d,]+) runs? waiting")


class HostPlans(ListTable):
    """A row per host; the host that is chosen has a mark, and a host that refuses says why below."""

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        super().__init__(COLUMNS, symbols, id=id)
        self._chosen = ""
        self._is_asked = True

    def show_hosts(
        self,
        snapshot: Snapshot,
        runs: Mapping[str, RunsOfHost],
        plans: Plans,
        chosen: str,
        asking: frozenset[str],
        now: float,
    ) -> None:
        """Show the hosts that are configured.

        Args:
            snapshot: What home knows of them.
            runs: The runs of each.
            plans: Their plans so far.
            chosen: The host on which a launch would start.
            asking: The hosts that are being asked.
            now: Unix time, for prices.
        """
        configured = {host.name: host for host in snapshot.hosts if host.configured}
        self._chosen = chosen
        if self._is_asked != (is_asked := any(plans.of(name) is not None for name in configured)):
            self._is_asked = is_asked
            self.set_columns(COLUMNS if is_asked else UNASKED, () if is_asked else NOT_KNOWN)
        self.empty = "no hosts: 3 opens Hosts, a adds one" if snapshot.are_hosts_read else "reading …"
        self.show_items(
            self._item(host, plans.of(name), len(runs.get(name, NO_RUNS).active), name in asking, now)
            for name, host in configured.items()
        )

    def _item(self, host: HostView, plan: HostPlan | None, busy: int, asking: bool, now: float) -> Item:
        is_chosen = host.name == self._chosen
        mark: tuple[Span, ...] = ((self.symbols.marked if is_chosen else "", "accent"),)
        lit = "accent" if is_chosen else "strong" if plan is not None else "plain"
        name: tuple[Span, ...] = ((sanitize_line(host.name, 80), lit),)
        if plan is None:
            return Item(host.name, (mark, name, *self._known(host, busy, asking, now)))
        style = "good" if plan.can_launch and not plan.warned else "warn" if plan.can_launch else "bad"
        good = self.symbols.attention if plan.warned else self.symbols.states["succeeded"]
        sign = good if plan.can_launch else self.symbols.states["failed"]
        time = _middle(plan.time) or "not known"
        facts = (self._memory(host, plan), time, _middle(plan.cost), "", plan.disk, plan.gpus)
        cells = (
            mark,
            name,
            ((f"{sign} {plan.outcome}", style),),
            *(_parted(words if not plan.error else "") for words in facts),
        )
        more = [((words, "bad"),) for words in plan.error.split("\n")[:3] if words]
        more += [((f"{check.code} {check.message}", "bad"),) for check in plan.failed[:2]]
        if plan.hint:
            more.append(((plan.hint, "dim"),))
        return Item(host.name, partial(self._queued, cells, plan), tuple((spans,) for spans in more))

    def _queued(self, cells: Cells, plan: HostPlan) -> Cells:
        """Add the queue to the cells of a plan, as long as its column has room for."""
        room = dict(self._fit(self._room)).get(QUEUE, 0)
        words = self.symbols.shortened(first_fitting(queue_forms(plan), room), room) if not plan.error else ""
        return (*cells[:QUEUE], ((words, "plain"),), *cells[QUEUE + 1 :])

    def _known(self, host: HostView, busy: int, asking: bool, now: float) -> tuple[tuple[Span, ...], ...]:
        """What is known of a host that is not planned for."""
        state = "asking …" if asking else "not asked"
        if not asking and host.silent is not None:
            state = "unreachable"
        price = host.tariff.price_at(now) if host.tariff is not None else None
        cards = self._cards(host)
        gpus = gpus_or_queue(host.facts) if host.facts is not None else ""
        words = (
            state,
            cards,
            "",
            price.text if price is not None else "",
            counted(busy, "run") if busy else "idle",
            "",
            gpus,
        )
        return tuple(((each, "dim"),) for each in words)

    def _memory(self, host: HostView, plan: HostPlan) -> str:
        """What a process needs, of the memory of a card."""
        cards = self._cards(host)
        need = _middle(plan.memory)
        return f"{need} of {cards}" if need and cards else need

    def _cards(self, host: HostView) -> str:
        sizes = [gpu.memory_total_bytes for gpu in host.gpus if gpu.memory_total_bytes is not None]
        return memory_amount(min(sizes)) if sizes else ""


def queue_forms(plan: HostPlan) -> list[str]:
    """Return when a run could start, as the plan says it, and what is shorter: how many wait, how long, what is free."""
    told, wait_s = plan.queue, plan.wait_s
    free, waiting = _FREE.search(told), _WAITING.search(told)
    if waiting is not None:
        return [told, f"{waiting[1]} wait"]
    if wait_s is not None and wait_s >= NOW_S:
        return [told, f"in {brief_span(wait_s)}", f"in {rough_span(wait_s)}"]
    forms = [told, *([f"{free[1]} of {free[2]} free"] if free is not None else [])]
    if wait_s is not None:
        return [*forms, "now"]
    return [*forms, *([f"{free[1]} free"] if free is not None else ["no time"] if told.endswith("no time") else [])]


def _middle(words: str) -> str:
    """Return a range without its ends."""
    return words.partition(" (")[0]


def _parted(words: str) -> tuple[Span, ...]:
    """Return `3 GB of 50 GB free` in two spans, so that a narrow column leaves out the second."""
    first, of, rest = words.partition(" of ")
    return ((first, "plain"), (of + rest, "dim"))
