"""A view keeps filter, columns, order and groups under a name, for the dashboard and for `armada ps --view`."""

from __future__ import annotations

import json

import pytest
from textual.pilot import Pilot

from armada.__main__ import main
from armada.errors import NotFound, UsageError
from armada.store import labels
from armada.tui import views
from armada.tui.screens.runs import RunsScreen
from armada.tui.screens.saved_views import ViewChooser
from armada.tui.views import SavedView
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until
from tests.tui.test_runs_screen import rows


@pytest.fixture
def two(world: World) -> World:
    world.run("one-aaaaaa", host="a100-1")
    world.run("two-bbbbbb", host="b200")
    labels.change_tags(world.database, "one-aaaaaa", add=["arc"])
    return world


def first(pilot: Pilot[None]) -> RunsScreen:
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunsScreen)
    return found


def test_a_view_is_saved_chosen_and_deleted(two: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("slash", *"tag:arc", "enter", "s", "S", "b")
        await shows(pilot, "1 of 2 runs", "grouped by host")
        await pilot.press("V")
        await shows(pilot, "Save this view as", "tag:arc · by name reversed · grouped by host")
        await pilot.press(*"my arc", "enter")
        await shows(pilot, "Runs  my arc  / tag:arc")
        await pilot.press("s")
        await lacks(pilot, "my arc  / tag:arc")  # the table shows something else now
        await pilot.press("v")
        await shows(pilot, "^d deletes it", "everything")
        await pilot.press(*"every", "enter")
        await shows(pilot, "2 of 2 runs", "by urgency")
        assert len(rows(pilot)) == 2
        await pilot.press("v", "enter")
        await shows(pilot, "Runs  my arc  / tag:arc", "1 of 2 runs")
        assert first(pilot).arrangement.reverse
        await pilot.press("v")
        await until(pilot, lambda: isinstance(pilot.app.screen, ViewChooser))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: views.load(two.home) == {})
        await lacks(pilot, "by name reversed · grouped")
        await pilot.press("ctrl+d")  # `everything` stays
        await pilot.press("escape")
        await shows(pilot, "1 of 2 runs")

    drive(two.board(), use)


