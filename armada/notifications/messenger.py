"""The thread that converts events to messages and delivers each once, at most one per minute and kind, with retries."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from armada.config.hosts import load_hosts
from armada.errors import ArmadaError, ConfigError, StoreGone
from armada.foundation.backoff import Backoff
from armada.foundation.sanitize import sanitize_line
from armada.notifications import delivery
from armada.notifications.events import find_events
from armada.notifications.settings import NotificationSettings, load_settings
from armada.store import notifications as outbox
from armada.store.database import Database
from armada.store.queries.tariffs import read_tariffs

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.costs.tariff import Tariff
    from armada.paths import HomePaths
    from armada.store.notifications import Notification

log = logging.getLogger(__name__)

APART_S = 60.0
"""Seconds between two messages of one kind to one destination; events in between are combined into one message."""

LOOK_S = 5.0
REOPEN_S = 60.0
"""Seconds until a store that could not be opened is tried again."""

FIRST_RETRY_S = 30.0
LONGEST_RETRY_S = 3600.0
_RETRY = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
MOST_LINES = 20


class Deliver(Protocol):
    """The type of `armada.notifications.delivery.deliver`."""

    def __call__(self, url: str, title: str, body: str, /) -> None: ...


class Messenger:
    """Reads events from the store and delivers them.

    Args:
        home: Home's folders.
        now: Returns unix time.
        deliver: Sends a message to a URL.
        show: Shows a message on this machine's screen.
    """

    def __init__(
        self,
        home: HomePaths,
        *,
        now: Callable[[], float] = time.time,
        deliver: Deliver = delivery.deliver,
        show: Callable[[str, str], None] = delivery.show,
    ) -> None:
        self._home = home
        self._now = now
        self._deliver = deliver
        self._show = show
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._complaint: str | None = None

    def start(self) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(target=self._work, name="messenger", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end. It does not wait for a running delivery, which the next daemon repeats."""
        self._stopped.set()

    def work_once(self, database: Database) -> int:
        """Find events and deliver the messages that are due.

        Returns:
            The number of delivered messages.
        """
        settings = self._settings()
        if settings is None:
            return 0
        destinations = {_destination(url): url for url in settings.urls}
        if settings.desktop:
            destinations[delivery.DESKTOP] = ""
        self._collect(database, settings, destinations)
        groups: dict[tuple[str, str], list[Notification]] = {}
        now = self._now()
        for message in outbox.waiting(database):
            _, _, destination = message.key.rpartition("@")
            if destination in destinations and _is_due(message, now):
                groups.setdefault((message.kind, destination), []).append(message)
        sent = 0
        for (kind, destination), messages in groups.items():
            last = outbox.last_delivery(database, kind, destination)
            if last is None or not 0 <= now - last < APART_S:
                sent += self._send(database, destination, destinations[destination], messages)
        return sent

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                with Database(self._home.store, existing=True) as database:
                    self._work_with(database)
            except StoreGone:
                return  # the daemon says so and ends
            except Exception:
                log.exception("notifications failed: armada cannot open the store; it retries that")
                self._stopped.wait(REOPEN_S)

    def _work_with(self, database: Database) -> None:
        while not self._stopped.is_set():
            try:
                self.work_once(database)
            except Exception:
                log.exception("notifications failed; armada retries them")
            self._stopped.wait(LOOK_S)

    def _settings(self) -> NotificationSettings | None:
        """Return the settings in their current file. An invalid file is reported once; no messages are sent until it is corrected."""
        try:
            settings = load_settings(self._home)
        except ConfigError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("%s", error)
            return None
        self._complaint = None
        return settings

    def _tariffs(self, database: Database) -> dict[str, Tariff]:
        """Return what each host costs; empty if hosts.yaml is invalid, which the daemon reports elsewhere."""
        try:
            return read_tariffs(database, load_hosts(self._home))
        except ConfigError:
            return {}

    def _collect(self, database: Database, settings: NotificationSettings, destinations: dict[str, str]) -> None:
        # Events from before the user configured notifications are not reported.
        wished_at = 0.0 if outbox.any_ever(database) else self._home.notifications_file.stat().st_mtime
        found = find_events(
            database,
            self._now(),
            sync_failing_s=settings.sync_failing_hours * 3600.0,
            disk_full_s=settings.disk_full_hours * 3600.0,
            tariffs=self._tariffs(database),
        )
        for event in found:
            if event.kind in settings.on:
                for destination in destinations:
                    outbox.post(
                        database,
                        key=f"{event.key}@{destination}",
                        kind=event.kind,
                        title=event.title,
                        body=event.body,
                        delivered=event.at < wished_at,
                        now=self._now(),
                    )

    def _send(self, database: Database, destination: str, url: str, messages: list[Notification]) -> int:
        title, body = _as_one(messages)
        ids = [message.id for message in messages]
        now = self._now()
        tries = max(message.tries for message in messages)
        outbox.mark_try(database, ids, now + _RETRY.pause_s(tries + 1))
        try:
            if destination == delivery.DESKTOP:
                self._show(title, body)
            else:
                self._deliver(url, title, body)
        except ArmadaError as error:
            why = sanitize_line(f"{error.message} ({error.hint})" if error.hint else error.message)
            outbox.mark_failed(database, ids, why)
            if tries == 0:
                log.warning("a notification (%s) was not delivered: %s; armada retries it", messages[0].kind, why)
            return 0
        outbox.mark_delivered(database, ids, self._now())
        return 1


def _is_due(message: Notification, now: float) -> bool:
    waits = message.next_try_at is not None and now < message.next_try_at <= now + LONGEST_RETRY_S
    return not waits


def _as_one(messages: list[Notification]) -> tuple[str, str]:
    """Return the title and body of one message; several messages are combined into a digest."""
    if len(messages) == 1:
        return messages[0].title, messages[0].body
    titles = {message.title for message in messages}
    title = titles.pop() if len(titles) == 1 else f"{len(messages)} × {messages[0].kind.replace('_', ' ')}"
    lines = [message.body for message in messages[:MOST_LINES]]
    rest = [f"… and {len(messages) - MOST_LINES} more: armada ps"] if len(messages) > MOST_LINES else []
    return title, "\n".join([*lines, *rest])


def _destination(url: str) -> str:
    """Return a name for a URL that reveals nothing about it: URLs contain passwords, which must not be in the store."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]
