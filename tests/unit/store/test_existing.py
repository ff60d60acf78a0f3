"""A store that was deleted while programs have it is not made anew, as an empty one, by any of their threads."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest

import armada
from armada.daemon.service import Daemon
from armada.errors import StoreGone
from armada.monitor.observe import observe_all
from armada.notifications.messenger import Messenger
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database

SOURCES = Path(armada.__file__).parent
BACKGROUND = ("daemon", "notifications", "monitor", "sync", "tui")
"""The parts whose threads open the store beside the connection of their program."""
FIRST = {"daemon/service.py", "tui/first_rows.py", "tui/watcher.py"}
"""What begins with the store: the daemon's first connection, and the dashboard's."""


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.make()
    return home


def test_a_store_that_was_deleted_is_not_opened_as_an_empty_one(home: HomePaths) -> None:
    with pytest.raises(StoreGone, match="was deleted, or its disk is away"):
        Database(home.store, existing=True)
    assert not home.store.exists()
    Database(home.store).close()
    with Database(home.store, existing=True) as database:
        assert database.state == "there"


def test_a_name_with_special_characters_is_opened(tmp_path: Path) -> None:
    place = tmp_path / "what? 100% #1" / "armada.db"
    Database(place).close()
    with Database(place, existing=True) as database:
        assert database.path == place


def test_a_messenger_whose_store_was_deleted_ends(home: HomePaths) -> None:
    messenger = Messenger(home)
    messenger.start()
    assert messenger._thread is not None  # noqa: SLF001
    messenger._thread.join(60)  # noqa: SLF001
    assert not messenger._thread.is_alive()  # noqa: SLF001
    assert not home.store.exists()


def test_a_look_whose_store_was_deleted_says_so(home: HomePaths) -> None:
    with Database(home.store) as database:
        runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
        seen = runs.every(database)
    home.store.unlink()
    with pytest.raises(StoreGone):
        observe_all(home, {}, seen)
    assert not home.store.exists()


def test_a_daemon_that_had_the_store_makes_no_empty_one(home: HomePaths, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []
    daemon = Daemon(home, again=True)
    thread = threading.Thread(target=lambda: ended.append(daemon.run()))  # in the main one it would take its signals
    thread.start()
    thread.join(60)
    assert ended == ["over"]
    assert not home.store.exists()
    assert "was deleted, or its disk is away" in caplog.text


def test_every_thread_opens_the_store_that_is_there() -> None:
    """Each connection that is opened where threads work says that the store exists, but for the first of a program."""
    creating = set()
    for part in BACKGROUND:
        for path in sorted((SOURCES / part).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or getattr(node.func, "id", None) != "Database":
                    continue
                given = {each.arg: each.value for each in node.keywords}.get("existing")
                if not (isinstance(given, ast.Constant) and given.value is True):
                    creating.add(str(path.relative_to(SOURCES)))
    assert creating == FIRST
