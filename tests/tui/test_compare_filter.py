"""The filter of metrics in Compare: the key and the words of the charts of a run."""

from __future__ import annotations

from textual.pilot import Pilot

from armada.tui.filtering import matching
from armada.tui.screens.compare import CompareScreen
from tests.tui.conftest import World, drive, lacks, screen, shows, until
from tests.tui.test_compare import compared

NAMES = ("loss", "eval_loss", "eval_accuracy", "grad_norm", "[red]x[/]")


def fill(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id)
        for name in NAMES:
            world.losses(run_id, [1.0, 0.5], name=name)


async def opened(pilot: Pilot[None]) -> CompareScreen:
    await shows(pilot, "one-aaaaaa", "two-bbbbbb")
    await pilot.press("a", "c")
    await shows(pilot, "eval_loss against step")
    view = pilot.app.screen
    assert isinstance(view, CompareScreen)
    await until(pilot, lambda: not view.reading and view.is_read)
    return view


def test_typing_goes_to_the_first_metric_that_matches_and_m_stays_among_them(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("slash", *"acc")
        await shows(pilot, "eval_accuracy against step", "1 of 6 metrics match acc", "best: highest eval_accuracy")
        await pilot.press(*["backspace"] * 3, *"eval", "enter")
        await shows(pilot, "2 of 6 metrics match eval")
        assert view.find.has_class("open") is False
        assert view.figures.has_focus
        await pilot.press("m")
        await until(pilot, lambda: view.choices.metric == "eval_loss")
        await pilot.press("m")
        await until(pilot, lambda: view.choices.metric == "eval_accuracy")
        await pilot.press("p")
        await shows(pilot, "settings and highest eval_accuracy", "2 of 6 metrics match eval")
        await pilot.press("escape")
        await lacks(pilot, "metrics match")
        assert pilot.app.screen is view, "the first escape takes the filter away"
        assert view.choices.metric == "eval_accuracy"
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is not view)

    drive(world.board(), use)


def test_a_filter_that_finds_nothing_says_so_and_escape_clears_it(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("slash", *"zz[red]")
        await shows(pilot, "no metric matches zz[red]", "/ changes the filter, esc clears it")
        await pilot.press("escape")
        await shows(pilot, "eval_loss against step")
        assert view.choices.wanted == ""
        await pilot.press("slash", *"^gr", "enter")
        await shows(pilot, "grad_norm against step", "best of grad_norm: not known")
        await pilot.press("m")
        assert view.choices.metric == "grad_norm"

    drive(world.board(), use)


def test_on_settings_the_key_searches_and_on_samples_it_opens_the_curves(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: view.table.has_focus)
        await pilot.press("slash")
        await shows(pilot, "Search")
        await pilot.press("escape", "a")
        await until(pilot, lambda: view.shown == "samples")
        await pilot.press("slash")
        await until(pilot, lambda: view.shown == "curves")
        assert not view.find.has_class("open")
        assert "letters of the metrics" not in screen(pilot)

    drive(world.board(), use)


def test_the_filter_stays_for_the_next_comparison(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press("slash", *"grad", "enter")
        await shows(pilot, "grad_norm against step")
        await pilot.press("1", "escape", "space", "c")
        await shows(pilot, "1 run ", "grad_norm against step", "1 of 6 metrics match grad")

    drive(world.board(), use)


def test_names_with_the_words_come_before_names_with_their_letters() -> None:
    assert matching(["laws", "eval_loss", "loss"], "ls") == ["laws", "eval_loss", "loss"]
    assert matching(["l_o_s_s", "loss"], "loss") == ["loss", "l_o_s_s"]
    assert matching(["eval_loss", "loss"], "^loss$") == ["loss"]
    assert matching(["a", "b"], "") == ["a", "b"]


def test_the_keys_of_lists_move_through_the_compared_runs(world: World) -> None:
    for number in range(6):
        world.run(f"run-{number:06}", step=1, total_steps=2)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "6 of 6 runs")
        await pilot.press("a", "c")
        await shows(pilot, "Runs · best")
        figures = compared(pilot).figures
        await until(pilot, lambda: figures.has_focus and len(figures.entries) == 6)
        ids = [entry.key for entry in figures.entries]
        places = []
        for key in ("down", "j", "up", "k", "G", "g", "end", "home", "pagedown", "pageup"):
            await pilot.press(key)
            places.append(ids.index(figures.cursor or ""))
        assert places[:8] == [1, 2, 1, 0, 5, 0, 5, 0]
        assert places[8] > 0 == places[9]

    drive(world.board(), use)