def test_what_a_view_shows_is_shown_after_a_restart(world: World) -> None:
    for rate, run_id in enumerate(("one-aaaaaa", "two-bbbbbb"), 1):
        world.run(run_id, spec={"job": {"argv": ["true"]}, "experiment": {"train": {"warmup": rate}}})
    view = SavedView("host:box", ("name", "train.warmup"), "train.warmup", reverse=True, group="train.warmup")
    views.save(world.home, "mine", view)
    usual = SavedView()

    async def choose(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("v", *"mine", "enter")
        await shows(pilot, "Runs  mine", "WARMUP", "grouped by train.warmup")

    async def again(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs", "WARMUP", "by train.warmup reversed", "grouped by train.warmup")
        assert first(pilot).present_view == view
        await pilot.press("v", *"every", "enter")
        await lacks(pilot, "WARMUP")

    async def at_last(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        assert first(pilot).present_view == usual

    for use in (choose, again, at_last):
        drive(world.board(), use)
    drive(world.board(read_only=True), choose)
    drive(world.board(), at_last)


def test_undo_says_as_before_only_where_it_is(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def saved(pilot: Pilot[None], name: str) -> None:
        await pilot.press("V")
        await shows(pilot, "Save this view as")
        await pilot.press(*name, "enter")
        await until(pilot, lambda: name in views.load(two.home))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await saved(pilot, "mine")
        views.save(two.home, "mine", SavedView("failed"))  # as another dashboard does
        await pilot.press("U")
        await until(pilot, lambda: "view mine stays: another dashboard has changed it since" in said(pilot))
        assert "view mine as before" not in said(pilot)
        await saved(pilot, "x")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(views, "delete", full)
            await pilot.press("U")
            await until(pilot, lambda: "No space left on device" in said(pilot))
        assert "as before" not in said(pilot)
        await pilot.press("U")  # there is room again
        await until(pilot, lambda: "view x as before: none" in said(pilot))
        assert set(views.load(two.home)) == {"mine"}

    drive(two.board(), use)


@pytest.mark.parametrize("size", [(140, 40), (80, 24), (40, 12)])
def test_without_a_saved_view_the_list_says_how_to_save_one(two: World, size: tuple[int, int]) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("v")
        await shows(pilot, "No view is saved yet", "everything")
        await pilot.press("escape")
        await lacks(pilot, "No view is saved yet")
        await pilot.press("V")
        await shows(pilot, "Save this view as")
        await pilot.press(*"mine", "enter")
        await until(pilot, lambda: "mine" in views.load(two.home))
        await pilot.press("v")
        await until(pilot, lambda: isinstance(pilot.app.screen, ViewChooser))
        seen = await shows(pilot, "everything", "mine")
        assert "No view is saved yet" not in seen
        await pilot.press("ctrl+d")
        await shows(pilot, "No view is saved yet", "everything")

    drive(two.board(), use, size)


def test_choosing_saving_replacing_and_deleting_a_view_are_undone_the_newest_first(two: World) -> None:
    old = SavedView("host:b200", sort="name")
    views.save(two.home, "mine", old)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("v", "enter")
        await shows(pilot, "Runs  mine  / host:b200", "1 of 2 runs")
        await pilot.press("S", "V")
        await shows(pilot, "Save this view as")
        await pilot.press("enter")
        await until(pilot, lambda: views.load(two.home)["mine"].reverse)
        await pilot.press("v")
        await until(pilot, lambda: isinstance(pilot.app.screen, ViewChooser))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: views.load(two.home) == {})
        await pilot.press("escape", "U")
        await until(pilot, lambda: views.load(two.home)["mine"].reverse)
        await pilot.press("U")
        await until(pilot, lambda: views.load(two.home) == {"mine": old})
        await pilot.press("U")
        await lacks(pilot, "reversed")
        await pilot.press("U")
        await shows(pilot, "2 of 2 runs", "by urgency")
        await pilot.press("U")
        await until(pilot, lambda: "there is nothing to undo" in said(pilot))

    drive(two.board(), use)


def test_what_another_armada_or_a_hand_wrote_harms_nothing(two: World) -> None:
    file = two.home.state / "dashboard" / "views.json"
    file.parent.mkdir(exist_ok=True)
    entries = {
        "newer": {"filter": "tag:arc", "sort": "by moon", "group": "planet", "columns": ["name", "nosuch"], "more": 1},
        "wrong": {"filter": ["x"]},
        "number": 7,
        "[bold]\u202ex": {"filter": "tag:arc"},
        "plain [red]": {"filter": 'tag:"a'},
    }
    file.write_text(json.dumps(entries))
    assert sorted(views.load(two.home)) == ["newer", "plain [red]"]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("v")
        assert "plain [red]" in await shows(pilot, "newer")
        await pilot.press(*"newer", "enter")
        await shows(pilot, "1 of 2 runs", "by urgency", "NAME")
        await pilot.press("V")
        await shows(pilot, "Save this view as")
        await pilot.press(*"other", "enter")
        await shows(pilot, "Runs  other")
        await pilot.press("v", *"plain", "enter")
        await shows(pilot, '/ tag:"a')

    drive(two.board(), use)
    assert set(json.loads(file.read_text())) == {*entries, "other"}


@pytest.mark.parametrize("harm", ["damaged", "no object", "a folder", "too many", "name"])
def test_a_view_that_cannot_be_saved_says_why_and_loses_nothing(two: World, harm: str) -> None:
    file = two.home.state / "dashboard" / "views.json"
    file.parent.mkdir(exist_ok=True)
    content = {"damaged": "{", "no object": "[]"}.get(harm, "{}")
    if harm == "too many":
        content = json.dumps({f"view {number}": {} for number in range(views.MOST)})
    file.mkdir() if harm == "a folder" else file.write_text(content)
    with pytest.raises(UsageError, match="views" if harm != "name" else "blanks"):
        views.save(two.home, "new" if harm != "name" else " new ", SavedView())
    assert file.is_dir() or file.read_text() == content
    assert len(views.load(two.home)) == (views.MOST if harm == "too many" else 0)


def test_read_only_chooses_but_saves_and_deletes_nothing(two: World) -> None:
    views.save(two.home, "arcs", SavedView("tag:arc"))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("V")
        await until(pilot, lambda: "save a view" in said(pilot))
        await pilot.press("v")
        await shows(pilot, "^d deletes it")
        await pilot.press("ctrl+d")
        await until(pilot, lambda: "delete a view" in said(pilot))
        await pilot.press("enter")
        await shows(pilot, "1 of 2 runs")
        assert "arcs  / tag:arc" in screen(pilot)

    drive(two.board(read_only=True), use)
    assert list(views.load(two.home)) == ["arcs"]


def test_ps_lists_what_a_view_shows(two: World, capsys: pytest.CaptureFixture[str]) -> None:
    views.save(two.home, "arcs", SavedView("tag:arc or host:b200", ("id", "host")))
    assert main(["ps", "--cached", "--view", "arcs"]) == 0
    listed = capsys.readouterr().out
    assert "one-aaaaaa" in listed
    assert "two-bbbbbb" in listed
    assert listed.split()[:2] == ["RUN", "HOST"]
    assert main(["ps", "--cached", "--view", "arcs", "host:a100*", "--columns", "name"]) == 0
    assert capsys.readouterr().out.split() == ["NAME", "one-aaaaaa"]
    assert main(["ps", "--cached", "--view", "arc"]) == NotFound("").exit_code
    assert "no view is called 'arc'\n  → did you mean 'arcs'?" in capsys.readouterr().err
