"""What benchmarks/tui measures, one function each: given a filled home, what was found, by name."""

from __future__ import annotations

import asyncio
import json
import math
import os
import pty
import random
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from armada.paths import HomePaths
from armada.store.database import Database
from armada.tui.frame_rate import import_textual
from benchmarks.tui_store import BUSY, log_of

SIZE = (160, 48)
TERMINAL = {"TERM": "xterm-256color", "COLORFGBG": "15;0"}
"""It says its background, and is not asked: nothing here would answer as a terminal does."""
PAINTED_BYTES = 4000
"""A screenful with its colours is more; the same for both programs."""
PRESSED = ["down"] * 60 + ["pagedown"] * 60 + ["end", "home"] * 10 + ["down"] * 30 + ["up"] * 30
BARE = """
from textual.app import App
from textual.widgets import DataTable, Footer, Header
class Bare(App):
    def compose(self):
        yield Header(); yield DataTable(); yield Footer()
    def on_mount(self):
        self.query_one(DataTable).add_columns(*"abcdefgh")
Bare().run()
"""
WRITER = """
import random, sys, time
from pathlib import Path
from armada.store.database import Database
store, log = Path(sys.argv[1]), open(sys.argv[2], "a")
changes, lines, rest = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
database = Database(store)
ids = [row[0] for row in database.connection.execute("SELECT run_id FROM runs WHERE state = 'running' LIMIT 50")]
series = dict(database.connection.execute("SELECT run_id, id FROM series WHERE name = 'loss'"))
due = time.monotonic()
while True:
    now = time.time()
    with database.transaction() as connection:
        for run_id in random.sample(ids, min(changes, len(ids))):
            loss = random.random()
            connection.execute("UPDATE runs SET step = step + 1, loss = ?, observed_at = ?, metrics_offset = metrics_offset + 1 "
                               "WHERE run_id = ?", (loss, now, run_id))
            newest = "SELECT step FROM points WHERE series = ?1 ORDER BY step DESC LIMIT 1"
            connection.execute(f"INSERT INTO points VALUES (?1, ({newest}) + 1, ?2, ?3)", (series[run_id], now, loss))
    log.write("a line of some length that a trainer printed\\n" * lines)
    log.flush()
    due = max(due + rest, time.monotonic())
    time.sleep(max(0.0, due - time.monotonic()))
"""


@contextmanager
def busy(home: HomePaths, *, changes: int = 5, lines: int = 20, rest_s: float = 0.1) -> Iterator[None]:
    """Fifty runs get a step and a point each second, a log 200 lines, as if hosts spoke; in a process of its own."""
    argv = [
        sys.executable,
        "-c",
        WRITER,
        str(home.store),
        str(log_of(home, BUSY)),
        str(changes),
        str(lines),
        str(rest_s),
    ]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.kill()


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2f} ms"


# First paint -----------------------------------------------------------------------------------------------------------


def seconds_to_paint(argv: list[str], env: dict[str, str], awaited: bytes = b"") -> tuple[float, float]:
    """From the process's start until so many bytes are on a pseudo-terminal; and until these bytes are among them."""
    master, slave = pty.openpty()
    started = time.perf_counter()
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    seen, painted, found = b"", math.nan, math.nan
    while math.isnan(painted) or (awaited and math.isnan(found)):
        if not select.select([master], [], [], 20)[0]:
            break
        seen += os.read(master, 65_536)
        now = time.perf_counter() - started
        if math.isnan(painted) and len(seen) >= PAINTED_BYTES:
            painted = now
        if awaited and math.isnan(found) and awaited in seen:
            found = now
    process.kill()
    process.wait()
    os.close(master)
    return painted, found


def first_paint(_home: HomePaths, rounds: int) -> dict[str, str]:
    env = {**os.environ, **TERMINAL, "LINES": str(SIZE[1]), "COLUMNS": str(SIZE[0])}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # or what was edited last is compiled anew in each round, unlike Textual
    bare, ours, filled = [], [], []
    for number in range(rounds + 1):
        one, _ = seconds_to_paint([sys.executable, "-c", BARE], env)
        other, rows = seconds_to_paint([sys.executable, "-m", "armada", "dashboard", "--read-only"], env, b"sweep/lr-")
        if number:  # the first round warms the caches
            bare.append(one)
            ours.append(other)
            filled.append(rows)

    def against(times: list[float]) -> str:
        """Compare with the bare app of the same round: the machine is not equally busy in all of them."""
        ratio = statistics.median(mine / base for mine, base in zip(times, bare, strict=True))
        return f"{ms(statistics.median(times))}: {ratio:.2f} ×"

    return {
        "first paint, bare Textual": ms(statistics.median(bare)),
        "first paint, dashboard": against(ours),
        "first run on the screen": against(filled),
    }


