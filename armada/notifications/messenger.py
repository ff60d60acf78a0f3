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
    from collections.abc import Callable, Collection, Iterable, Mapping

    from armada.config.hosts import Host
    from armada.costs.tariff import Tariff
    from armada.notifications.events import Continuing
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
MOST_CHARACTERS = 900
"""Of a digest: Pushover takes 1,024, Discord 2,000 with the title, Telegram 4,096."""


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
        hosts: Returns all hosts, for what they cost; those of hosts.yaml by default, so without those of projects.
        continuing: Returns the runs that continue on hosts whose budgets are spent.
    """

    def __init__(
        self,
        home: HomePaths,
        *,
        now: Callable[[], float] = time.time,
        deliver: Deliver = delivery.deliver,
        show: Callable[[str, str], None] = delivery.show,
        hosts: Callable[[], Mapping[str, Host]] | None = None,
        continuing: Callable[[], Iterable[Continuing]] = tuple,
    ) -> None:
        self._home = home
        self._now = now
        self._deliver = deliver
        self._show = show
        self._hosts = hosts or (lambda: load_hosts(home))
        self._continuing = continuing
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
        # What was refused is sent apart from what is new, which would be refused with it.
        groups: dict[tuple[str, str, bool], list[Notification]] = {}
        now = self._now()
        for message in outbox.waiting(database):
            destination = message.destination
            if destination in destinations and _is_due(message, now):
                groups.setdefault((message.kind, destination, message.tries > 0), []).append(message)
        sent = 0
        for (kind, destination, _), messages in sorted(groups.items(), key=lambda group: group[0][2]):
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
            return read_tariffs(database, self._hosts())
        except ConfigError:
            return {}

    def _collect(self, database: Database, settings: NotificationSettings, destinations: dict[str, str]) -> None:
        # Events from before the user named a destination, or a kind, are not reported there; but what the former
        # destinations refused, as after a password was changed, goes to those of now.
        changed_at = self._home.notifications_file.stat().st_mtime
        found = find_events(
            database,
            self._now(),
            sync_failing_s=settings.sync_failing_hours * 3600.0,
            disk_full_s=settings.disk_full_hours * 3600.0,
            tariffs=self._tariffs(database),
            continuing=self._continuing(),
        )
        asked = {(event.kind, destination) for event in found for destination in destinations}
        known = {each for each in asked if outbox.any_ever(database, *each)}
        for event in found:
            if event.kind in settings.on:
                new = {each for each in destinations if (event.kind, each) not in known}
                is_of_before = (
                    bool(new) and event.at < changed_at and not _is_refused(database, event.key, destinations)
                )
                for destination in destinations:
                    outbox.post(
                        database,
                        key=f"{event.key}@{destination}",
                        kind=event.kind,
                        title=event.title,
                        body=event.body,
                        delivered=is_of_before and destination in new,
                        now=self._now(),
                    )

    def _send(self, database: Database, destination: str, url: str, messages: list[Notification]) -> int:
        now = self._now()
        tries = max(message.tries for message in messages)
        outbox.mark_try(database, [message.id for message in messages], now + _RETRY.pause_s(tries + 1))
        # A digest may be refused for one of its messages: every second time, another one of them goes alone.
        alone = messages[-1 - tries // 2 % len(messages)]
        chosen = [alone] if tries and tries % 2 == 0 else messages
        ids = [message.id for message in chosen]
        title, body = digest(chosen)
        try:
            if destination == delivery.DESKTOP:
                self._show(title, body)
            else:
                self._deliver(url, title, body)
        except ArmadaError as error:
            why = sanitize_line(f"{error.message} ({error.hint})" if error.hint else error.message)
            outbox.mark_failed(database, [message.id for message in messages], why)
            if tries == 0:
                log.warning("a notification (%s) was not delivered: %s; armada retries it", messages[0].kind, why)
            return 0
        outbox.mark_delivered(database, ids, self._now())
        if others := [message.id for message in messages if message not in chosen]:
            outbox.retry_at(database, others, now + APART_S)
        return 1


def _is_refused(database: Database, event: str, destinations: Collection[str]) -> bool:
    """Whether an event was posted and a destination that is no longer in the file did not take it."""
    told = outbox.told_to(database, event)
    return any(each not in destinations for each, taken in told.items() if not taken)


def _is_due(message: Notification, now: float) -> bool:
    waits = message.next_try_at is not None and now < message.next_try_at <= now + LONGEST_RETRY_S
    return not waits


def digest(messages: list[Notification]) -> tuple[str, str]:
    """Return the title and body of one message; several messages are combined into a digest."""
    if len(messages) == 1:
        return messages[0].title, messages[0].body
    titles = {message.title for message in messages}
    title = titles.pop() if len(titles) == 1 else f"{len(messages)} × {messages[0].kind.replace('_', ' ')}"
    lines: list[str] = []
    left = MOST_CHARACTERS - len(_more(len(messages)))
    for message in messages[:MOST_LINES]:
        body = message.body[: left - 1] if not lines else message.body
        left -= len(body) + 1
        if left < 0:
            break
        lines.append(body)
    more = len(messages) - len(lines)
    return title, "\n".join([*lines, *([_more(more)] if more else [])])


def _more(count: int) -> str:
    return f"… and {count} more: armada ps"


def present_destinations(home: HomePaths) -> frozenset[str] | None:
    """Return the destinations of the file as the store names them; None if the file is wrong: they are not known now."""
    try:
        settings = load_settings(home)
    except ConfigError:
        return None
    if settings is None:
        return frozenset()
    return frozenset(map(_destination, settings.urls)) | ({delivery.DESKTOP} if settings.desktop else frozenset())


def _destination(url: str) -> str:
    """Return a name for a URL that reveals nothing about it: URLs contain passwords, which must not be in the store."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]
