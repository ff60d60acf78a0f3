"""The cursor is drawn at once; what stands beside the table follows when it rests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from textual.pilot import Pilot

from armada.tui.curves import CurveUpdate
from armada.tui.frame_rate import FRAMES_PER_S, SETTING
from armada.tui.screens.runs import RunsScreen
from armada.tui.snapshot import RunRow
from armada.tui.widgets import field
from armada.tui.widgets.field import Field
from armada.tui.widgets.run_cells import lately
from tests.tui.conftest import World, drive, shows, until


@pytest.mark.parametrize(
    ("age_s", "said"),
    [(-3, "now"), (0, "now"), (9.9, "now"), (10, "10 s ago"), (19, "10 s ago"), (59.9, "50 s ago"), (60, "1 m ago")],
)
def test_an_age_counts_in_steps_of_ten_seconds(age_s: float, said: str) -> None:
    assert lately(age_s) == said


def test_the_preview_shows_the_run_on_which_the_cursor_came_to_rest(world: World) -> None:
    for number in range(9):
        world.run(f"run{number}-{chr(97 + number) * 6}", state="succeeded")
        world.losses(f"run{number}-{chr(97 + number) * 6}", [3.0, 2.0, float(number)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "run0-aaaaaa", "run8-iiiiii")
        board = pilot.app.screen
        assert isinstance(board, RunsScreen)
        drawn: list[str | None] = []
        take = board.preview.take

        def taken(row: RunRow | None, updates: Sequence[CurveUpdate]) -> None:
            drawn.append(row.id if row else None)
            take(row, updates)

        board.preview.take = taken  # type: ignore[method-assign]
        for _ in range(8):
            board.table.action_move(1)
        last = board.cursor_run
        assert last is not None
        assert board.table.cursor == last
        assert drawn == []
        await until(pilot, lambda: board.preview.chart.title.startswith(board.snapshot.by_id[last].name))
        assert set(drawn) == {last}
        await shows(pilot, f"{board.snapshot.by_id[last].name} · loss", "lowest ")

    drive(world.board(), use)


@pytest.mark.parametrize(("given", "used"), [(None, FRAMES_PER_S), ("30", 30)])
def test_textual_draws_at_our_rate_unless_the_user_says_another_and_no_child_sees_it(
    given: str | None, used: int
) -> None:
    program = (
        "import os; from armada.tui.frame_rate import import_textual; import_textual(); from textual import screen; "
        f"print(round(1 / screen.UPDATE_PERIOD), os.environ.get({SETTING!r}))"
    )
    env = {name: value for name, value in os.environ.items() if name != SETTING}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, **({SETTING: given} if given else {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(used), str(given)]


def test_the_cursor_of_a_field_in_which_nobody_types_soon_stands_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await until(pilot, lambda: isinstance(pilot.app.screen.focused, Field))
        found = pilot.app.screen.focused
        assert isinstance(found, Field)
        timer = found._blink_timer  # noqa: SLF001  # Textual's
        assert timer is not None
        await until(pilot, timer._active.is_set)  # noqa: SLF001
        with monkeypatch.context() as patch:
            patch.setattr(field, "BLINKS", 1)
            await until(pilot, lambda: not timer._active.is_set())  # noqa: SLF001
            assert found._cursor_visible  # noqa: SLF001
        await pilot.press("a")
        await until(pilot, timer._active.is_set)  # noqa: SLF001

    drive(world.board(), use)
