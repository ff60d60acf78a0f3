"""Hosts: GPUs and their users, queues, environment, disk, price, and the actions on a host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import bindings
from armada.tui.host_runs import NO_RUNS
from armada.tui.screens.host_card import HostCosts, card_lines, wrapped
from armada.tui.screens.host_text import COLUMNS, columns_for, has_no_gpu, host_item
from armada.tui.screens.keys import keys_of
from armada.tui.screens.question import Question
from armada.tui.screens.verdict import ask_release, show_verdict
from armada.tui.screens.view import View
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.gpu_history import SPANS_S, GpuHistory
from armada.tui.widgets.host_safety import in_brief, moving_by_host
from armada.tui.widgets.list_table import Item, ListTable
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from armada.store.transfers import Transfer
    from armada.tui.curves import CurveUpdate
    from armada.tui.host_runs import RunsOfHost
    from armada.tui.operations import Answer
    from armada.tui.snapshot import HostView
    from armada.tui.widgets.host_safety import Safety
    from armada.tui.widgets.table import Span, Table

VAST = 220
"""Columns from which GPUs are listed one by one, if all of them fit."""
LISTED = 0.6
"""The share of the screen that hosts may take beside the history of one."""
BESIDES = 3
"""The table's frame and its header."""
FLAT = 10
"""So many lines below the hosts are enough for the charts of one."""
BESIDE_CARD = 9
"""Columns beside a line of a card: the table's frame and scrollbar, and the guide."""
AROUND = 2
"""The screen's first line and its last."""
HINT = " only this machine so far; press a to add a GPU box"


