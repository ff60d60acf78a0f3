"""The window with the columns of Runs: all that there are, taken and moved by keys; a wrong name is not lost."""

from __future__ import annotations

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from armada.filters.cells import MOST_COLUMNS
from armada.filters.keys import RUN_KEYS, Vocabulary
from armada.filters.meanings import MEANINGS
from armada.store import labels
from armada.tui import remembered
from armada.tui.column_choice import USUAL, ColumnChoice
from armada.tui.screens.columns import ColumnsWindow
from armada.tui.screens.runs import RunsScreen
from armada.tui.widgets.run_columns import left_out
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until

WORDS = Vocabulary(
    frozenset({"train.learning_rate", "train.seed", "name", "data.path", "eval.path"}),
    frozenset({"loss", "eval_loss", "learning_rate", "min(x)", "größe [b]"}),
)


def one(world: World) -> None:
    spec = {"experiment": {"train": {"learning_rate": 1e-5, "seed": 7}}}
    world.run("a-aaaaaa", name="ant", spec=spec)
    world.losses("a-aaaaaa", [0.5, 0.25], name="grad/norm")


async def opened(pilot: Pilot[None]) -> ColumnsWindow:
    """Open the window, and wait for what runs have."""
    await shows(pilot, "1 of 1 run")
    await pilot.press("C")
    await until(pilot, lambda: isinstance(pilot.app.screen, ColumnsWindow))
    window = pilot.app.screen
    assert isinstance(window, ColumnsWindow)
    await until(pilot, lambda: "train.seed" in window.choice.words.settings)
    return window


async def closed(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))


def taken(window: ColumnsWindow) -> list[str]:
    return [offer.name for offer in window.choice.taken]


def test_columns_are_taken_left_and_moved_by_keys(world: World) -> None:
    one(world)

    async def use(pilot: Pilot[None]) -> None:
        window = await opened(pilot)
        await shows(pilot, "the usual columns", "its id", "space takes", "enter keeps", "esc cancels")
        await pilot.press("down", "down", "up", "space")  # the second one
        assert taken(window) == ["name", *USUAL[2:]]
        await pilot.press(*"seed")
        await shows(pilot, "train.seed", "a setting of the experiment")
        await lacks(pilot, "its id")
        await pilot.press("space", "less_than_sign", "shift+up")
        assert taken(window) == ["name", *USUAL[2:8], "train.seed", *USUAL[8:]]
        await pilot.press("greater_than_sign", "shift+down")
        assert taken(window)[-1] == "train.seed"
        await pilot.press(*["less_than_sign"] * 30)
        assert taken(window)[:2] == ["train.seed", "name"]
        await pilot.press(*["backspace"] * 4, *"norm", "space", *["backspace"] * 4, "pagedown", "pageup", "home")
        assert taken(window)[-1] == "grad/norm"
        await shows(pilot, "11 columns")
        await pilot.press("enter")
        await closed(pilot)
        await shows(pilot, "SEED", "GRAD/NORM")
        await pilot.press("U")
        await shows(pilot, "PROGRESS")
        assert "columns as before: the usual ones" in said(pilot)

    drive(world.board(), use, (180, 40))


def test_escape_leaves_everything_as_it_was(world: World) -> None:
    one(world)
    remembered.keep_columns(world.home, ["name", "lr", "gone"])

    async def use(pilot: Pilot[None]) -> None:
        window = await opened(pilot)
        await shows(pilot, "no run has it now", "3 columns")
        assert taken(window) == ["name", "train.learning_rate", "gone"]
        await pilot.press("space", *"tag", "space", "escape")
        await closed(pilot)
        await shows(pilot, "LEARNING_RATE")
        window = await opened(pilot)
        assert taken(window) == ["name", "train.learning_rate", "gone"]
        await pilot.press("enter")  # as it was: that is nothing to undo
        await closed(pilot)
        await pilot.press("U")
        await until(pilot, lambda: "there is nothing to undo" in said(pilot))

    drive(world.board(), use)
    assert remembered.columns(world.home) == ["name", "lr", "gone"]


