"""A run that succeeded although its loss became NaN or infinite is not shown as one that is simply done."""

from __future__ import annotations

import math
import time

import pytest
from textual.pilot import Pilot

from armada.filters.trouble import Copies, trouble
from armada.store import labels, runs
from armada.tui import remembered
from armada.tui.curves import NAN
from armada.tui.reading import RunReader, read_first
from tests.tui.conftest import World, drive, lacks, shows

DAY_S = 86_400.0
RUN = "demo-aaaaaa"


def ended(world: World, run_id: str = RUN, *, ago_s: float = 60.0, newest: float = NAN) -> str:
    world.run(run_id, state="succeeded", step=30, total_steps=30, ended_at=time.time() - ago_s)
    world.losses(run_id, [2.0] * 9 + [newest] * 3)
    return run_id


def line_of(seen: str, run_id: str = RUN) -> str:
    return next(line for line in seen.splitlines() if run_id in line)


@pytest.mark.parametrize(("locale", "sign"), [("C.UTF-8", "▲"), ("C", "!")])
@pytest.mark.parametrize(("newest", "word"), [(NAN, "NaN"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_it_needs_you_and_says_so_in_its_row(
    world: World, monkeypatch: pytest.MonkeyPatch, newest: float, word: str, locale: str, sign: str
) -> None:
    monkeypatch.setenv("LANG", locale)
    ended(world, newest=newest)
    world.run("good-bbbbbb", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, f"it succeeded, but its loss is {word}", "l log", "R relaunch", "1 needs you")
        assert f"{sign} {RUN}" in line_of(seen)
        assert f" {word} " in line_of(seen)
        assert "done" not in line_of(seen)
        assert "done" in line_of(seen, "good-bbbbbb")
        await pilot.press("enter")
        await shows(pilot, "needs you", f"it succeeded, but its loss is {word}")

    drive(world.board(), use)


def test_after_a_day_it_is_history_and_still_not_done(world: World) -> None:
    ended(world, ago_s=2 * DAY_S)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, RUN, "NaN")
        assert f"✗ {RUN}" in line_of(seen)
        assert "done" not in line_of(seen)
        assert "needs you" not in seen
        await lacks(pilot, "it succeeded, but")

    drive(world.board(), use)


def test_columns_of_your_choice_have_the_sign_too(world: World) -> None:
    ended(world)
    remembered.keep_columns(world.home, ["name", "loss"])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "it succeeded, but its loss is NaN")
        assert f"▲ {RUN}" in line_of(seen)

    drive(world.board(), use)


def test_what_happened_does_not_call_it_a_success_alone(world: World) -> None:
    ended(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "What happened", f"{RUN} succeeded, but its loss is NaN")

    drive(world.board(), use, (140, 50))


def test_archiving_it_says_that_it_was_seen_and_a_failing_sync_comes_first(world: World) -> None:
    run = runs.find(world.database, ended(world))
    assert trouble(run, Copies(), urgent=True) == ("no_number", "it succeeded, but its loss is NaN", "")
    assert trouble(run, Copies("disk full"), urgent=True) == ("sync", "sync fails: disk full", "")
    assert trouble(run, Copies(), urgent=False) is None
    labels.archive(world.database, RUN)
    assert trouble(runs.find(world.database, RUN), Copies(), urgent=True) is None


def test_it_becomes_history_though_nothing_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(world)
    reader = RunReader(world.database)
    assert reader.read({})[0].trouble is not None
    later = time.time() + DAY_S
    monkeypatch.setattr("armada.tui.reading.time.time", lambda: later)
    assert reader.due
    assert reader.read({})[0].trouble is None


def test_it_is_among_the_first_rows(world: World) -> None:
    ended(world, ago_s=7200)
    now = time.time()
    for number in range(5):
        world.run(f"new-{number}aaaa", state="succeeded", ended_at=now - number)
    found = read_first(world.database, last=2)
    assert found is not None
    assert {row.id for row in found.runs} == {RUN, "new-0aaaa", "new-1aaaa"}
