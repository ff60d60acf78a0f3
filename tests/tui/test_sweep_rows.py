"""The runs of a sweep share a row, which unfolds."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.costs.amounts import Amounts
from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.store import runs
from armada.tui import remembered
from armada.tui.beginnings import beginning_of, short_forms
from armada.tui.folds import Fold
from armada.tui.screens.runs import RunsScreen
from armada.tui.snapshot import Kept, RunRow
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, said, shows, until
from tests.tui.test_runs_screen import rows

SIX = {
    f"lr-{number}aaaa": state
    for number, state in enumerate(["succeeded", "failed", "running", "running", "queued", "queued"])
}


@pytest.fixture
def swept(world: World) -> World:
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": 10})
    world.run("alone-bbbbbb", name="alone")
    for cell, (run_id, state) in enumerate(SIX.items(), 1):
        reason = {"reason": "oom", "message": "CUDA out of memory"} if state == "failed" else {}
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": cell}}
        world.run(run_id, name=f"lr-{cell}", state=state, spec=spec, **reason)
        if cell < 4:
            world.losses(run_id, [3.0, 2.0 - cell / 10])
    return world


def first(pilot: Pilot[None]) -> RunsScreen:
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunsScreen)
    return found


def test_a_sweep_is_one_row_with_counts_best_and_what_needs_you(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "lr-x7 (6 cells)", "oom: CUDA out of memory", "7 of 7 runs", "1.7 loss")
        line = next(line for line in seen.splitlines() if "lr-x7" in line)
        for word in ("▸", "box", "2/6", "1.7", "▲"):
            assert word in line, line
        assert sorted(rows(pilot)) == ["alone-bbbbbb", "sweep:lr-x7:"]

    drive(swept.board(), use, (170, 40))


def test_a_sweep_of_many_cells_counts_them_in_its_row(world: World) -> None:
    for cell in range(1, 105):
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": cell}}
        state = "succeeded" if cell <= 100 else "queued"
        runs.insert(
            world.database,
            run_id=f"lr-{cell:06}",
            name=f"lr-{cell}",
            host="box",
            task="sft",
            experiment="e.yaml",
            spec=spec,
        )
        runs.record(world.database, f"lr-{cell:06}", Verdict(state, attempt=1, seq=1))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (104 cells)", " 100/104", "104 of 104 runs")

    drive(world.board(), use, (170, 40))


def test_its_cost_has_an_hour_of_the_box_once(swept: World) -> None:
    tariff = Tariff((Price(10.0, "EUR"),))
    found = [
        runs.find(swept.database, run_id)._replace(created_at=0.0, started_at=0.0, ended_at=3600.0)
        for run_id in list(SIX)[:2]
    ]
    cells = tuple(RunRow(run, run.run_id, "box", Kept(None, None, 0, 0), None, tariff) for run in found)
    assert Fold("sweep:lr", cells, is_open=False).costs(7200.0) == Amounts({"EUR": 10.0})
    unpriced = tuple(row._replace(tariff=None) for row in cells)
    assert Fold("sweep:lr", unpriced, is_open=False).costs(7200.0) is None


def test_a_cell_that_succeeded_without_a_number_is_no_success_of_its_sweep(swept: World) -> None:
    """Its trouble is told for a day; the row of a sweep that is folded says it after that, too."""
    known = [runs.find(swept.database, run_id)._replace(state="succeeded", reason=None) for run_id in list(SIX)[:2]]
    good, lost = (RunRow(run, run.run_id, "box", Kept(None, None, 0, 0), None, None) for run in known)
    lost = lost._replace(run=lost.run._replace(loss_not_finite="nan"))
    fold = Fold("sweep:lr", (good, lost), is_open=False)
    assert (fold.state, fold.states_span) == ("failed", ("2 succeeded · 1 NaN", "bad"))
    fold = Fold("sweep:lr", (good,), is_open=False)
    assert (fold.state, fold.states_span) == ("succeeded", ("1 succeeded", "good"))


def test_a_lost_run_costs_until_it_was_last_observed(swept: World) -> None:
    known = runs.find(swept.database, next(iter(SIX)))
    lost = known._replace(state="failed", created_at=0.0, started_at=0.0, ended_at=None, observed_at=3600.0, gpus=())
    row = RunRow(lost, "lost", "box", Kept(None, None, 0, 0), None, Tariff((Price(10.0, "EUR"),)))
    assert row.costs(9 * 3600.0) == Amounts({"EUR": 10.0})
    assert row.lasted_s(9 * 3600.0) == 3600.0
    goes_on = row._replace(run=lost._replace(state="running"))
    assert goes_on.costs(2 * 3600.0) == Amounts({"EUR": 20.0})


def test_enter_and_arrows_unfold_and_fold(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (6 cells)")
        first(pilot).table.place("sweep:lr-x7:")
        await pilot.press("enter")
        await shows(pilot, "▾ lr-x7", "└ lr-4")
        assert set(rows(pilot)) == {"alone-bbbbbb", "sweep:lr-x7:", *SIX}
        await pilot.press("down", "down", "left")
        await until(pilot, lambda: "lr-4aaaa" not in rows(pilot))
        assert first(pilot).table.cursor == "sweep:lr-x7:"
        await pilot.press("right")
        await until(pilot, lambda: "lr-4aaaa" in rows(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "lr-4aaaa" not in rows(pilot))

    drive(swept.board(), use, (170, 40))


def test_what_is_done_to_its_row_is_done_to_all_its_cells(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (6 cells)")
        first(pilot).table.place("sweep:lr-x7:")
        assert {row.run.run_id for row in first(pilot).concerned()} == set(SIX)
        await pilot.press("space")
        await until(pilot, lambda: first(pilot).table.marked == set(SIX))
        await shows(pilot, "6 marked")
        assert {row.run.run_id for row in first(pilot).concerned()} == set(SIX)
        await pilot.press("l")  # the log of the cell that stands first
        await shows(pilot, "log")
        assert pilot.app.screen is not first(pilot)

    drive(swept.board(), use, (170, 40))


@pytest.mark.parametrize("keys", ["/", "b"])
def test_its_mark_stays_when_the_list_is_filtered_or_grouped(swept: World, keys: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (6 cells)")
        table = first(pilot).table
        table.place("sweep:lr-x7:")
        await pilot.press("space")
        await shows(pilot, "6 marked")
        assert table.is_marked("sweep:lr-x7:")
        if keys == "/":
            await pilot.press("slash", *"name:alone")
            await lacks(pilot, "lr-x7 (")
            await pilot.press("enter")
        else:
            await pilot.press("b")
            await shows(pilot, "grouped by host")
        assert {row.id for row in first(pilot).concerned()} == set(SIX)
        if keys == "/":
            await pilot.press("escape")
        await shows(pilot, "lr-x7 (6 cells)", "6 marked")

    drive(swept.board(), use, (170, 40))


def test_a_sweep_is_marked_when_all_of_its_cells_are(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (6 cells)")
        table = first(pilot).table
        table.place("sweep:lr-x7:")
        await pilot.press("enter")
        await shows(pilot, "└ lr-4")
        await pilot.press("space")
        await shows(pilot, "6 marked")
        table.place("lr-4aaaa")
        await pilot.press("space")
        await shows(pilot, "5 marked")
        assert not table.is_marked("sweep:lr-x7:")
        table.place("sweep:lr-x7:")
        await pilot.press("space")
        await shows(pilot, "6 marked")
        table.place("sweep:lr-x7:")
        await pilot.press("space")
        await lacks(pilot, " marked")

    drive(swept.board(), use, (170, 40))


def test_a_note_for_several_runs_is_refused_with_what_they_are(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (6 cells)")
        first(pilot).table.place("sweep:lr-x7:")
        await pilot.press("i")
        await until(pilot, lambda: "note: these are 6 runs, and a note is for one run" in said(pilot))
        await pilot.press("space", "i")
        await until(pilot, lambda: "note: 6 runs are marked, and a note is for one run" in said(pilot))

    drive(swept.board(), use, (170, 40))


def test_under_a_filter_the_cells_that_match_stand_below_their_sweep(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7 (6 cells)")
        await pilot.press("slash", *"state:queued", "enter")
        await shows(pilot, "▾ lr-x7 (2 of 6 match)", "2 of 7 runs", "└ lr-5", "└ lr-6")
        assert sorted(rows(pilot)) == ["lr-4aaaa", "lr-5aaaa", "sweep:lr-x7:"]
        assert first(pilot).table.cursor == rows(pilot)[1]  # Enter opens a run that was looked for
        first(pilot).table.place("sweep:lr-x7:")
        assert {row.id for row in first(pilot).concerned()} == {"lr-4aaaa", "lr-5aaaa"}
        await pilot.press("left")
        await shows(pilot, "▸ lr-x7 (2 of 6 match)", "2 of 7 runs")
        assert rows(pilot) == ["sweep:lr-x7:"]
        await pilot.press("right")
        await until(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("left", "escape")
        await shows(pilot, "▸ lr-x7 (6 cells)")
        await pilot.press("slash", *"reason:oom", "enter")
        await shows(pilot, "▾ lr-x7 (1 of 6 matches)", "└ lr-2")
        runs.record(swept.database, "lr-3aaaa", Verdict("failed", "oom", "no memory", 1, 2))
        await until(pilot, lambda: "lr-3aaaa" in rows(pilot))
        await pilot.press("g")  # the table is low here, and the row under the cursor went down
        await shows(pilot, "▾ lr-x7 (2 of 6 match)", "└ lr-4")

    drive(swept.board(), use, (170, 40))


def test_a_cell_that_changes_changes_the_row(swept: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2/6")
        runs.record(swept.database, "lr-2aaaa", Verdict("succeeded", attempt=1, seq=2))
        await shows(pilot, "3/6")

    drive(swept.board(), use, (170, 40))


def test_with_columns_of_ones_own_a_sweep_keeps_its_name(swept: World) -> None:
    remembered.keep_columns(swept.home, ["state", "host", "lr"])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "STATE", "lr-x7 (6 cells)")
        assert next(line for line in seen.splitlines() if "lr-x7" in line).strip("│ ").split()[-1] == "box"

    drive(swept.board(), use, (170, 40))


def test_with_columns_of_ones_own_a_sweep_says_how_it_stands(swept: World) -> None:
    remembered.keep_columns(swept.home, ["name", "progress", "loss"])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "PROGRESS", "lr-x7 (6 cells)", "1.7 loss")
        line = next(line for line in seen.splitlines() if "lr-x7" in line)
        assert "━" in line
        assert "2/6" in line

    drive(swept.board(), use, (170, 40))


def celled(world: World, names: list[str]) -> None:
    for cell, name in enumerate(names, 1):
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "sw-j0sphr", "cell": cell}}
        world.run(f"sw-j0sphr-{cell}aaaaaa", name=name, spec=spec)


def test_cells_whose_names_do_not_fit_show_what_they_differ_by(world: World) -> None:
    celled(world, [f"sw command.4=lr=0.0{number}" for number in (1, 2, 15)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "▸ sw-j0sphr  ")
        await pilot.press("right")
        seen = await shows(pilot, "└ …0.01 ", "└ …0.02 ", "└ …0.015 ")
        assert "sw command" not in seen.partition("Runs")[2].partition("╰")[0]
        await pilot.resize_terminal(190, 36)
        await shows(pilot, "▾ sw-j0sphr (3 cells)", "└ sw command.4=lr=0.015")

    drive(world.board(), use, (120, 36))


def test_the_best_cell_is_named_as_the_others_are(world: World) -> None:
    for cell, name in enumerate(("toy LR=0.1 SEED=1", "toy LR=0.3 SEED=1", "toy LR=0.3 SEED=2"), 1):
        spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "toy-j0sphr", "cell": cell}}
        world.run(f"toy-j0sphr-{cell}aaaaaa", name=name, spec=spec)
        world.losses(f"toy-j0sphr-{cell}aaaaaa", [1.0 / cell])
        world.losses(f"toy-j0sphr-{cell}aaaaaa", [abs(cell - 2.0) + 0.4532], name="eval_loss")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "▸ toy-j0sphr  ", "0.4532")
        await pilot.press("right")
        seen = await shows(pilot, "└ …0.1 1 ", "└ …0.3 1 best", "└ …0.3 2 ")
        listed = seen.partition("Runs")[2].partition("╰")[0]
        assert "SEED" not in listed
        assert (listed.count("0.4532"), listed.count("1.453")) == (2, 2), "as in the row of the sweep"
        await pilot.resize_terminal(190, 36)
        await shows(pilot, "└ toy LR=0.3 SEED=1", "0.453 best")

    drive(world.board(), use, (80, 24))


def test_what_cells_differ_by_ends_no_number_and_names_few_keys() -> None:
    names = ["sw lr=1e-05 batch=8", "sw lr=1e-06 batch=8", "sw lr=1e-05 batch=16"]
    alike = beginning_of(names)
    assert short_forms(names[2], alike)[1:] == ("…1e-05 batch=16", "…1e-05 16")
    assert beginning_of(["adam", "adamw"]) == beginning_of(["a=1", "a=1"]) == beginning_of([]) == 0
    assert beginning_of(["/data/a/", "/data/a/b"]) == len("/data/")