def test_a_wrong_name_stays_and_says_what_may_be_meant(world: World) -> None:
    one(world)

    async def use(pilot: Pilot[None]) -> None:
        window = await opened(pilot)
        await pilot.press(*"seexd", "enter")
        await shows(pilot, "no column matches", "no run has a key called `seexd`", "did you mean")
        assert window.query_one(Input).value == "seexd"
        await pilot.press("backspace", "backspace", "d", "enter")
        await closed(pilot)
        await until(pilot, lambda: remembered.columns(world.home) == [*USUAL, "train.seed"])

    drive(world.board(), use)


def test_enter_takes_the_first_that_was_typed_and_a_text_with_commas_exactly_its_columns(world: World) -> None:
    one(world)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press(*"lr", "enter")
        await until(pilot, lambda: remembered.columns(world.home) == [*USUAL, "train.learning_rate"])
        await closed(pilot)
        window = await opened(pilot)
        await pilot.press(*"name,see")
        await until(pilot, lambda: window.table.cursor == "run:seen")  # what follows the comma narrows the list down
        await pilot.press(*"d,min", "left_parenthesis", *"grad/norm", "right_parenthesis", "enter")
        await until(pilot, lambda: remembered.columns(world.home) == ["name", "seed", "min(grad/norm)"])
        await closed(pilot)
        await opened(pilot)
        await pilot.press(*"default", "enter")
        await until(pilot, lambda: remembered.columns(world.home) == [])

    drive(world.board(), use)


def test_keys_that_come_at_once_act_in_their_order(world: World) -> None:
    one(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "1 of 1 run")
        for key in ("C", "t", "a", "g", "space", *["backspace"] * 3, "l", "r", "enter"):
            pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: remembered.columns(world.home))
        assert remembered.columns(world.home) == [*USUAL, "tag", "train.learning_rate"]

    drive(world.board(), use)


@pytest.mark.parametrize("columns", [[], [*USUAL, "lr"], ["lr", "loss", "progress", "name"]])
def test_what_the_usual_table_has_looks_the_same_beside_a_chosen_column(world: World, columns: list[str]) -> None:
    one(world)
    world.losses("a-aaaaaa", [4.0, 3.0, 2.0, 1.0])
    world.run("b-bbbbbb", name="bee", step=50, total_steps=100)
    labels.change_tags(world.database, "b-bbbbbb", add=["mine"])
    remembered.keep_columns(world.home, columns)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "LEARNING_RATE" if columns else "SEEN", "50%", "█")
        ant, bee = (next(line for line in seen.splitlines() if name in line) for name in ("ant", "bee"))
        assert "█▆▃▁" in ant
        for words in ("bee bbbbbb #mine", "━━━", " 50%"):
            assert words in bee
        assert ("1e-05" in ant) == bool(columns)

    drive(world.board(), use, (180, 30))


def test_a_chosen_column_of_the_usual_ones_yields_its_room_to_others() -> None:
    keys = [RUN_KEYS[name] for name in (*USUAL, "note", "reason")]
    assert [key.name for key in left_out(keys, 400)] == []
    assert [key.name for key in left_out(keys, 100)] == ["gpus", "speed", "checkpoints", "cost"]
    assert [key.name for key in left_out(keys, 40)] == [*USUAL[1:], "reason"]
    assert [key.name for key in left_out(keys, 20)] == [*USUAL[1:], "note", "reason"]


def test_a_click_on_a_title_sorts_by_its_column_where_another_has_the_same(world: World) -> None:
    for run_id, model, data in (("one-aaaaaa", "a", "z"), ("two-bbbbbb", "b", "y"), ("six-cccccc", "c", "x")):
        settings = {"model": {"name": model}, "data": {"name": data}}
        world.run(run_id, spec={"job": {"argv": ["true"]}, "experiment": settings})
    remembered.keep_columns(world.home, ["id", "model.name", "data.name"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        view = pilot.app.screen_stack[0]
        assert isinstance(view, RunsScreen)
        title = next(line for line in (await shows(pilot, "NAME")).splitlines() if "NAME" in line)
        first = title.index("NAME")
        y = view.table.content_region.y
        for x, name in ((first, "model.name"), (title.index("NAME", first + 1), "data.name")):
            await pilot.click(offset=(x, y))
            await until(pilot, lambda name=name: view.arrangement.sort == name)  # type: ignore[misc]

    drive(world.board(), use, (140, 40))


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (20, 6), (1, 1)])
def test_a_small_terminal_says_how_many_fit(world: World, size: tuple[int, int]) -> None:
    one(world)
    remembered.keep_columns(world.home, [*USUAL, "lr"])

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("C")
        await until(pilot, lambda: isinstance(pilot.app.screen, ColumnsWindow))
        if size == (80, 24):
            await shows(
                pilot, "11 columns; no room in this table for host, gpus, speed, eta,", "checkpoints and 1 more"
            )
        await pilot.press("down", "space", "less_than_sign", "enter")
        await closed(pilot)

    drive(world.board(), use, size)


