"""The page Samples of a run: prompts to choose from, and the answers to one of them over the steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.store import run_sync, runs
from armada.tui.samples import why_none
from armada.tui.screens.run import RunScreen
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, screen, shows, until

ASKS = {"job": {"argv": ["true"]}, "experiment": {"evaluation": {"samples": 2}}}


def write(world: World, run_id: str, rows: list[dict[str, Any]]) -> None:
    folder = world.home.run(run_id) / "outputs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "samples.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def rows(*steps: int, **more: str) -> list[dict[str, Any]]:
    prompts = {"2+2?": "4", "[b]capital\x1b[2J of France?": ""}
    return [
        {"step": step, "prompt": prompt, "expected": expected, "generated": f"answer {number} after {step}", **more}
        for step in steps
        for number, (prompt, expected) in enumerate(prompts.items(), 1)
    ]


async def opened(pilot: Pilot[None]) -> RunScreen:
    await shows(pilot, "one-aaaaaa")
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen) and pilot.app.screen.detail is not None)
    await pilot.press("a")
    view = pilot.app.screen
    assert isinstance(view, RunScreen)
    return view


def test_answers_stand_side_by_side_over_the_steps_and_keys_move_among_them(world: World) -> None:
    world.run("one-aaaaaa", spec=ASKS)
    write(world, "one-aaaaaa", rows(100, 200, 300, 1400))

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        seen = await shows(
            pilot, "Samples · 2 prompts", "prompt: 2+2?", "expected: 4", "step 1,400", "Answers · steps 200 to 1,400"
        )
        (line,) = [each for each in seen.splitlines() if "answer 1 after 1400" in each]
        assert line.index("after 200") < line.index("after 300") < line.index("after 1400"), "time goes to the right"
        assert "answer 1 after 100 " not in seen
        assert "4 of 4" in seen
        await pilot.press("left")
        await shows(pilot, "Answers · steps 100 to 300", "3 of 4")
        await pilot.press("left", "left", "left", "left")
        await shows(pilot, "Answers · step 100", "1 of 4")
        await pilot.press("right", "right", "right", "right", "right")
        await shows(pilot, "Answers · steps 200 to 1,400")
        await pilot.press("j")
        seen = await shows(pilot, "prompt: [b]capital�[2J of France?", "answer 2 after 1400")
        assert "\x1b" not in seen
        assert "expected" not in seen
        write(world, "one-aaaaaa", rows(100, 200, 300, 1400, 1500))
        world.losses("one-aaaaaa", [1.0])  # a sync comes with other news
        await shows(pilot, "answer 2 after 1500")
        assert view.samples.prompts.cursor == "1", "the prompt stays"

    drive(world.board(), use, (150, 40))


def test_the_chosen_step_stays_when_a_newer_one_comes_and_the_newest_follows(world: World) -> None:
    world.run("one-aaaaaa", spec=ASKS)
    write(world, "one-aaaaaa", rows(100, 200, 300))

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, "Answers · step 300", "3 of 3")
        await pilot.press("left")
        await shows(pilot, "Answers · step 200", "2 of 3")
        write(world, "one-aaaaaa", rows(100, 200, 300, 400))
        world.losses("one-aaaaaa", [2.0, 1.0])
        await shows(pilot, "Answers · step 200", "2 of 4")
        await pilot.press("right", "right", "right")
        await shows(pilot, "Answers · step 400", "4 of 4")
        write(world, "one-aaaaaa", rows(100, 200, 300, 400, 500))
        world.losses("one-aaaaaa", [0.5])
        await shows(pilot, "Answers · step 500", "5 of 5")

    drive(world.board(), use, (60, 40))


def test_a_long_answer_scrolls_and_escape_goes_back_to_the_prompts(world: World) -> None:
    world.run("one-aaaaaa", spec=ASKS)
    long = "\n".join(f"line {number} [red]\x1b[31m" for number in range(80))
    write(world, "one-aaaaaa", rows(100, generated=long))

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        seen = await shows(pilot, "line 3 [red]�[31m")
        assert "\x1b" not in seen
        assert "line 79" not in seen
        await pilot.press("enter")
        await until(pilot, lambda: view.samples.answers.has_focus)
        await pilot.press("end")
        await shows(pilot, "line 79 [red]")
        await pilot.press("slash", *"line", "space", *"12", "enter")
        await shows(pilot, "line 12 [red]")
        await pilot.press("escape")
        await until(pilot, lambda: view.samples.prompts.has_focus)
        assert pilot.app.screen is view

    drive(world.board(), use, (80, 24))


def test_a_narrow_screen_shows_one_step_at_a_time(world: World) -> None:
    world.run("one-aaaaaa", spec=ASKS)
    write(world, "one-aaaaaa", rows(100, 200))

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, "Answers · step 200", "answer 1 after 200")
        assert "after 100" not in screen(pilot)
        await pilot.press("left")
        await shows(pilot, "answer 1 after 100")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize(
    ("samples", "state", "is_home", "said"),
    [
        (2, "running", False, "No samples of this run are at home yet."),
        (2, "succeeded", False, "No samples of this run are at home yet."),
        (2, "succeeded", True, "This run ended and wrote no samples."),
        (0, "running", False, "This run writes no samples: its experiment asks for none."),
    ],
)
def test_a_run_without_samples_says_why(world: World, samples: int, state: str, is_home: bool, said: str) -> None:
    world.run("one-aaaaaa", state=state, spec={**ASKS, "experiment": {"evaluation": {"samples": samples}}})
    if is_home:
        last = runs.find(world.database, "one-aaaaaa").submission
        assert run_sync.succeeded(world.database, "one-aaaaaa", began=1.0, next_due_at=None, final_of=last)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, said, "no samples")
        await pilot.press("enter", "left", "right")
        await shows(pilot, said)

    drive(world.board(), use)


@pytest.mark.parametrize("spec", [{}, {"experiment": 3}, {"experiment": {"evaluation": {"samples": "x"}}}])
def test_a_plan_that_says_nothing_asks_for_no_samples(spec: dict[str, Any]) -> None:
    assert "asks for none" in why_none(spec, all_home=False)


def test_the_reason_follows_when_the_run_ends(world: World) -> None:
    world.run("one-aaaaaa", spec=ASKS)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, "No samples of this run are at home yet.")
        run = runs.find(world.database, "one-aaaaaa")
        runs.record(
            world.database, "one-aaaaaa", Verdict("succeeded", None, None, 1, 2, "evidence"), ended_at=run.created_at
        )
        run_sync.succeeded(world.database, "one-aaaaaa", began=1.0, next_due_at=None, final_of=run.submission)
        await shows(pilot, "This run ended and wrote no samples.")

    drive(world.board(), use)


def test_another_run_begins_with_its_own_samples(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, spec=ASKS)
    write(world, "one-aaaaaa", rows(100, 200))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("slash", *"one", "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen) and pilot.app.screen.detail is not None)
        await pilot.press("a")
        await shows(pilot, "answer 1 after 200")
        await pilot.press("1", "escape")
        await shows(pilot, "2 of 2 runs")
        await pilot.press("slash", *"two", "enter", "enter")
        await until(pilot, lambda: getattr(pilot.app.screen, "run_id", "") == "two-bbbbbb")
        await pilot.press("a")
        await shows(pilot, "No samples of this run are at home yet.")
        await lacks(pilot, "answer 1 after 200")

    drive(world.board(), use)
