"""The store is deleted while the dashboard shows it."""

from __future__ import annotations

from textual.pilot import Pilot

from armada.store.database import MIGRATIONS, Database
from armada.tui.app import Dashboard
from armada.tui.operations import Answer
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until


def delete(world: World) -> None:
    for name in ("", "-wal", "-shm"):
        world.home.store.with_name(world.home.store.name + name).unlink(missing_ok=True)


def test_a_store_that_is_deleted_is_said_to_be_gone_and_not_made_anew(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        delete(world)
        await shows(pilot, "the store is gone", "demo-aaaaaa")
        assert not world.home.store.exists()
        with Database(world.home.store):
            pass
        await lacks(pilot, "the store is gone", "demo-aaaaaa")
        assert "Nothing has been launched yet" in screen(pilot)

    drive(world.board(), use)


def test_runs_at_home_that_a_new_store_does_not_have_are_said_to_be_there(world: World) -> None:
    """Whoever deleted the store, and then ran any command, has another first screen than who starts."""
    for run_id in ("demo-aaaaaa", "demo-bbbbbb"):
        world.run(run_id)
        (world.home.run(run_id) / "outputs").mkdir(parents=True)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 runs")
        delete(world)
        await shows(pilot, "the store is gone")
        with Database(world.home.store):
            pass
        await shows(
            pilot, "The store has no runs, but 2 folders of runs are at home", "armada recover finds them again"
        )
        assert "Nothing has been launched yet" not in screen(pilot)

    drive(world.board(), use)


def test_an_act_on_a_store_that_is_gone_is_refused_and_makes_no_new_one(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        board = pilot.app
        assert isinstance(board, Dashboard)
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("x")
        await shows(pilot, "SIGTERM")
        delete(world)  # before the question is answered
        await pilot.press("y")
        await until(pilot, lambda: "Put it back, or close the dashboard" in said(pilot))
        answers: list[Answer] = []
        board.read(["why", "demo-aaaaaa"], answers.append)
        await until(pilot, lambda: [answer.exit_code for answer in answers] == [7])
        assert not world.home.store.exists()

    drive(world.board(), use)


def test_a_store_that_a_newer_armada_renews_is_said_to_be_and_its_last_state_stays(world: World) -> None:
    world.run("demo-aaaaaa", step=7, total_steps=9)
    world.losses("demo-aaaaaa", [3.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        with world.database.transaction() as connection:
            connection.execute("ALTER TABLE runs RENAME TO runs_of_later")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        await shows(pilot, "a newer armada renewed the store: update armada, then start it again.", "demo-aaaaaa")
        delete(world)
        await shows(pilot, "the store is gone", "demo-aaaaaa")
        with Database(world.home.store):
            pass
        await lacks(pilot, "the store is gone", "a newer armada", "demo-aaaaaa")

    drive(world.board(), use, (80, 24))


def test_a_store_whose_copy_is_put_back_in_its_place_is_read_again(world: World) -> None:
    """By `cp`, which keeps the file itself: nothing tells the two apart but what is in them."""
    world.run("demo-aaaaaa", step=7, total_steps=9)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        with world.database.transaction() as connection:
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        await shows(pilot, "a newer armada renewed the store")
        with world.database.transaction() as connection:
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        await lacks(pilot, "a newer armada renewed the store")
        world.run("next-bbbbbb")
        await shows(pilot, "demo-aaaaaa", "next-bbbbbb")

    drive(world.board(), use)


def test_a_curve_that_can_no_longer_be_read_is_not_said_to_be_read(world: World) -> None:
    world.run("old-aaaaaa")
    world.run("new-bbbbbb")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa", "new-bbbbbb")
        await lacks(pilot, "reading …")
        delete(world)
        await shows(pilot, "the store is gone")
        await pilot.press("down")
        await shows(pilot, "cannot read the store")
        with Database(world.home.store):
            pass
        await lacks(pilot, "the store is gone", "cannot read the store")

    drive(world.board(), use)
