"""Messages arrive once, not too often, and in the end; over apprise at a real HTTP server."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.doctor.home import _notifications
from armada.errors import ConfigError
from armada.notifications import delivery
from armada.notifications.events import find_events
from armada.notifications.messenger import APART_S, LONGEST_RETRY_S, Messenger
from armada.notifications.settings import KINDS, load_settings
from armada.notifications.subject import Subject, subject_of
from armada.paths import HomePaths
from armada.store import hosts, notifications, run_sync, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict
from tests.conftest import Armada, eventually

PRICE, DEAR = (Tariff((Price(amount),)) for amount in (14.4, 900.0))


class Mailbox:
    """A web service that takes messages, or refuses them."""

    def __init__(self) -> None:
        mailbox = self
        self.taken: list[dict[str, str]] = []
        self.refuse = False
        self.refused = 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if mailbox.refuse:
                    mailbox.refused += 1
                    self.send_response(500)
                else:
                    mailbox.taken.append(message)
                    self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://me:hunter2@127.0.0.1:{self._server.server_address[1]}/box"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    opened = Mailbox()
    yield opened
    opened.close()


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    paths = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    paths.make()
    return paths


@pytest.fixture
def database(home: HomePaths) -> Database:
    return Database(home.store)


class Now:
    def __init__(self) -> None:
        self.at = time.time() + 1000

    def __call__(self) -> float:
        return self.at


def wish(home: HomePaths, **settings: object) -> None:
    home.notifications_file.write_text(json.dumps(settings))
    os.utime(home.notifications_file, (1.0, 1.0))


def end(database: Database, run_id: str, state: str = "failed", reason: str | None = "oom", at: float = 0.0) -> None:
    runs.insert(database, run_id=run_id, name=run_id[:-7], host="box", task="command", experiment=None, spec={})
    verdict = Verdict(state, reason, "<b>out of memory</b>", 1, 1)
    runs.record(database, run_id, verdict, observed_at=at, ended_at=at, started_at=at - 60)
    run_sync.succeeded(database, run_id, began=at, next_due_at=at, final_of=1)


def test_a_failed_run_is_told_once(home: HomePaths, database: Database, mailbox: Mailbox) -> None:
    now = Now()
    wish(home, urls=[mailbox.url])
    end(database, "qwen-aaaaaa", at=now.at)
    messenger = Messenger(home, now=now)
    assert messenger.work_once(database) == 1
    (message,) = mailbox.taken
    assert message["title"] == "qwen failed"
    assert "oom" in message["message"]
    assert "<b>out of memory</b>" in message["message"]
    now.at += 10 * APART_S
    assert messenger.work_once(database) == 0
    assert Messenger(home, now=now).work_once(database) == 0  # another daemon, later
    assert len(mailbox.taken) == 1


def test_many_at_once_are_one_message_and_the_next_waits_a_minute(
    home: HomePaths, database: Database, mailbox: Mailbox
) -> None:
    now = Now()
    wish(home, urls=[mailbox.url])
    messenger = Messenger(home, now=now)
    for number in range(3):
        end(database, f"r{number}-aaaaaa", at=now.at)
    assert messenger.work_once(database) == 1
    assert mailbox.taken[0]["title"] == "3 × run failed"
    assert all(f"r{number}-aaaaaa" in mailbox.taken[0]["message"] for number in range(3))
    end(database, "r4-aaaaaa", at=now.at)
    end(database, "r5-aaaaaa", state="succeeded", reason=None, at=now.at)
    now.at += APART_S / 2
    assert messenger.work_once(database) == 1  # of another kind
    assert mailbox.taken[1]["title"] == "r5 finished"
    now.at += APART_S
    assert messenger.work_once(database) == 1
    assert mailbox.taken[2]["title"] == "r4 failed"


def test_what_is_refused_is_tried_again_with_longer_and_longer_waits(
    home: HomePaths, database: Database, mailbox: Mailbox
) -> None:
    now = Now()
    wish(home, urls=[mailbox.url])
    end(database, "qwen-aaaaaa", at=now.at)
    messenger = Messenger(home, now=now)
    mailbox.refuse = True
    assert messenger.work_once(database) == 0
    assert mailbox.refused == 1
    (waiting,) = notifications.waiting(database)
    assert waiting.tries == 1
    assert waiting.error
    assert "hunter2" not in waiting.error
    messenger.work_once(database)
    assert mailbox.refused == 1  # not before its time
    now.at += LONGEST_RETRY_S
    messenger.work_once(database)
    assert mailbox.refused == 2
    mailbox.refuse = False
    now.at += LONGEST_RETRY_S
    assert messenger.work_once(database) == 1
    assert len(mailbox.taken) == 1
    assert notifications.waiting(database) == []


def test_each_destination_is_told_once_although_another_fails(
    home: HomePaths, database: Database, mailbox: Mailbox
) -> None:
    now = Now()
    other = Mailbox()
    wish(home, urls=[mailbox.url, other.url])
    end(database, "qwen-aaaaaa", at=now.at)
    other.refuse = True
    messenger = Messenger(home, now=now)
    messenger.work_once(database)
    other.refuse = False
    now.at += LONGEST_RETRY_S
    messenger.work_once(database)
    assert (len(mailbox.taken), len(other.taken)) == (1, 1)
    other.close()


def test_urls_and_their_passwords_are_not_in_the_store(home: HomePaths, database: Database, mailbox: Mailbox) -> None:
    now = Now()
    wish(home, urls=[mailbox.url])
    end(database, "qwen-aaaaaa", at=now.at)
    Messenger(home, now=now).work_once(database)
    assert len(mailbox.taken) == 1
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"hunter2" not in home.store.read_bytes()


def test_only_what_was_asked_for_and_nothing_from_before_is_told(
    home: HomePaths, database: Database, mailbox: Mailbox
) -> None:
    now = Now()
    end(database, "old-aaaaaa", at=now.at)
    home.notifications_file.write_text(json.dumps({"urls": [mailbox.url], "on": ["run_failed"]}))
    os.utime(home.notifications_file, (now.at + 5, now.at + 5))
    now.at += 10
    messenger = Messenger(home, now=now)
    messenger.work_once(database)
    end(database, "fine-aaaaaa", state="succeeded", reason=None, at=now.at)
    end(database, "mine-aaaaaa", state="cancelled", reason="killed_by_user", at=now.at)
    end(database, "new-aaaaaa", at=now.at)
    messenger.work_once(database)
    assert [message["title"] for message in mailbox.taken] == ["new failed"]
    now.at += APART_S
    end(database, "theirs-aaaaaa", state="cancelled", reason="removed", at=now.at)  # by its site
    messenger.work_once(database)
    assert [message["title"] for message in mailbox.taken] == ["new failed", "theirs cancelled"]


def test_a_guessed_end_is_told_as_one_and_its_revision_too(database: Database) -> None:
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
    told: dict[str, str] = {}

    def becomes(state: str, reason: str | None = None) -> list[str]:
        words = "slurm no longer lists the job, and no record shows how it ended" if reason else None
        runs.record(database, "q-aaaaaa", Verdict(state, reason, words, 1, 4), observed_at=time.time())
        found = find_events(database, time.time(), sync_failing_s=9999)
        new = [event.title for event in found if event.key not in told]
        told.update({event.key: event.title for event in found})
        return new

    assert becomes("running") == []
    assert becomes("failed", "gone") == ["q: its scheduler no longer lists it"]
    assert becomes("running") == ["q is running after all"]
    assert becomes("running") == []
    assert becomes("failed", "exit_1") == ["q failed"]


def test_a_run_that_its_scheduler_has_again_after_its_end_is_told(database: Database) -> None:
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
    now = time.time()
    told = Verdict("failed", "node_failure", None, 1, 4, only_told=True)
    runs.record(database, "q-aaaaaa", told, observed_at=now, told_at=now)
    assert [each.title for each in find_events(database, now, sync_failing_s=9999)] == ["q failed"]
    runs.record(database, "q-aaaaaa", Verdict("queued", None, None, 1, 4), observed_at=now, revised_at=now)
    (event,) = find_events(database, now, sync_failing_s=9999)
    assert event.title == "q is queued after all"
    assert event.body == "q-aaaaaa on box: it is queued; its scheduler had reported its end, and has the job again"


def test_a_failing_sync_is_told_after_its_hours(home: HomePaths, database: Database) -> None:
    now = time.time()
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
    run_sync.failed(database, "q-aaaaaa", now=now - 3 * 3600, reason="no space left at home", next_due_at=now)
    runs.insert(database, run_id="u-aaaaaa", name="u", host="gone", task="command", experiment=None, spec={})
    hosts.mark_unreachable(database, "gone", "no route to host")
    found = find_events(database, now, sync_failing_s=2 * 3600)
    assert [(event.kind, event.title) for event in found] == [("sync_failing", "q: sync is failing")]
    assert "no space left at home" in found[0].body
    later = find_events(database, now + 2.5 * 3600, sync_failing_s=2 * 3600)
    assert {event.title for event in later} == {"q: sync is failing", "u: sync is failing"}
    assert found[0].key in {event.key for event in later}


def test_a_disk_that_is_soon_full_is_told_once_a_day(database: Database) -> None:
    now = time.time()
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
    hosts.record_facts(database, "box", {"disk": {"free_bytes": 3_000_000_000, "total_bytes": 2_000_000_000_000}})
    hosts.record_facts(database, "idle", {"disk": {"free_bytes": 1, "total_bytes": 2_000_000_000_000}})
    (event,) = find_events(database, now, sync_failing_s=1)
    assert (event.kind, event.key.split(":")[:2]) == ("disk_soon_full", ["disk", "box"])
    hosts.record_facts(database, "box", {"disk": {"free_bytes": 900_000_000_000, "total_bytes": 2_000_000_000_000}})
    assert find_events(database, now, sync_failing_s=1) == []


def test_every_message_begins_with_the_run_or_the_host_that_it_is_about(database: Database) -> None:
    now = time.time()
    spec = {"experiment": {"budget": 20.0}}
    for run_id in ("q-aaaaaa", "s-aaaaaa"):
        runs.insert(database, run_id=run_id, name=run_id[0], host="box", task="command", experiment=None, spec=spec)
    end(database, "failed-aaaaaa", at=now)
    end(database, "well-aaaaaa", "succeeded", None, at=now)
    end(database, "guess-aaaaaa", reason="gone", at=now)
    runs.record(
        database, "q-aaaaaa", Verdict("running", None, None, 1, 3), observed_at=now - 9000, started_at=now - 9000
    )
    runs.record(database, "s-aaaaaa", Verdict("running", "stalled", "no progress: 3 m", 1, 3), observed_at=now - 300)
    run_sync.failed(database, "q-aaaaaa", now=now - 3 * 3600, reason="no space left at home", next_due_at=now)
    hosts.record_facts(database, "box", {"disk": {"free_bytes": 3_000_000_000, "total_bytes": 2_000_000_000_000}})
    known = {run.run_id for run in runs.every(database)}
    found = find_events(database, now + 90, sync_failing_s=3600, tariffs={"box": PRICE})
    about = {(each.kind, subject_of(each.kind, each.body, known, {"box"})) for each in found}
    assert about == {
        ("run_failed", Subject("run", "failed-aaaaaa", is_known=True)),
        ("run_failed", Subject("run", "guess-aaaaaa", is_known=True)),
        ("run_finished", Subject("run", "well-aaaaaa", is_known=True)),
        ("run_stalled", Subject("run", "s-aaaaaa", is_known=True)),
        ("sync_failing", Subject("run", "q-aaaaaa", is_known=True)),
        ("budget_reached", Subject("run", "q-aaaaaa", is_known=True)),
        ("disk_soon_full", Subject("host", "box", is_known=True)),
    }
    assert subject_of("host_stop", "box: the stop command exited with 3", known, {"box"}).is_known
    assert subject_of("host_stop", "box on wheels: gone", known, {"box"}) == Subject(
        "host", "box on wheels", is_known=False
    )


def test_a_disk_that_will_be_full_within_the_hours_asked_for_is_told(database: Database) -> None:
    now = time.time()
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="command", experiment=None, spec={})
    hosts.record_facts(database, "box", {"disk": {"free_bytes": 9 * 10**11, "total_bytes": 2 * 10**12}})
    hosts.record_forecast(database, "box", hosts.DiskForecast(now, 9 * 10**11, 5e7, None, now + 5 * 3600))
    assert find_events(database, now, sync_failing_s=1, disk_full_s=4 * 3600) == []
    (event,) = find_events(database, now, sync_failing_s=1, disk_full_s=6 * 3600)
    assert event.kind == "disk_soon_full"
    assert "full in about 5 h 00 m" in event.body
    assert "180 GB per hour" in event.body


def test_the_desktop_gets_plain_text(
    home: HomePaths, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{tmp_path}/shown'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    now = Now()
    wish(home, desktop=True)
    end(database, "qwen-aaaaaa", at=now.at)
    assert Messenger(home, now=now).work_once(database) == 1
    shown = (tmp_path / "shown").read_text().splitlines()
    assert shown[1:3] == ["--", "qwen failed"]
    assert "&lt;b>out of memory" in (tmp_path / "shown").read_text()


def test_an_unknown_kind_of_url_is_said_not_raised() -> None:
    with pytest.raises(delivery.NotDelivered, match="nonsense://"):
        delivery.deliver("nonsense://secret@example", "t", "b")


def test_the_file_is_checked_like_every_other(home: HomePaths) -> None:
    assert load_settings(home) is None
    home.notifications_file.write_text("desktop: true\n")
    settings = load_settings(home)
    assert settings is not None
    assert settings.on == KINDS
    for text, says in (
        ("urls: [nowhere]", "apprise URL"),
        ("on: [run_finish]", "did you mean run_finished"),
        ("url: x", "unknown key `url`"),
    ):
        home.notifications_file.write_text(text)
        with pytest.raises(ConfigError) as refused:
            load_settings(home)
        assert says in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    "text",
    [
        "urls: [mailto:me:app-password@gmail.com]",
        "urls:\n- mailto://me:app-password@gmail.com: 1",
        "mailto://me:app-password@gmail.com: true",
        "on: mailto://me:app-password@gmail.com",
        'desktop: "73737373"',
        "desktop: mailto://me:app-password@gmail.com",
        "app-password: 1\napp-password: 2",
        "urls: [*app-password]",
        "urls: !app-password x",
        "urls: {urls: app-password",
        "urls: ['app-password:://x']",
        "app-password",
    ],
)
def test_a_mistake_in_the_file_puts_no_password_of_it_anywhere(
    home: HomePaths, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    home.notifications_file.write_text(text)
    with pytest.raises(ConfigError, match=r"notifications.yaml") as refused:
        load_settings(home)
    with Database(home.store) as database:
        Messenger(home).work_once(database)
    assert "notifications.yaml" in caplog.text
    seen = f"{refused.value} {refused.value.hint} {refused.value.__cause__} {caplog.text} {_notifications(home)}"
    assert "73737373" not in seen
    assert "password" not in seen.replace("may be a password", "")


def test_one_url_alone_is_taken_for_a_list_of_one(home: HomePaths) -> None:
    home.notifications_file.write_text('urls: "ntfy://my-topic"')
    settings = load_settings(home)
    assert settings is not None
    assert settings.urls == ("ntfy://my-topic",)


def test_a_daemon_tells_of_a_run_that_failed(armada: Armada, mailbox: Mailbox) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "notifications.yaml").write_text(json.dumps({"urls": [mailbox.url]}))
    armada.run("daemon", "start")
    armada.json("launch", "--host", "local", armada.command("sh", "-c", "exit 3"))
    eventually(lambda: mailbox.taken)
    assert mailbox.taken[0]["title"] == "test failed"
    assert "exit_3" in mailbox.taken[0]["message"]
    armada.run("daemon", "stop")
    assert len(mailbox.taken) == 1


def test_a_stalled_run_is_told_once_it_has_been_so_for_a_while(database: Database) -> None:
    now = time.time()
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
    runs.record(database, "q-aaaaaa", Verdict("running", None, None, 1, 3), observed_at=now - 300)
    stalled = Verdict("running", "stalled", "no progress for 31 m", 1, 3)
    runs.record(database, "q-aaaaaa", stalled, observed_at=now - 30)
    runs.record(database, "q-aaaaaa", stalled, observed_at=now - 1)
    assert find_events(database, now, sync_failing_s=1) == []
    (event,) = find_events(database, now + 40, sync_failing_s=1)
    assert (event.kind, event.title) == ("run_stalled", "q is stalled")
    assert "no progress for 31 m" in event.body
    assert find_events(database, now + 90, sync_failing_s=1) == [event]
    runs.record(database, "q-aaaaaa", Verdict("running", None, None, 1, 3), observed_at=now + 91)
    assert find_events(database, now + 92, sync_failing_s=1) == []


def test_a_spent_budget_is_told_at_the_price_of_the_host(database: Database) -> None:
    now = time.time()
    begun(database, now - 3600)
    assert find_events(database, now, sync_failing_s=1) == []
    assert find_events(database, now, sync_failing_s=1, tariffs={"box": PRICE, "other": DEAR}) == []
    (event,) = find_events(database, now + 1800, sync_failing_s=1, tariffs={"box": PRICE})
    assert event.kind == "budget_reached"
    assert event.at == pytest.approx(now - 3600 + 20 / 14.4 * 3600, abs=1)
    assert "armada stop q-aaaaaa" in event.body
    ended = Verdict("succeeded", None, None, 1, 4)
    runs.record(database, "q-aaaaaa", ended, observed_at=now + 60, ended_at=now + 50)
    kinds = [event.kind for event in find_events(database, now + 1800, sync_failing_s=1, tariffs={"box": PRICE})]
    assert kinds == ["run_finished"]


def test_the_time_between_two_attempts_spends_no_budget(database: Database) -> None:
    now = time.time()
    begun(database, now - 60)
    with database.transaction() as connection:
        connection.execute("DELETE FROM transitions")
        for hours, state in ((72, "running"), (71.5, "failed"), (1 / 60, "running")):
            row = (now - hours * 3600, state)
            connection.execute("INSERT INTO transitions VALUES ('q-aaaaaa', ?, ?, NULL, NULL)", row)
        connection.execute("UPDATE runs SET submission = 2, attempt = 2, created_at = ?", (now - 73 * 3600,))
    rate = 14.4 / 3600
    assert find_events(database, now, sync_failing_s=1, tariffs={"box": PRICE}) == []
    spent_at = now - 60 + 20 / rate - 1800  # half an hour was used on the first day
    assert find_events(database, spent_at - 10, sync_failing_s=1, tariffs={"box": PRICE}) == []
    (event,) = find_events(database, spent_at + 10, sync_failing_s=1, tariffs={"box": PRICE})
    assert event.at == pytest.approx(spent_at, abs=1)


def begun(database: Database, moment: float) -> None:
    """Let a run with a budget begin."""
    spec = {"experiment": {"budget": 20.0}}
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec=spec)
    runs.record(
        database, "q-aaaaaa", Verdict("running", None, None, 1, 3), observed_at=moment, started_at=moment, gpus="[0]"
    )