def traffic(home: HomePaths, _rounds: int) -> dict[str, str]:
    """What a slow link between a person and the dashboard would have to carry."""
    env = {**os.environ, **TERMINAL, "LINES": str(SIZE[1]), "COLUMNS": str(SIZE[0])}
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "armada", "dashboard", "--read-only"]
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    count, began = 0, math.nan
    with busy(home):
        ending = time.monotonic() + 25
        while time.monotonic() < ending:
            if select.select([master], [], [], 1)[0]:
                count += len(os.read(master, 65_536))
            if math.isnan(began) and time.monotonic() > ending - 20:
                count, began = 0, time.monotonic()
        spent = time.monotonic() - began
    process.kill()
    process.wait()
    os.close(master)
    return {"written to the terminal meanwhile": f"{count / spent / 1000:.1f} kB/s"}


# Keys ------------------------------------------------------------------------------------------------------------------


class Frames:
    """The frames that are written, each with where the cursor was in it."""

    def __init__(self) -> None:
        self.written: list[tuple[float, object]] = []
        self._widget: Any = None
        self._cursor: Callable[[], object] = lambda: None

    def follow(self, widget: Any, cursor: Callable[[], object]) -> None:
        self._widget, self._cursor = widget, cursor

    def note(self) -> None:
        """A frame was written. It does not count while the widget has something that is not drawn."""
        if self._widget is not None and not self._widget._repaint_regions:
            self.written.append((time.perf_counter(), self._cursor()))


def timed(app_class: type[Any], frames: Frames, *given: Any, **more: Any) -> Any:
    """The app, noting each frame that is written."""

    class Timed(app_class):  # type: ignore[misc]  # a class that is only known when it runs
        def _display(self, screen: Any, renderable: Any) -> None:
            super()._display(screen, renderable)
            frames.note()

    return Timed(*given, **more)


async def key_times(
    app: Any, widget: Any, cursor: Callable[[], object], frames: Frames, keys: list[str]
) -> list[float]:
    """From each key to the first frame with the cursor at its new place; keys come at odd moments, as people's do."""
    chance, times = random.Random(3), []
    frames.follow(widget, cursor)
    for key in keys:
        await asyncio.sleep(0.02 + 0.05 * chance.random())
        before, count, started = cursor(), len(frames.written), time.perf_counter()
        app.simulate_key(key)
        drawn = None
        while drawn is None and time.perf_counter() - started < 2:
            await asyncio.sleep(0.0005)
            drawn = next((when for when, place in frames.written[count:] if place != before), None)
        if drawn is not None:  # else it stood at the edge
            times.append(drawn - started)
    return times


async def all_rows(app: Any, pilot: Any, home: HomePaths) -> None:
    with Database(home.store) as database:
        (count,) = database.connection.execute("SELECT count(*) FROM runs").fetchone()
    while len(app.snapshot.runs) < count:
        await pilot.pause(0.05)


def frame_time(widget: Any, change: Callable[[], object]) -> float:
    """The lines in sight, made after a change of one of them."""
    times = []
    for _ in range(50):
        change()
        started = time.perf_counter()
        for y in range(widget.size.height):
            widget.render_line(y)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def keys(home: HomePaths, _rounds: int) -> dict[str, str]:
    return asyncio.run(_keys(home))


