"""What the daemon told: the record of notifications, newest first."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.notifications.subject import subject_of
from armada.tui.bindings import bindings
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.window import Window
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.run_table import GUIDE
from armada.tui.widgets.table import Column
from armada.units import rough_span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from armada.notifications.subject import Subject
    from armada.store.notifications import Notification
    from armada.tui.app import Dashboard

COLUMNS = (Column("AGO", 6, right=True), Column("WHAT", 30, grow=1), Column("SENT", 10, rank=1))
NONE = "nothing yet. notifications.yaml says what is sent, and to whom: docs/how-to/daemon.md"
LOOK_S = 1.0
LINES = 5
"""Lines of a message that are shown; each is wrapped."""
NARROWEST = 20


class NotificationsWindow(Window):
    """A row for each event, with its message below; the unread ones are bold. Each leads to its run or host."""

    PLACE = "notifications"
    BINDINGS = bindings("notifications")

    def body(self) -> Iterable[Widget]:
        self.table = ListTable(COLUMNS, self.board.symbols)
        self.table.empty = NONE
        yield self.table

    def on_mount(self) -> None:
        self.say("Notifications from the daemon")
        self._seen = self.board.notified_until
        self._look()
        self.table.focus()
        self.set_interval(LOOK_S, self._look)

    def on_resize(self) -> None:
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        told, now = self.board.snapshot.told, time.time()
        self._told = {str(each.id): each for each in told}
        width = self.table.content_size.width or self.app.size.width * 8 // 10  # before it is laid out
        room = max(NARROWEST, width - GUIDE - 2)
        self.table.show_items(_item(each, now, room, unread=each.id > self._seen) for each in told)
        self.board.read_notifications()

    def action_open(self) -> None:
        """Close the window, and open what the message under the cursor is about."""
        if (each := self._told.get(self.table.cursor or "")) is None:
            return
        snapshot = self.board.snapshot
        subject = subject_of(each.kind, each.body, snapshot.by_id, {host.name for host in snapshot.hosts})
        if not subject.is_known:
            gone = {"run": "is no longer in the store", "host": "is no host in hosts.yaml"}[subject.kind]
            self.tell(f"{subject.name or 'what this message is about'} {gone}", bad=True)
            return
        self.dismiss(None)
        self.board.call_next(_open, self.board, subject)

    def on_table_chosen(self) -> None:
        self.action_open()

    def action_copy(self) -> None:
        if (each := self._told.get(self.table.cursor or "")) is not None:
            words = "\n".join(sanitize_line(line, 2000) for line in (each.title, *each.body.splitlines()))
            self.app.copy_to_clipboard(words)
            self.tell(f"copied: {each.title}")


def _open(board: Dashboard, subject: Subject) -> None:
    """Open a run, or Hosts with the cursor on a host."""
    if subject.kind == "run":
        board.open_run(subject.name)
        return
    board.action_go("hosts")
    if isinstance(board.screen, HostsScreen):
        board.screen.move_to(subject.name)


def _item(each: Notification, now: float, room: int, *, unread: bool) -> Item:
    sent = (
        ("sent", "good")
        if each.delivered_at is not None
        else ("waits", "dim")
        if each.error is None
        else ("failed", "bad")
    )
    title = ((sanitize_line(each.title, 300), "strong" if unread else "plain"),)
    lines = [
        piece
        for line in each.body.splitlines()[:LINES]
        for piece in textwrap.wrap(sanitize_line(line, 500), room, break_on_hyphens=False)
    ]
    if each.error is not None and each.delivered_at is None:
        lines.append(f"not sent: {sanitize_line(each.error, 300)}")
    more = tuple((((line, "dim"),),) for line in lines if line.strip())
    return Item(str(each.id), (((rough_span(now - each.created_at), "dim"),), title, (sent,)), more)