def test_a_terminal_without_utf8_has_the_window(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C")
    one(world)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, "the usual columns")
        assert screen(pilot).isascii()

    drive(world.board(), use)


def test_every_key_of_a_run_says_what_it_shows() -> None:
    assert set(MEANINGS) == set(RUN_KEYS)


def test_what_is_offered_means_what_it_says() -> None:
    choice = ColumnChoice([], WORDS)
    offers = {offer.name: offer for offer in choice.find("")}
    assert [offer.name for offer in choice.find("")][: len(USUAL)] == list(USUAL)
    assert offers["learning_rate"].word == "last(learning_rate)"  # the plain word is the setting
    assert offers["eval_loss"].word == "eval_loss"
    assert offers["name"].about == MEANINGS["name"]  # of the setting `name` too
    for offer in offers.values():
        assert choice.take(offer) or len(choice.taken) == MOST_COLUMNS
    assert len(choice.taken) == MOST_COLUMNS
    assert {key.name for key in choice.keys} <= set(offers)


def test_what_is_left_out_stays_in_sight_and_comes_back_where_it_was() -> None:
    choice = ColumnChoice(["name", "lr", "loss", "name"], WORDS)
    name, rate, loss = choice.taken
    choice.leave(rate)
    assert choice.result == ["name", "loss"]
    assert choice.find("")[:3] == [name, rate, loss]
    choice.shift(loss, -1)
    assert choice.result == ["loss", "name"]
    assert choice.take(rate)
    assert choice.result == ["loss", "lr", "name"]
    choice.shift(loss, -1)  # it is the first one
    choice.shift(choice.find("tag")[0], 1)  # it is not taken
    assert choice.result == ["loss", "lr", "name"]


def test_a_text_finds_by_alias_by_the_last_part_by_letters_and_by_what_is_shown() -> None:
    choice = ColumnChoice([], WORDS)

    def first(typed: str) -> str:
        return choice.find(typed)[0].name

    assert first("lr") == "train.learning_rate"
    assert first("tok/s") == "speed"
    assert first("seed") == "train.seed"
    assert first("evlss") == "eval_loss"
    assert first("tokens") == "speed"
    assert first("max(eval_loss)") == "max(eval_loss)"
    assert [offer.name for offer in choice.find("path")[:2]] == ["data.path", "eval.path"]
    assert choice.find("nosuch,") == choice.find("")
    assert choice.find("qqqq") == []


VALUES = {"a-aaaaaa": (-0.032149, "-0.0321"), "b-bbbbbb": (0.0086125, "0.00861"), "c-cccccc": (-0.000123456, "-1.2e-4")}


def test_numbers_are_written_so_that_they_fit_and_not_cut(world: World) -> None:
    for run_id, (value, _) in VALUES.items():
        world.run(run_id)
        world.losses(run_id, [value])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, *(f" {words} " for _, words in VALUES.values()))
        assert not any(f"{value:.3g}"[:5] + "…" in seen for value, _ in VALUES.values())

    drive(world.board(), use, (120, 36))


def test_numbers_of_chosen_columns_fit_too(world: World) -> None:
    world.run("a-aaaaaa")
    world.losses("a-aaaaaa", [-0.000123456], name="reward")
    remembered.keep_columns(world.home, ["name", "min(reward)"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "MIN(REWARD)", " -0.0001235")

    drive(world.board(), use)
    remembered.keep_columns(world.home, ["name", "reward"])

    async def narrow(pilot: Pilot[None]) -> None:
        await shows(pilot, "REWARD", " -1.23e-4")

    drive(world.board(), narrow)