async def _keys(home: HomePaths) -> dict[str, str]:
    import_textual()  # as `armada dashboard` does
    from armada.tui.app import Dashboard
    from armada.tui.widgets.run_table import RunTable

    frames = Frames()
    app = timed(Dashboard, frames, home, read_only=True)
    async with app.run_test(size=SIZE) as pilot:
        await all_rows(app, pilot, home)
        table = app.screen.query_one(RunTable)
        with busy(home):
            await pilot.pause(3)
            times = await key_times(app, table, lambda: table.cursor, frames, PRESSED)
            began, cpu = time.perf_counter(), time.process_time()
            await pilot.pause(10)
            share = (time.process_time() - cpu) / (time.perf_counter() - began)
        drawn = frame_time(table, lambda: table._cache.pop((table.cursor or "", "row"), None))
        return {
            "a key to its paint, median": ms(statistics.median(times)),
            "a key to its paint, p95": ms(quantile(times, 0.95)),
            "one row changed, drawn": ms(drawn),
            "CPU while 50 runs change every second": f"{100 * share:.1f} % of a core",
        }


def data_table(home: HomePaths, _rounds: int) -> dict[str, str]:
    return asyncio.run(_data_table(home))


async def _data_table(home: HomePaths) -> dict[str, str]:
    from textual.app import App, ComposeResult
    from textual.coordinate import Coordinate
    from textual.widgets import DataTable

    with Database(home.store) as database:
        (count,) = database.connection.execute("SELECT count(*) FROM runs").fetchone()
    frames = Frames()
    chance = random.Random(4)

    class Plain(App[None]):
        def compose(self) -> ComposeResult:
            yield DataTable(cursor_type="row")

        def change(self) -> None:
            """Five of fifty rows, three cells each, ten times a second, as the store changes for the dashboard."""
            table = self.query_one(DataTable)
            with self.batch_update():
                for row in chance.sample(range(50), 5):
                    for column in (4, 5, 11):
                        table.update_cell_at(Coordinate(row, column), f"{chance.random():.4f}")

    app = timed(Plain, frames)
    async with app.run_test(size=SIZE) as pilot:
        table = app.query_one(DataTable)
        table.add_columns(*"abcdefghijkl")
        table.add_rows([[f"cell {row} {column}" for column in range(12)] for row in range(count)])
        await pilot.pause()
        app.set_interval(0.1, app.change)
        await pilot.pause(1)
        times = await key_times(app, table, lambda: table.cursor_row, frames, PRESSED)
        number = iter(range(10_000))
        drawn = frame_time(table, lambda: table.update_cell_at(Coordinate(table.cursor_row, 3), f"new {next(number)}"))
        return {
            "the same in a DataTable, median": ms(statistics.median(times)),
            "the same in a DataTable, p95": ms(quantile(times, 0.95)),
            "one row changed, drawn by a DataTable": ms(drawn),
        }


# A day of it -----------------------------------------------------------------------------------------------------------


def idle(home: HomePaths, _rounds: int) -> dict[str, str]:
    return asyncio.run(_idle(home))


async def _idle(home: HomePaths) -> dict[str, str]:
    from armada.tui.app import Dashboard

    app = Dashboard(home, read_only=True)
    async with app.run_test(size=SIZE) as pilot:
        await all_rows(app, pilot, home)
        await pilot.pause(10)  # until then, screens are made ahead
        began, cpu = time.perf_counter(), time.process_time()
        await pilot.pause(60)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
        return {
            "CPU when nothing changes": f"{100 * share:.1f} % of a core",
            "memory after that": f"{resident_mb():.0f} MB",
        }


def hour(home: HomePaths, _rounds: int) -> dict[str, str]:
    """3,600 seconds of changes, each read and drawn, as fast as that goes."""
    return asyncio.run(_hour(home))


async def _hour(home: HomePaths) -> dict[str, str]:
    from armada.tui import watcher
    from armada.tui.app import Dashboard

    watcher.READ_EVERY_S = 0.0  # type: ignore[misc]  # time is replayed fast
    app = Dashboard(home, read_only=True)
    found: dict[str, str] = {}
    async with app.run_test(size=SIZE) as pilot:
        await all_rows(app, pilot, home)
        with busy(home, changes=50, lines=200, rest_s=0.0):
            first = app.snapshot.generation
            for share, name in ((0.25, "a quarter of an hour's"), (1.0, "an hour's")):
                while app.is_running and app.snapshot.generation - first < 3600 * share:
                    await pilot.pause(0.05)
                found[f"memory after {name} updates"] = f"{resident_mb():.0f} MB"
    return found


# Curves and logs -------------------------------------------------------------------------------------------------------


