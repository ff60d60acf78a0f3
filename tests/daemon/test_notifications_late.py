"""What is notified although it happened long ago, was refused, or would ring everybody."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.daemon.service import IDLE_S, Clock, Daemon
from armada.notifications import delivery
from armada.notifications.events import find_events
from armada.notifications.messenger import APART_S, LONGEST_RETRY_S, MOST_CHARACTERS, Messenger, digest
from armada.paths import HomePaths
from armada.store import adopted, hosts, notifications, run_sync, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict

HOUR_S = 3600.0
DISCORD_TAKES = 2000


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    paths = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    paths.make()
    paths.notifications_file.write_text(json.dumps({"urls": ["json://box"]}))
    os.utime(paths.notifications_file, (1.0, 1.0))
    return paths


@pytest.fixture
def database(home: HomePaths) -> Database:
    return Database(home.store)


class Box:
    """A service that takes messages of a limited length, and a clock."""

    def __init__(self, home: HomePaths, takes: int = DISCORD_TAKES) -> None:
        self.now = time.time()
        self.taken: list[str] = []
        self.poison: str | None = None
        self._takes = takes
        self.messenger = Messenger(home, now=lambda: self.now, deliver=self._deliver)

    def _deliver(self, url: str, title: str, body: str) -> None:
        del url
        if len(title) + len(body) + 2 > self._takes or (self.poison is not None and self.poison in body):
            raise delivery.NotDelivered("400")
        self.taken.append(f"{title}\n{body}")

    def work(self, database: Database, after_s: float = 0.0) -> None:
        self.now += after_s
        self.messenger.work_once(database)


def fail(database: Database, run_id: str, learned_at: float, ended_at: float | None = None) -> None:
    runs.insert(database, run_id=run_id, name=run_id[:-7], host="box", task="command", experiment=None, spec={})
    verdict = Verdict("failed", "exit_1", "ValueError: " + "x" * 150, 1, 1)
    runs.record(database, run_id, verdict, observed_at=learned_at, ended_at=ended_at or learned_at)
    run_sync.succeeded(database, run_id, began=learned_at, next_due_at=learned_at, final_of=1)


@pytest.mark.parametrize("ago_h", [25, 30 * 24], ids=["the laptop slept", "the host's clock is wrong"])
def test_an_end_of_long_ago_is_told_when_home_learns_of_it(home: HomePaths, database: Database, ago_h: int) -> None:
    box = Box(home)
    fail(database, "late-aaaaaa", box.now, ended_at=box.now - ago_h * HOUR_S)
    fail(database, "known-aaaaaa", box.now - 25 * HOUR_S)
    box.work(database)
    assert [text.splitlines()[0] for text in box.taken] == ["late failed"]


def test_the_ends_that_recover_finds_are_told_by_their_own_time(home: HomePaths, database: Database) -> None:
    box = Box(home)
    for run_id, ended_at in (("old-aaaaaa", box.now - 90 * 24 * HOUR_S), ("new-aaaaaa", box.now - HOUR_S)):
        adopted.adopt(database, run_id=run_id, name=run_id[:-7], host="box", task="sft", spec={}, created_at=ended_at)
        runs.record(database, run_id, Verdict("succeeded", None, None, 1, 9), observed_at=box.now, ended_at=ended_at)
    box.work(database)
    assert [text.splitlines()[0] for text in box.taken] == ["new finished"]


def test_another_reason_of_a_known_end_is_no_news(home: HomePaths, database: Database) -> None:
    box = Box(home)
    before = box.now - 5 * 24 * HOUR_S
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
    for reason, seen_at in (("killed_by_user", before), ("removed", box.now)):
        verdict = Verdict("cancelled", reason, "CANCELLED by 1000", 1, 9)
        runs.record(database, "q-aaaaaa", verdict, observed_at=seen_at, told_at=before, ended_at=before)
    box.work(database)
    assert box.taken == []


def test_the_end_behind_a_guess_is_told_days_later(home: HomePaths, database: Database) -> None:
    box = Box(home)
    before = box.now - 2 * 24 * HOUR_S
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
    for reason, seen_at in (("gone", before), ("out_of_memory", box.now)):
        runs.record(database, "q-aaaaaa", Verdict("failed", reason, None, 1, 9), observed_at=seen_at, ended_at=before)
    box.work(database)
    assert [text.splitlines()[1] for text in box.taken] == ["q-aaaaaa on box: failed, out_of_memory"]


def test_what_goes_on_is_told_however_long_ago_it_began(database: Database) -> None:
    now = time.time()
    for run_id, host in (("away-aaaaaa", "gone"), ("stuck-aaaaaa", "box")):
        runs.insert(database, run_id=run_id, name=run_id[:-7], host=host, task="sft", experiment=None, spec={})
    hosts.mark_unreachable(database, "gone", "no route to host")
    database.connection.execute("UPDATE hosts SET unreachable_since = ?", (now - 50 * HOUR_S,))
    stalled = Verdict("running", "stalled", "no progress for 31 m", 1, 3)
    runs.record(database, "stuck-aaaaaa", stalled, observed_at=now - 50 * HOUR_S)
    found = {event.title for event in find_events(database, now, sync_failing_s=2 * HOUR_S)}
    assert found == {"away: sync is failing", "stuck is stalled"}


def test_a_burst_reaches_a_service_that_takes_short_messages_only(home: HomePaths, database: Database) -> None:
    box = Box(home)
    for number in range(16):
        fail(database, f"cell-{number:02}-aaaaaa", box.now)
    box.work(database)
    (digest,) = box.taken
    assert digest.startswith("16 × run failed\ncell-15-aaaaaa on box: failed")
    assert digest.endswith(" more: armada ps")
    fail(database, "other-aaaaaa", box.now)
    box.work(database, APART_S)
    assert box.taken[1].startswith("other failed\n")
    assert notifications.waiting(database) == []


@pytest.mark.parametrize("length", [100, 449, 450, 880, 2000])
def test_a_digest_keeps_its_limit_with_its_last_line(database: Database, length: int) -> None:
    for number in range(30):
        key = f"{number}@x"
        notifications.post(database, key=key, kind="run_failed", title=key, body=f"{number:02}{'x' * (length - 2)}")
    title, body = digest(notifications.waiting(database))
    assert title == "30 × run failed"
    assert len(body) <= MOST_CHARACTERS
    *lines, more = body.splitlines()
    assert lines
    assert more == f"… and {30 - len(lines)} more: armada ps"
    assert len(digest(notifications.waiting(database)[:2])[1]) <= MOST_CHARACTERS


def test_what_is_refused_keeps_no_later_message_back(home: HomePaths, database: Database) -> None:
    box = Box(home)
    box.poison = "cell-01"
    for number in range(3):
        fail(database, f"cell-{number:02}-aaaaaa", box.now)
    box.work(database)
    assert box.taken == []
    fail(database, "other-aaaaaa", box.now)
    box.work(database, LONGEST_RETRY_S)
    assert [text.splitlines()[0] for text in box.taken] == ["other failed"]
    for _ in range(12):
        box.work(database, LONGEST_RETRY_S)
    left = [message.key.partition(":")[0] for message in notifications.waiting(database)]
    assert left == ["cell-01-aaaaaa"], "and the one that is refused keeps no other back"


def test_a_destination_that_is_changed_or_added_gets_nothing_of_before(home: HomePaths, database: Database) -> None:
    box = Box(home)
    fail(database, "q-aaaaaa", box.now - HOUR_S)
    box.work(database)
    assert len(box.taken) == 1
    home.notifications_file.write_text(json.dumps({"urls": ["json://box?password=new", "json://other"]}))
    os.utime(home.notifications_file, (box.now, box.now))
    box.work(database, APART_S)
    assert len(box.taken) == 1
    fail(database, "r-aaaaaa", box.now)
    box.work(database, APART_S)
    assert [text.splitlines()[0] for text in box.taken] == ["q failed", "r failed", "r failed"]


def test_what_the_former_password_kept_back_goes_to_the_new_one(home: HomePaths, database: Database) -> None:
    box = Box(home)
    box.poison = "on box"
    fail(database, "q-aaaaaa", box.now - HOUR_S)
    box.work(database)
    home.notifications_file.write_text(json.dumps({"urls": ["json://box?password=new"]}))
    os.utime(home.notifications_file, (box.now, box.now))
    box.poison = None
    for _ in range(3):
        box.work(database, APART_S)
    assert [text.splitlines()[0] for text in box.taken] == ["q failed"]


def test_what_one_of_two_urls_refused_goes_to_its_corrected_one_alone(home: HomePaths, database: Database) -> None:
    box = Box(home)
    tried: list[str] = []

    def deliver(url: str, title: str, body: str) -> None:
        del body
        if "old" in url:
            raise delivery.NotDelivered("401")
        tried.append(f"{url} {title}")

    messenger = Messenger(home, now=lambda: box.now, deliver=deliver)
    for number, urls in enumerate((["json://a", "json://old"], ["json://a", "json://new"])):
        home.notifications_file.write_text(json.dumps({"urls": urls}))
        os.utime(home.notifications_file, (box.now, box.now) if number else (1.0, 1.0))
        if not number:
            fail(database, "q-aaaaaa", box.now - HOUR_S)
        for _ in range(3):
            messenger.work_once(database)
            box.now += APART_S
    assert tried == ["json://a q failed", "json://new q failed"]


def test_a_kind_that_is_added_begins_with_what_comes(home: HomePaths, database: Database) -> None:
    box = Box(home)
    home.notifications_file.write_text(json.dumps({"urls": ["json://box"], "on": ["run_finished"]}))
    os.utime(home.notifications_file, (1.0, 1.0))
    fail(database, "q-aaaaaa", box.now - HOUR_S)
    box.work(database)
    home.notifications_file.write_text(json.dumps({"urls": ["json://box"], "on": ["run_failed"]}))
    os.utime(home.notifications_file, (box.now, box.now))
    box.work(database, APART_S)
    assert box.taken == []


def test_what_waits_for_a_destination_that_is_gone_keeps_no_daemon(home: HomePaths, database: Database) -> None:
    home.daemon.mkdir()
    now = time.time()
    notifications.post(database, key="x@desktop", kind="run_failed", title="t", body="b", now=now)
    clock = [now]
    daemon = Daemon(home, auto=True, clock=Clock(lambda: clock[0], lambda: clock[0]))
    for text, stays in (("desktop: true", True), ("urls: [broken", True), ("desktop: false", False)):
        home.notifications_file.write_text(text)
        found = []
        for _ in range(2):
            clock[0] += IDLE_S + 1
            found.append(daemon.tick(database))
        assert found[-1] is stays, text
    daemon.close()


def test_a_disk_that_nobody_sees_is_not_told_of(database: Database) -> None:
    now = time.time()
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
    hosts.record_facts(database, "box", {"disk": {"free_bytes": 3_000_000_000, "total_bytes": 2_000_000_000_000}})

    def kinds(at: float) -> list[str]:
        return [event.kind for event in find_events(database, at, sync_failing_s=HOUR_S)]

    assert kinds(now) == ["disk_soon_full"]
    assert kinds(now + 48 * HOUR_S) == []
    hosts.mark_unreachable(database, "box", "no route to host")
    assert kinds(now) == []
    assert kinds(now + 48 * HOUR_S) == ["sync_failing"]


@pytest.mark.parametrize("words", ["@everyone", "<@&123>", "<!channel>", "@all"])
def test_words_of_a_job_ring_nobody(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    import requests

    sent: list[str] = []

    def post(*_: Any, **given: Any) -> Any:
        sent.append(json.loads(given["data"])["content"])
        return SimpleNamespace(status_code=204, content=b"", headers={})

    monkeypatch.setattr(requests, "post", post)
    url = f"discord://{'1' * 20}/{'a' * 64}"
    delivery.deliver(url, f"x {words}", f"x-aaaaaa on box: failed ({words}) " + "y" * 3000)
    (content,) = sent
    assert words not in content
    assert words in content.replace("\u200c", "")
    assert len(content) <= DISCORD_TAKES
