"""Groups of runs: each heading says how many, in which states, and the best; a run stands under each of its tags."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.store import labels, runs
from armada.store.queries.facts import read_bests
from armada.tui import remembered
from armada.tui.app import Dashboard
from armada.tui.arrangement import Arrangement, Heading
from armada.tui.best import Best
from armada.tui.chains import Chains
from armada.tui.reading import RunReader
from armada.tui.screens.runs import RunsScreen
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, screen, shows, until


@pytest.fixture
def tagged(world: World) -> World:
    for run_id, losses, tags in (
        ("one-aaaaaa", [3.0, 0.5], ["arc", "base"]),
        ("two-bbbbbb", [2.0, 0.75], ["arc"]),
        ("three-cccccc", [float("nan")], ["base"]),
        ("four-dddddd", [], []),
    ):
        world.run(run_id, state="running" if tags else "succeeded")
        if losses:
            world.losses(run_id, losses)
        labels.change_tags(world.database, run_id, add=tags)
    return world


def by_tag(pilot: Pilot[None]) -> RunsScreen:
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunsScreen)
    return found


def test_a_run_stands_under_each_of_its_tags_and_is_counted_once(tagged: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press(*"bbb")  # host, state, tag: no run has a group
        seen = await shows(pilot, "arc  2 runs: 2 running  best loss 0.5", "base  2 runs: 2 running  best loss 0.5")
        assert "no tag  1 run: 1 succeeded" in seen
        assert "4 of 4 runs" in seen
        assert seen.count("one-aaaaaa") == 3  # and in the preview
        table = by_tag(pilot).table
        twice = [line for line in table.entries if table.mark_of(line.key) == "one-aaaaaa"]
        assert len(twice) == 2
        table.place(twice[1].key)
        assert by_tag(pilot).cursor_run == "one-aaaaaa"
        await pilot.press("space")
        await shows(pilot, "1 marked")
        assert [row.id for row in by_tag(pilot).concerned()] == ["one-aaaaaa"]
        sign = table.symbols.marked
        assert sum("one-aaaaaa" in line and sign in line for line in screen(pilot).splitlines()) == 2
        await pilot.press("escape")
        await lacks(pilot, "1 marked")
        await pilot.press("home")
        for _ in range(4):
            await pilot.press("j")
        assert by_tag(pilot).cursor_run == "four-dddddd"  # five rows, each a stop
        table.place(twice[1].key)
        await pilot.press("enter")
        await until(pilot, lambda: getattr(pilot.app.screen, "run_id", None) == "one-aaaaaa")

    drive(tagged.board(), use, (150, 40))


def test_headings_follow_when_a_loss_or_a_tag_changes(tagged: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press(*"bbb")  # host, state, tag: no run has a group
        await shows(pilot, "arc  2 runs: 2 running  best loss 0.5")
        tagged.losses("two-bbbbbb", [0.25])
        await shows(pilot, "arc  2 runs: 2 running  best loss 0.25", "base  2 runs: 2 running  best loss 0.5")
        tagged.losses("one-aaaaaa", [0.9])
        await shows(pilot, "base  2 runs: 2 running  best loss 0.9")
        labels.change_tags(tagged.database, "four-dddddd", add=["base"])
        await shows(pilot, "base  3 runs: 2 running · 1 succeeded")
        await lacks(pilot, "no tag")

    drive(tagged.board(), use, (150, 40))


def test_a_change_that_moves_no_heading_leaves_the_lines_in_place(tagged: World) -> None:
    reader, arrangement = RunReader(tagged.database), Arrangement(group="tag", sort="name")
    reader.read({})
    arrangement.bests = read_bests(tagged.database, set(reader.by_id))
    arrangement.arrange(reader.rows)
    tagged.losses("two-bbbbbb", [0.7])
    reader.read({})
    assert arrangement.stays([reader.by_id["two-bbbbbb"]])
    tagged.losses("one-aaaaaa", [0.7])
    reader.read({})
    assert not arrangement.stays([reader.by_id["one-aaaaaa"]])
    headings = [line for line in arrangement.arrange(reader.rows) if isinstance(line, Heading)]
    assert [(each.title, each.size, each.best) for each in headings] == [
        ("no tag", 1, None),
        ("arc", 2, Best("loss", 0.7)),
        ("base", 2, Best("loss", 0.7)),
    ]


def test_runs_are_grouped_by_a_setting_that_is_a_column(world: World) -> None:
    for run_id, rate in (("one-aaaaaa", 1e-5), ("two-bbbbbb", 1e-5), ("six-cccccc", 3e-4), ("none-dddddd", None)):
        train = {"learning_rate": rate} if rate else {}
        world.run(run_id, spec={"job": {"argv": []}, "experiment": {"train": train}})
    world.losses("two-bbbbbb", [0.5])
    remembered.keep_columns(world.home, ["name", "lr", "loss"])
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs", "LEARNING_RATE")
        await pilot.press(*"bbb")  # host, state, and then the setting
        await shows(pilot, "learning_rate 1e-05  2 runs: 2 running  best loss 0.5", "learning_rate 0.0003  1 run")
        await shows(pilot, "learning_rate not set  1 run", "grouped by train.learning_rate")
        first = by_tag(pilot)
        view = first.present_view
        await pilot.press("b")
        await lacks(pilot, "grouped by")
        first._show_view("mine", view)  # noqa: SLF001  # as if it was chosen from the list
        await shows(pilot, "mine", "learning_rate 1e-05  2 runs")
        first._choose_columns(["name", "loss"])  # noqa: SLF001  # as if they were typed
        await lacks(pilot, "learning_rate", "grouped by")

    drive(board, use, (150, 40))


def test_what_a_group_needs_is_asked_for_though_neither_the_cursor_nor_the_store_moves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("one-aaaaaa")
    world.losses("one-aaaaaa", [0.5])
    board = world.board()
    asked: list[str] = []

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "1 of 1 runs")
        await until(pilot, lambda: board.snapshot.daemon is not None)
        monkeypatch.setattr(RunsScreen, "on_table_rested", lambda _: None)
        monkeypatch.setattr(RunsScreen, "take", lambda *_: None)
        monkeypatch.setattr(board, "want", lambda wants: asked.append(wants.bests))
        await pilot.press("b")
        await until(pilot, lambda: "all" in asked)

    drive(board, use, (150, 40))


@pytest.fixture
def chained(world: World) -> World:
    """A training, one that starts from its weights and is named by its first letters, its merge, a launch again, a stranger."""
    world.run("base-aaaaaa", state="succeeded")
    world.losses("base-aaaaaa", [3.0, 0.5])
    world.run("tuned-bbbbbb", spec={"job": {"argv": []}, "experiment": {"start_from": {"run": "base-a"}}})
    merged = {"job": {"argv": []}, "experiment": {"merge": {"run": "tuned-bbbbbb"}}}
    world.run("merged-cccccc", state="succeeded", spec=merged)
    world.run("again-dddddd")
    labels.set_follows(world.database, "again-dddddd", "base-aaaaaa")
    world.run("alone-eeeeee")
    return world


def test_runs_that_follow_another_stand_under_it_in_their_chain(chained: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "5 of 5 runs")
        await pilot.press(*"bbb")  # host, state, chain
        seen = await shows(
            pilot, "base-aaaaaa  4 runs: 2 running · 2 succeeded  best loss 0.5", "no chain  1 run: 1 running"
        )
        assert "└ tuned-bbbbbb" in seen
        assert "  └ merged-cccccc" in seen
        assert "└ again-dddddd" in seen
        assert "└ alone" not in seen
        table = by_tag(pilot).table
        listed = [entry.key for entry in table.entries if entry.kind == "row"]
        chain = ["base-aaaaaa", "tuned-bbbbbb", "merged-cccccc", "again-dddddd"]
        assert [run_id for run_id in listed if run_id != "alone-eeeeee"] == chain
        await pilot.press("b")
        await lacks(pilot, "└ tuned-bbbbbb")

    drive(chained.board(), use, (150, 40))


def test_a_chain_is_shown_also_where_its_first_run_is_gone_and_where_it_goes_in_a_circle(chained: World) -> None:
    chained.database.connection.execute("DELETE FROM runs WHERE run_id = 'base-aaaaaa'")
    rows = RunReader(chained.database).read({})
    chains = Chains(rows)
    assert {row.id: chains.root(row.id) for row in rows} == {
        "tuned-bbbbbb": "base-aaaaaa",
        "merged-cccccc": "base-aaaaaa",
        "again-dddddd": "base-aaaaaa",
        "alone-eeeeee": None,
    }
    labels.set_follows(chained.database, "alone-eeeeee", "alone-eeeeee")
    labels.set_follows(chained.database, "tuned-bbbbbb", "merged-cccccc")
    rows = RunReader(chained.database).read({})
    chains = Chains(rows)
    assert chains.root("alone-eeeeee") is None
    assert {chains.depth("tuned-bbbbbb"), chains.depth("merged-cccccc")} == {1}
    assert len(chains.in_order(rows)) == len(rows)


def test_a_cell_that_was_launched_again_follows_the_run_before_it(world: World) -> None:
    for run_id in ("cell-aaaaaa", "cell-bbbbbb"):
        world.run(run_id, spec={"job": {"argv": []}, "experiment": {}, "sweep": {"id": "lr-ffffff", "cell": 1}})
    chains = Chains(RunReader(world.database).read({}))
    assert chains.root("cell-bbbbbb") == "cell-aaaaaa"


def test_the_run_that_a_launch_follows_is_restored_from_its_file_at_home(chained: World) -> None:
    labels.keep(chained.home, runs.find(chained.database, "again-dddddd"))
    chained.database.connection.execute("UPDATE runs SET follows = NULL")
    assert labels.restore(chained.database, chained.home, runs.find(chained.database, "again-dddddd"))
    assert runs.find(chained.database, "again-dddddd").follows == "base-aaaaaa"


@pytest.mark.parametrize(
    ("key", "title"), [("x", "Stop 3 runs?"), ("asterisk", "Star 4 runs?"), ("z", "Archive 4 runs?")]
)
def test_an_act_on_a_folded_group_asks_with_the_count_of_its_runs(tagged: World, key: str, title: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press("b")
        await shows(pilot, "box  4 runs")
        by_tag(pilot).table.place("two-bbbbbb")
        await pilot.press("left")
        await shows(pilot, "▸ box")
        await pilot.press(key)
        await shows(pilot, title, "esc cancel")
        await pilot.press("escape")
        await lacks(pilot, title)

    drive(tagged.board(), use, (150, 40))


def test_a_yes_stars_all_runs_of_a_folded_group_in_one_command(tagged: World, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(Dashboard, "operate", lambda _, __, words, *___, **____: started.append(list(words)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press("b")
        await shows(pilot, "box  4 runs")
        by_tag(pilot).table.place("two-bbbbbb")
        await pilot.press("left", "asterisk")
        await shows(pilot, "Star 4 runs?")
        await pilot.press("y")
        await until(pilot, lambda: bool(started))

    drive(tagged.board(), use, (150, 40))
    assert started[0][0] == "star"
    assert len(started[0]) == 5


@pytest.mark.parametrize("key", ["asterisk", "z", "y"])
def test_a_yes_about_a_folded_group_acts_on_no_run_that_the_question_did_not_name(
    tagged: World, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(Dashboard, "operate", lambda _, __, words, *___, **____: started.append(list(words)))
    board = tagged.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press("b")
        await shows(pilot, "box  4 runs")
        by_tag(pilot).table.place("two-bbbbbb")
        await pilot.press("left", key)
        await shows(pilot, " 4 runs?")
        tagged.run("new-eeeeee", state="succeeded")
        await until(pilot, lambda: len(board.snapshot.runs) == 5)
        await pilot.press("y")
        await until(pilot, lambda: bool(started))
        assert not any("new-eeeeee" in words for words in started)

    drive(board, use, (150, 40))


def test_a_group_folds_into_one_row_and_says_what_needs_you_in_it(tagged: World) -> None:
    tagged.run("dead-eeeeee", state="failed", reason="oom", host="other")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "5 of 5 runs")
        await pilot.press("b")
        await shows(pilot, "box  4 runs", "other  1 run")
        by_tag(pilot).table.place("two-bbbbbb")
        await pilot.press("left")
        seen = await shows(pilot, "▸ box", " 1/4", "5 of 5 runs")
        assert "two-bbbbbb" not in seen
        assert by_tag(pilot).cursor_run is None
        assert len(by_tag(pilot).concerned()) == 4
        await pilot.press("space")
        await shows(pilot, "4 marked")
        await pilot.press("k", "space", "a")
        await shows(pilot, "5 marked")
        by_tag(pilot).table.place("host:box")
        await pilot.press("l")
        assert pilot.app.screen is by_tag(pilot)  # there is no run under the cursor
        await pilot.press("escape")
        tagged.losses("one-aaaaaa", [0.125])
        await shows(pilot, "0.125", "▸ box")
        by_tag(pilot).table.place("dead-eeeeee")
        await pilot.press("left")
        seen = await shows(pilot, "▸ other", " 1/1", "└ oom")
        await pilot.press("enter")
        await shows(pilot, "other  1 run", "dead-eeeeee")
        by_tag(pilot).table.place("host:box")
        await pilot.press("right")
        await shows(pilot, "box  4 runs", "two-bbbbbb")
        assert by_tag(pilot).cursor_run is not None

    drive(tagged.board(), use, (150, 40))


def test_folding_a_folded_group_leaves_the_others_as_they_are(tagged: World) -> None:
    tagged.run("else-eeeeee", host="other")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "5 of 5 runs")
        await pilot.press("b")
        await shows(pilot, "box  4 runs", "other  1 run")
        view = by_tag(pilot)
        headings = [entry.key for entry in view.table.entries if entry.kind == "heading"]
        await pilot.press("end", "left")
        await until(pilot, lambda: view.table.cursor == headings[-1])
        await pilot.press("left")
        assert view.arrangement.closed == {headings[-1]}
        assert view.table.cursor == headings[-1]

    drive(tagged.board(), use, (150, 40))


def test_a_cell_under_its_second_tag_folds_the_row_of_its_sweep_there(world: World) -> None:
    for cell in (1, 2):
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr", "cell": cell}}
        labels.change_tags(world.database, world.run(f"cell-{cell}aaaa", spec=spec), add=["arc", "base"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press(*"bbb")  # host, state, tag: no run has a group
        await shows(pilot, "arc  2 runs", "base  2 runs")
        view = by_tag(pilot)
        for key in ("sweep:lr:arc", "sweep:lr:base"):
            view.table.place(key)
            await pilot.press("right")
        again = next(entry.key for entry in view.table.entries if entry.key.endswith("\tbase"))
        view.table.place(again)
        await pilot.press("left")
        assert view.arrangement.opened == {"sweep:lr:arc"}
        assert view.table.cursor == "sweep:lr:base"
        view.table.place("cell-1aaaa")
        await pilot.press("left")
        assert view.arrangement.opened == set()
        assert view.table.cursor == "sweep:lr:arc"

    drive(world.board(), use, (150, 40))


def test_the_bar_of_a_folded_group_moves_with_its_runs(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=100, total_steps=1000)
    reader, arrangement = RunReader(world.database), Arrangement(group="host", sort="name")
    arrangement.closed = {"host:box"}

    def goes_on(run_id: str, step: int) -> bool:
        """Whether the lines stay when a run has done more steps."""
        reader.read({})
        arrangement.arrange(reader.rows)
        runs.record(world.database, run_id, Verdict("running", None, None, 1, 1, "evidence"), step=step)
        reader.read({})
        return arrangement.stays([reader.by_id[run_id]])

    assert not goes_on("one-aaaaaa", 200)
    arrangement.pins, arrangement.closed = frozenset({"two-bbbbbb"}), {"pinned:"}
    assert not goes_on("two-bbbbbb", 200)
    assert goes_on("one-aaaaaa", 300), "it is in no folded group"
    arrangement.closed = {"host:other"}
    assert goes_on("two-bbbbbb", 300)


@pytest.mark.parametrize("times", [1, 2])
def test_a_click_on_a_heading_leaves_the_cursor_where_it_is(tagged: World, times: int) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press(*"bbb")
        seen = await shows(pilot, "base  2 runs", "arc  2 runs")
        view = by_tag(pilot)
        before = view.table.cursor
        titles = [line for line in seen.splitlines() if "  2 runs" in line]
        await pilot.click(offset=(10, seen.splitlines().index(titles[1])), times=times)
        await pilot.press("down", "up")  # what the click does comes before
        await until(pilot, lambda: view.table.cursor == before)
        assert pilot.app.screen is view

    drive(tagged.board(), use)


def test_the_newest_run_is_found_in_its_folded_group(world: World) -> None:
    world.run("one-aaaaaa", host="a100")
    world.run("two-bbbbbb", host="box")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("b")
        await shows(pilot, "box  1 run")
        table = by_tag(pilot).table
        newest = by_tag(pilot).snapshot.runs[0]
        table.place(newest.id)
        await pilot.press("left")
        await shows(pilot, f"▸ {newest.host}")
        other = next(row.id for row in by_tag(pilot).snapshot.runs if row is not newest)
        table.place(other)
        await pilot.press("e")
        assert table.cursor == f"host:{newest.host}"

    drive(world.board(), use, (150, 40))
