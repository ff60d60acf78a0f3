"""A home with a store that is filled through armada.store, and the dashboard on it, driven by keys."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from armada.paths import HomePaths
from armada.store import checkpoints, metrics, run_sync, runs
from armada.store.database import Database
from armada.tui import left_screens, operations, remembered
from armada.tui.app import Dashboard
from armada.tui.watcher import Watcher
from armada.verdicts.states import ENDED, Verdict
from tests import fork_server
from tests.answers import outbox
from tests.waiting import WITHIN_S, pauses

Use = Callable[[Pilot[None]], Awaitable[None]]

_LATE_S = 0.5


@dataclass
class World:
    """The store, and what fills it as a daemon would."""

    home: HomePaths
    database: Database

    def local_log(self, run_id: str, text: str) -> Path:
        """Make a run on this machine with a log of its own."""
        self.run(run_id, host="local")
        path = self.home.local_root / "runs" / run_id / "output.log"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    def run(
        self,
        run_id: str,
        *,
        name: str | None = None,
        host: str = "box",
        state: str = "running",
        reason: str | None = None,
        message: str | None = None,
        spec: dict[str, Any] | None = None,
        **facts: Any,
    ) -> str:
        filled = spec or {"job": {"argv": ["true"]}, "experiment": {}}
        runs.insert(
            self.database, run_id=run_id, name=name or run_id, host=host, task="sft", experiment="e.yaml", spec=filled
        )
        now = time.time()
        known: dict[str, Any] = {"observed_at": now, "started_at": now - 3600}
        if state in ENDED:
            known["ended_at"] = now - 60
        runs.record(self.database, run_id, Verdict(state, reason, message, 1, 1, "evidence"), **(known | facts))
        return run_id

    def losses(self, run_id: str, values: list[float], *, name: str = "loss") -> None:
        (offset,) = self.database.connection.execute(
            "SELECT metrics_offset FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        (latest,) = self.database.connection.execute(
            "SELECT max(time) FROM points JOIN series ON id = series WHERE run_id = ? AND name = ?", (run_id, name)
        ).fetchone()
        start = max(time.time() - len(values), latest or 0.0)  # what is added is the newest
        lines = [
            {"kind": "train", "step": offset + step, "time": start + step, name: value, "num_tokens": 100 * step}
            for step, value in enumerate(values, 1)
        ]
        assert metrics.record_metrics(
            self.database, run_id, lines, offset=offset, next_offset=offset + max(1, len(values))
        )

    def checkpoint(self, run_id: str, step: int, *, home: bool) -> str:
        digest = f"{step:064x}"
        before = [
            {"digest": c.digest, "step": c.step, "size_bytes": c.size_bytes, "file_count": 1, "created_at": 1.0}
            for c in checkpoints.of_run(self.database, run_id)
        ]
        entry = {
            "digest": digest,
            "step": step,
            "size_bytes": 2_100_000_000,
            "file_count": 3,
            "created_at": time.time(),
        }
        checkpoints.record_outbox(self.database, run_id, outbox([*before, entry]))
        if home:
            place = self.home.checkpoints(run_id) / f"checkpoint-{step}"
            place.mkdir(parents=True)
            checkpoints.mark_home(self.database, run_id, digest, place)
        return digest

    def last_sync(self, run_id: str) -> None:
        """Record that the last sync of a run that has ended was complete."""
        run_sync.succeeded(self.database, run_id, began=time.time(), next_due_at=None, final_of=1)

    def hosts(self, **hosts: dict[str, Any]) -> None:
        self.home.hosts_file.write_text(json.dumps({"hosts": hosts}))

    def board(self, *, is_new: bool = False, **options: Any) -> Dashboard:
        """The dashboard; one that `is_new` shows the tour if the home is empty."""
        if not (is_new or options.get("read_only")):
            remembered.keep_toured(self.home)
        return Dashboard(self.home, **({"watch": False} | options))


_HEARD: WeakKeyDictionary[App[None], list[str]] = WeakKeyDictionary()


REAL_ASK = operations.ask
_REAL_COMMAND = operations.command
_LONGEST_WORDS = 100_000


def _ask(words: Sequence[str], tell: Callable[[operations.Answer], None]) -> Callable[[], None]:
    """Answer as `operations.ask` does, from a fork; what a new process takes or refuses otherwise, it is asked itself."""
    is_plain = not any("\0" in word for word in words) and sum(map(len, words)) < _LONGEST_WORDS
    if not is_plain or operations.command is not _REAL_COMMAND or not fork_server.suits(os.environ):
        return REAL_ASK(words, tell)
    server, folder, env = fork_server.running(), Path.cwd(), dict(os.environ)

    def wait() -> None:
        done = server.run(words, cwd=folder, env=env, timeout_s=operations.ASK_S)
        tell(operations.Answer(done.returncode, done.stdout, done.stderr))

    threading.Thread(target=wait, name=f"ask {words[0]}", daemon=True).start()
    return nothing


def nothing() -> None:
    """What ends a command that a test answers."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    notify = Dashboard.notify

    def listen(board: Dashboard, message: str, **options: Any) -> None:
        _HEARD.setdefault(board, []).append(message)
        notify(board, message, **options)

    monkeypatch.setattr(Dashboard, "notify", listen)
    monkeypatch.setattr(operations, "ask", _ask)
    monkeypatch.setattr("armada.tui.widgets.host_safety.LIVES_S", WITHIN_S)
    monkeypatch.setattr(left_screens, "MAKES_AHEAD", os.environ.get("ARMADA_TEST_AHEAD") == "1")
    _disturb(os.environ.get("ARMADA_TEST_READER"), monkeypatch)
    for name in [name for name in os.environ if name.startswith("ARMADA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ARMADA_NO_DAEMON", "1")
    monkeypatch.chdir(tmp_path)
    home = HomePaths.from_environment()
    home.make()
    with Database(home.store) as database:
        yield World(home, database)


def _disturb(how: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reader tell late, or hosts with the first that it tells: so a test that fails by chance fails at once."""
    tell, watch = Watcher._tell, Watcher._watch  # noqa: SLF001

    def late(self: Watcher, *told: Any) -> None:
        self._ended.wait(_LATE_S)
        tell(self, *told)

    def early(self: Watcher, database: Database) -> None:
        self._look_besides()
        watch(self, database)

    if how == "late":
        monkeypatch.setattr(Watcher, "_tell", late)
    elif how == "early":
        monkeypatch.setattr(Watcher, "_watch", early)


def drive(board: Dashboard, use: Use, size: tuple[int, int] = (140, 40)) -> None:
    """Run the dashboard without a terminal, and `use` it."""

    async def go() -> None:
        async with board.run_test(size=size) as pilot:
            await use(pilot)

    asyncio.run(go())


def strips(app: App[None]) -> list[Strip]:
    """The lines of the screen as they go to a terminal; Textual has no public name for it."""
    return app.screen._compositor.render_strips()  # noqa: SLF001


def screen(pilot: Pilot[None]) -> str:
    """What stands on the screen now."""
    return "\n".join(strip.text.rstrip() for strip in strips(pilot.app))


def heard(pilot: Pilot[None]) -> list[str]:
    """Every notice so far, also those that are gone from the screen."""
    return _HEARD.get(pilot.app, [])


def said(pilot: Pilot[None]) -> str:
    return "\n".join(heard(pilot))


def styles(pilot: Pilot[None], words: str) -> dict[str, Style]:
    """The style of each piece of the line with these words."""
    line = next(strip for strip in strips(pilot.app) if words in strip.text)
    return {segment.text.strip(): segment.style or Style() for segment in line if isinstance(segment, Segment)}


async def until(pilot: Pilot[None], look: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait until something is so."""
    for pause_s in pauses(lambda: f"{look}; on the screen:\n{screen(pilot)}", within_s=within_s):
        if look():
            return
        await pilot.pause(pause_s)


async def shows(pilot: Pilot[None], *words: str) -> str:
    """Wait until all words are on the screen; what is there then."""
    return await _seen(pilot, lambda seen: all(word in seen for word in words))


async def lacks(pilot: Pilot[None], *words: str) -> str:
    return await _seen(pilot, lambda seen: not any(word in seen for word in words))


async def _seen(pilot: Pilot[None], is_it: Callable[[str], bool]) -> str:
    """Wait for a screen, and return that very one: the next may already say something else."""
    found = ""

    def look() -> bool:
        nonlocal found
        found = screen(pilot)
        return is_it(found)

    await until(pilot, look)
    return found