class HostsScreen(View):
    """A line per host; Enter unfolds its card, with its queue and its GPUs one by one; their history is below."""

    PLACE = "hosts"
    BINDINGS = bindings("hosts")
    DEFAULT_CSS = """
    HostsScreen ListTable { height: 1fr; min-height: 3; }
    HostsScreen GpuHistory { display: none; }
    HostsScreen.-high ListTable { height: auto; min-height: 8; max-height: 60%; }
    HostsScreen.-high GpuHistory { display: block; height: 1fr; }
    HostsScreen.-high GpuHistory.toggled { display: none; }
    HostsScreen.-high.history ListTable { height: 1fr; max-height: 100%; }
    HostsScreen.-low GpuHistory.toggled, HostsScreen.-tiny GpuHistory.toggled { display: block; height: 1fr; max-height: 100; }
    HostsScreen.-low.history ListTable, HostsScreen.-tiny.history ListTable { height: 5; }
    HostsScreen.-roomy ListTable { height: auto; max-height: 100%; }
    HostsScreen.-roomy GpuHistory { display: block; height: 1fr; }
    HostsScreen.-roomy GpuHistory.toggled { display: none; }
    HostsScreen.-roomy.history ListTable { height: 1fr; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-low"), (36, "-high")]  # noqa: RUF012  # Textual declares it so

    def __init__(self) -> None:
        super().__init__()
        self._span = 0
        self._awaited: str | None = None
        self._opened: set[str] = set()
        """Hosts whose card is shown, with their GPUs one by one."""
        self._costs = HostCosts()
        self._safe: dict[str, Safety] = {}
        self._moving: dict[str, list[Transfer]] = {}

    def body(self) -> Iterable[Widget]:
        self.hint = Static()
        yield self.hint
        self.table = ListTable(COLUMNS, self.board.symbols, classes=frame.FRAME)
        frame.title(self.table, "Hosts")
        yield self.table
        self.history = GpuHistory(self.board.symbols)
        yield self.history

    def on_mount(self) -> None:
        self.set_focus(self.table)  # before the first paint: the frame is lit at once

    def come_back(self) -> None:
        if self.is_ahead:
            self.table.forget()  # its cursor is at what was first then

    def wants(self) -> Subscription:
        name = self.table.cursor
        shown = name is not None and self.history.display
        return Subscription(telemetry=True, history=(name, SPANS_S[self._span]) if shown and name is not None else None)

    @property
    def host(self) -> HostView | None:
        """The host under the cursor."""
        return next((host for host in self.snapshot.hosts if host.name == self.table.cursor), None)

    @property
    def host_meant(self) -> str | None:
        return self.table.cursor

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        del updates
        hosts = self.snapshot.hosts
        only_local = bool(hosts) and all(host.local for host in hosts)
        self.hint.display = only_local
        if only_local:
            self.hint.update(Text(HINT, style="dim", no_wrap=True))
        now, width, runs = time.time(), self.size.width, self.board.host_runs.read(self.snapshot)
        if self.snapshot.is_unread and not hosts:
            self.hint.display = True
            self.hint.update(f" {self.snapshot.reading}")
        self.board.tally.take(self.snapshot)
        self._safe = {each.host: each for each in self.board.tally.safety}
        self._moving = moving_by_host(self.snapshot)
        cards = {host.name: tuple(self._card(host, runs.get(host.name, NO_RUNS), now)) for host in hosts}

        def items(*, lists: bool) -> list[Item]:
            return [
                host_item(
                    host,
                    runs.get(host.name, NO_RUNS),
                    self.snapshot,
                    self.board.symbols,
                    now,
                    width,
                    self.board.gpu_lines,
                    cards[host.name],
                    safe=self._in_brief(host, now),
                    lists=lists,
                )
                for host in hosts
            ]

        if (columns := columns_for(hosts, now)) != self.table.columns:
            self.table.set_columns(columns)
        shown = items(lists=True) if width >= VAST else []
        fits = bool(shown) and sum(1 + len(item.more) for item in shown) < int(self.size.height * LISTED) - BESIDES
        self.table.show_items(listed := shown if fits else items(lists=False))
        below = self.size.height - AROUND - BESIDES - sum(1 + len(item.more) for item in listed) - self.hint.display
        self.set_class(below >= FLAT and not self.has_class("-high"), "-roomy")
        if self._awaited is not None and any(host.name == self._awaited for host in hosts):
            self.table.place(self._awaited)
            self._awaited = None
        self._show_history()

    def _show_history(self) -> None:
        if (host := self.host) is not None and self.history.display:
            memory = max((gpu.memory_total_bytes or 0.0 for gpu in host.gpus), default=0.0)
            gpus = len(host.gpus) if host.gpus or has_no_gpu(host) else None
            self.history.show(host.name, SPANS_S[self._span], host.history, memory, gpus)

    def _card(self, host: HostView, runs: RunsOfHost, now: float) -> Iterable[tuple[Span, ...]]:
        if host.name not in self._opened:
            return ()
        lines = card_lines(host, runs, self._costs, self.board.symbols, now, *self._safety(host))
        return (part for line in lines for part in wrapped(line, self.size.width - BESIDE_CARD))

    def _safety(self, host: HostView) -> tuple[Safety | None, Sequence[Transfer]]:
        """Return what of a host is at home, and what travels from it."""
        name = sanitize_line(host.name, 80)
        return self._safe.get(name), self._moving.get(name, ())

    def _in_brief(self, host: HostView, now: float) -> Span:
        safety, moving = self._safety(host)
        return in_brief(self.board.symbols, safety, moving, now) if safety is not None else ("", "dim")

    def tick(self) -> None:
        super().tick()
        self.draw()

    def on_table_moved(self, event: Table.Moved) -> None:
        del event
        self._show_history()  # nothing else depends on the cursor
        self.board.want(self.wants())

    def on_table_chosen(self, event: Table.Chosen) -> None:
        del event
        self.action_unfold()

    # Keys -----------------------------------------------------------------------------------------------------------

    def action_unfold(self, opens: bool | None = None) -> None:
        """Show the card of the host under the cursor, or put it into its lines again."""
        name = self.table.cursor
        if name is None:
            return
        wanted = name not in self._opened if opens is None else opens
        (self._opened.add if wanted else self._opened.discard)(name)
        self.draw()

    def action_runs(self) -> None:
        if self.table.cursor is not None:
            self.board.show_runs_of(self.table.cursor)

    def action_history(self) -> None:
        self.set_class(self.history.toggle_class("toggled").has_class("toggled"), "history")
        self.call_after_refresh(self.take)

    def action_span(self, by: int) -> None:
        self._span = max(0, min(len(SPANS_S) - 1, self._span + by))
        self.take()

    def action_copy(self) -> None:
        if (host := self.host) is not None:
            words = sanitize_line(host.ssh or host.name, 300)
            self.app.copy_to_clipboard(words)
            self.notify(self.board.symbols.text(f"copied: {words}"), markup=False)

    def action_check(self) -> None:
        if (name := self.table.cursor) is not None:
            self.board.operate(f"check {name}", ["hosts", "check", name])

    def action_add(self) -> None:
        from armada.tui.screens.add_host import AddHost

        if not self.board.refuses("add a host"):
            self.board.push_screen(AddHost(self.board.symbols), self.move_to)

    def move_to(self, name: str | None) -> None:
        """Move the cursor to a host, once it has been read."""
        self._awaited = name
        if self.is_mounted:
            self.draw()

    def action_provision(self) -> None:
        """Build the environment of the host, after a question: it is hundreds of MB."""
        name = self.table.cursor
        if name is None or self.board.refuses("provision"):
            return
        lines = ["Python, PyTorch and the packages of its profile: hundreds of MB or more"]
        note = "They are downloaded to the host, or sent to it where it cannot download. What is there already stays."
        question = Question(f"Build the environment on {name}?", lines, note, "build it", self.board.symbols)

        def answer(yes: bool | None) -> None:
            if yes:
                self.board.operate(f"provision {name}", ["hosts", "provision", name])

        self.board.push_screen(question, answer)

    def action_doctor(self) -> None:
        """Diagnose the host, and show the findings in a window."""
        if (name := self.table.cursor) is not None:
            from armada.tui.screens.output import diagnose

            diagnose(self.board, name)

    def action_forget(self) -> None:
        """Remove the host from hosts.yaml, after a question."""
        host = self.host
        if host is None or self.board.refuses("remove a host"):
            return
        if host.local or not host.configured:
            why = "this machine is built in and stays" if host.local else f"{host.name} is not in hosts.yaml"
            self.notify(self.board.symbols.text(why), severity="warning", markup=False)
            return
        name = host.name
        rows = self.board.host_runs.read(self.snapshot).get(name, NO_RUNS).rows
        lines = [f"{row.run.run_id}, {row.run.state}" for row in rows if not row.run.ended]
        stay = "stays" if len(rows) == 1 else "stay"
        lines += [f"{counted(len(rows), 'run')} of it {stay} in the list"] if rows else []
        note = (
            "It leaves hosts.yaml and its SSH key is forgotten. Nothing on the host changes, and its price still runs."
        )
        question = Question(f"Remove {name}?", lines, note, "remove it", self.board.symbols)

        def answer(yes: bool | None) -> None:
            if yes:
                self.board.operate(f"remove {name}", ["hosts", "rm", "--", name])

        self.board.push_screen(question, answer)

    def action_trust(self) -> None:
        """Show the host's current key beside the pinned one. Only the key that was shown is pinned."""
        if (host := self.host) is None:
            return
        if host.local:
            self.notify("this machine has no key to compare", severity="warning")
            return
        from armada.tui.screens.checking import check

        name = host.name
        asked = (f"ask {name} for its key", ["hosts", "trust", "--dry-run", "--json", name])
        check(self.board, [asked], lambda answers: self.compare(name, answers[0]))

    def compare(self, name: str, answer: Answer) -> None:
        found = answer.json
        offered = keys_of(found.get("offered")) if found else {}
        if not offered or found is None:
            self._say(f"{name} shows no key: {answer.said}")
            return
        pinned = keys_of(found.get("pinned_before"))
        known = set(offered) == set(pinned)
        shown = [f"{name} ({found.get('ssh')}) shows now", *(f"  {kind} {mark}" for mark, kind in offered.items())]
        shown += ["pinned before", *([f"  {kind} {mark}" for mark, kind in pinned.items()] or ["  none"])]
        if known:
            title, verb = f"{name} shows the key that is pinned", "check it"
            note = "Nothing is to be pinned. y connects to the host and checks it."
        else:
            title, verb = f"Pin another key for {name}?", "pin it"
            note = (
                "The key changes when a box is reinstalled, or when somebody intercepts the connection. Compare it with what "
                "the box's console or its provider shows. Everything sent there later, including secrets, goes to the holder "
                "of this key."
            )
        words = ["hosts", "trust", *(f"--expect={mark}" for mark in offered), name]

        def look() -> None:
            self.board.operate(f"check {name}", ["hosts", "check", name])

        def go() -> None:
            if known:
                look()
            else:
                self.board.operate(f"trust {name}", words, lambda ended: None if ended.exit_code else look())

        question = Question(title, shown, note, verb, self.board.symbols)
        self.board.push_screen(question, lambda yes: go() if yes else None)

    def action_release(self) -> None:
        """Check the host first, and show what would be lost before anything is done."""
        if (name := self.table.cursor) is not None:
            ask_release(self.board, name)

    def action_reap(self) -> None:
        """Look for processes that ended runs left, and show them before any is ended."""
        from armada.tui.screens.reap import ask_reap

        if (name := self.table.cursor) is not None:
            ask_reap(self.board, name)

    def judge(self, name: str, answer: Answer) -> None:
        show_verdict(self.board, name, answer)

    def action_shell(self) -> None:
        if (name := self.table.cursor) is not None:
            from armada.tui.screens.outside import open_shell

            open_shell(self.board, ["ssh", name])

    def _say(self, words: str) -> None:
        self.board.notify(self.board.symbols.text(sanitize_line(words)), severity="error", markup=False, timeout=15)