def chart(_home: HomePaths, _rounds: int) -> dict[str, str]:
    from armada.tui.curves import Curve
    from armada.tui.widgets.braille import Canvas, Window, draw

    chance = random.Random(2)
    curve = Curve((step, float(step), 2.0 + chance.random()) for step in range(500_000))
    times = []
    for _ in range(20):
        started = time.perf_counter()
        draw(Canvas(118, 34), curve.steps, curve.raw, Window(0, 500_000, 2.0, 3.0), 0)
        times.append(time.perf_counter() - started)
    return {"500,000 points drawn": f"{ms(statistics.median(times))} (118×34 cells)"}


def log(home: HomePaths, _rounds: int) -> dict[str, str]:
    from armada.tui.log_file import LogFile

    path = log_of(home, BUSY)
    times = []
    for _ in range(20):
        started = time.perf_counter()
        opened = LogFile(path)
        opened.forward(opened.tail(SIZE[1]), SIZE[1])
        times.append(time.perf_counter() - started)
    started = time.perf_counter()
    opened.find_back("nobody printed this", opened.size)
    looked = time.perf_counter() - started
    return {
        "2 GB log: its end drawn": ms(statistics.median(times)),
        "2 GB log: a word that is not in it looked for": f"{looked:.1f} s ({path.stat().st_size / 1e9:.1f} GB)",
    }


# From a host to the screen ---------------------------------------------------------------------------------------------

TRAINER = """
import json, os, time
path = os.path.join(os.environ["ARMADA_RUN_DIR"], "metrics.jsonl")
for step in range(1, 81):
    with open(path, "a") as file:
        line = {"kind": "train", "step": step, "time": time.time(), "attempt": 1, "loss": step / 1000}
        file.write(json.dumps(line) + "\\n")
    time.sleep(0.517)
"""


def host_line(_home: HomePaths, _rounds: int) -> dict[str, str]:
    from tests.fleet import machines
    from tests.fleet.conftest import Fleet

    if reason := machines.why_not():
        return {"metric line on a host to the screen, median": f"not measured: {reason}"}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ARMADA_HOME"] = folder
        os.environ.pop("ARMADA_NO_DAEMON", None)
        machine = Fleet().host("workstation")

        def armada(*words: str) -> None:
            subprocess.run([sys.executable, "-m", "armada", *words], check=True, stdout=subprocess.DEVNULL)

        armada("hosts", "add", "far", machine.target, "--identity", str(machines.IDENTITY), "--yes")
        experiment = Path(folder, "e.yaml")
        experiment.write_text(json.dumps({"name": "curve", "task": "command", "command": ["python3", "-c", TRAINER]}))
        armada("launch", "--host", "far", str(experiment))
        try:
            delays = asyncio.run(_delays(HomePaths.from_environment()))
        finally:
            armada("daemon", "stop")
    return {
        "metric line on a host to the screen, median": f"{statistics.median(delays):.2f} s of {len(delays)}",
        "metric line on a host to the screen, worst": f"{max(delays):.2f} s",
    }


async def _delays(home: HomePaths) -> list[float]:
    """From the time in a line to the frame that has its loss in the table."""
    from armada.tui.app import Dashboard
    from armada.tui.widgets.run_table import RunTable

    shown: dict[int, float] = {}

    class Watched(Dashboard):
        def _display(self, screen: Any, renderable: Any) -> None:
            super()._display(screen, renderable)
            if tables := list(self.screen.query(RunTable)):
                for (_, kind), (_, strip) in tables[0]._cache.items():
                    if kind == "row" and (found := re.search(r"\b0\.0(\d+)", strip.text)):
                        shown.setdefault(int(found[1].ljust(2, "0")), time.time())

    app = Watched(home, watch=False)
    async with app.run_test(size=SIZE) as pilot:
        ending = time.monotonic() + 120
        while time.monotonic() < ending and not any(row.run.ended for row in app.snapshot.runs):
            await pilot.pause(0.05)
    with Database(home.store) as database:
        written = dict(database.connection.execute("SELECT step, time FROM points"))
    # Where several lines came in one look the table shows the newest; the others are there with it, as points of the curve.
    last = max(shown)
    return [
        min(when for step, when in shown.items() if step >= each) - written[each]
        for each in sorted(written)
        if 5 < each <= last
    ]
