"""What benchmarks/tui measures of screens and charts: a switch from one to another, and a long curve zoomed and panned."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, Any

from armada.paths import HomePaths
from armada.store.database import Database
from benchmarks.tui_parts import SIZE, Frames, all_rows, key_times, ms, quantile, timed

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from armada.tui.app import Dashboard

PLACES = ("run", "hosts", "sync", "launch", "compare", "runs")
READS_S = 5.0
"""A person looks at the first screen for so many seconds before another is opened."""
MANY_POINTS = 1_000_000
LOOKS = ["plus"] * 6 + ["left"] * 12 + ["right"] * 12 + ["minus"] * 6


def switch(home: HomePaths, rounds: int) -> dict[str, str]:
    """Processor time from the act that opens a screen until nothing is left to draw, of all threads."""
    return asyncio.run(_switch(home, rounds))


async def _switch(home: HomePaths, rounds: int) -> dict[str, str]:
    from armada.tui.app import Dashboard
    from armada.tui.screens.view import View

    app = Dashboard(home, read_only=True)
    spent: dict[str, list[float]] = {place: [] for place in PLACES}
    async with app.run_test(size=SIZE) as pilot:
        await all_rows(app, pilot, home)
        for number in range(rounds + 1):
            for place in PLACES:
                await pilot.pause(0.5)
                began = time.process_time()
                app.action_go(place)
                while not (isinstance(app.screen, View) and place == app.screen.PLACE):
                    await pilot.pause()
                await pilot.pause(0.2)
                if number:  # the first time imports what the screen needs
                    spent[place].append(time.process_time() - began)
        medians = {place: statistics.median(times) for place, times in spent.items()}
        worst = max(medians, key=lambda place: medians[place])
        said = ", ".join(f"{place} {ms(median)}" for place, median in medians.items())
        others = await _open_others(app, pilot, rounds)
        return {
            "a switch back to a screen, slowest": f"{ms(medians[worst])} of CPU ({said})",
            "another run opened": f"{ms(statistics.median(others))} of CPU",
        }


async def _open_others(app: Dashboard, pilot: Pilot[Any], rounds: int) -> list[float]:
    """Processor time of opening a run that was not open before."""
    from armada.tui.screens.run import RunScreen

    spent = []
    for number in range(rounds):
        app.action_go("runs")
        await pilot.pause(0.5)
        run_id = f"run-{20 + number:06}"
        began = time.process_time()
        app.open_run(run_id)
        while not (isinstance(app.screen, RunScreen) and app.screen.run_id == run_id):
            await pilot.pause()
        await pilot.pause(0.2)
        spent.append(time.process_time() - began)
    return spent


def open_one(place: str, home: HomePaths, _rounds: int) -> dict[str, str]:
    """Processor time of the first opening of a screen in this process, of all threads, in seconds, by its place."""
    return {place: str(asyncio.run(_open_one(place, home)))}


async def _open_one(place: str, home: HomePaths) -> float:
    from armada.tui.app import Dashboard
    from armada.tui.screens.view import View

    app = Dashboard(home, read_only=True)
    async with app.run_test(size=SIZE) as pilot:
        await all_rows(app, pilot, home)
        await pilot.pause(READS_S)
        began = time.process_time()
        if place == "run":
            app.open_run("run-000020")
        else:
            app.action_go(place)
        while not (isinstance(app.screen, View) and place == app.screen.PLACE):
            await pilot.pause()
        await pilot.pause(0.2)
        return time.process_time() - began


def zoom(home: HomePaths, _rounds: int) -> dict[str, str]:
    """A chart of 10^6 points, zoomed and panned by keys."""
    return asyncio.run(_zoom(home))


async def _zoom(home: HomePaths) -> dict[str, str]:
    from armada.tui.app import Dashboard
    from armada.tui.screens.run import RunScreen
    from armada.tui.widgets.chart import Chart
    from benchmarks.tui_store import POINTS

    run_id = "run-000010"
    with Database(home.store) as database, database.transaction() as connection:
        (series,) = connection.execute("SELECT id FROM series WHERE run_id = ?", (run_id,)).fetchone()
        connection.execute("DELETE FROM points WHERE series = ?", (series,))
        connection.execute(POINTS, (MANY_POINTS, series))
    frames = Frames()
    app = timed(Dashboard, frames, home, read_only=True)
    async with app.run_test(size=SIZE) as pilot:
        await all_rows(app, pilot, home)
        app.open_run(run_id, "charts")
        while not (isinstance(app.screen, RunScreen) and app.screen.is_mounted):
            await pilot.pause(0.05)
        wall = app.screen.wall
        while len(wall.curves.get("loss", ())) < MANY_POINTS:
            await pilot.pause(0.05)
        chart = wall.query(Chart).first()
        times = await key_times(app, chart, lambda: chart.chosen, frames, LOOKS)
        return {
            "10^6 points, a key to the frame, median": f"{ms(statistics.median(times))} ({len(times)} keys)",
            "10^6 points, a key to the frame, p95": ms(quantile(times, 0.95)),
        }
