"""The home screen, against a real store."""

from __future__ import annotations

import time

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.records.launch_record import LaunchRecord, write_record
from armada.store import run_sync, runs
from armada.tui.bindings import KEYS, Key
from armada.tui.screens.help import words
from armada.tui.screens.runs import RunsScreen
from armada.tui.symbols import UNICODE
from armada.tui.widgets.run_table import RunTable
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, heard, lacks, screen, shows, until


def rows(pilot: Pilot[None]) -> list[str]:
    """Ids in the order of the table."""
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return [entry.key for entry in first.query_one(RunTable).entries if entry.kind == "row"]


def test_an_empty_store_says_what_to_press(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet", "armada launch --host local quickstart", "armada hosts add")

    drive(world.board(), use, (80, 24))


def test_a_run_shows_state_name_progress_loss_eta_checkpoint_and_cost(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": 10})
    world.run("demo-aaaaaa", name="demo", step=300, total_steps=400, step_time_s=36.0, gpus="[0, 1]")
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.25])
    world.checkpoint("demo-aaaaaa", 250, home=True)
    runs.record(world.database, "demo-aaaaaa", Verdict("running", attempt=1, seq=2), step_time_s=36.0)

    async def use(pilot: Pilot[None]) -> None:
        words = ("●", "demo", "box", "2×", "75%", "1.25", "1 h 00 m", "█")
        await shows(pilot, "ckpt-250", "$10.0", "$10.00/h")
        await until(pilot, lambda: any(all(word in line for word in words) for line in screen(pilot).splitlines()))

    drive(world.board(), use, (170, 40))


def test_a_run_of_a_removed_host_costs_what_its_launch_says(world: World) -> None:
    world.hosts(free={"ssh": "root@192.0.2.1"})
    for run_id in ("demo-aaaaaa", "demo-bbbbbb"):
        world.run(run_id, host="gone", state="succeeded", started_at=time.time() - 7200, ended_at=time.time() - 3600)
    write_record(world.home, "demo-aaaaaa", LaunchRecord("1.0", prices=("12.40 USD",)))

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "$12.4")
        assert "$" not in next(line for line in seen.splitlines() if "bbbbbb" in line)

    drive(world.board(), use, (170, 40))


def test_a_run_of_which_nothing_is_known_keeps_how_far_it_was_and_no_time_that_nobody_knows(world: World) -> None:
    world.run("demo-aaaaaa", name="demo", state="unknown", step=300, total_steps=400)
    world.run("none-aaaaaa", name="none", state="unknown")

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "demo", "none")
        lines = {name: next(line for line in seen.splitlines() if f" {name} " in line) for name in ("demo", "none")}
        assert "75%" in lines["demo"]
        assert "unknown  " in lines["none"]

    drive(world.board(), use, (170, 40))


def test_a_change_in_the_store_comes_to_the_screen(world: World) -> None:
    world.run("demo-aaaaaa", step=1, total_steps=100)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "1%")
        world.run("next-bbbbbb", state="queued")
        runs.record(world.database, "demo-aaaaaa", Verdict("running", attempt=1, seq=2), step=50)
        await shows(pilot, "next-bbbbbb", "50%")
        runs.delete(world.database, "next-bbbbbb")
        await lacks(pilot, "next-bbbbbb")

    drive(world.board(), use)


def test_what_needs_a_person_is_on_top_and_says_why(world: World) -> None:
    world.run("fine-aaaaaa")
    world.run("lost-bbbbbb", host="far")
    runs.mark_unreachable(world.database, ["lost-bbbbbb"], "no route to host")
    world.run("dead-cccccc", state="failed", reason="oom", message="CUDA out of memory")
    world.run("full-dddddd")
    run_sync.failed(world.database, "full-dddddd", now=time.time(), reason="disk full at home", next_due_at=0)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "3 need you", "no route to host", "oom: CUDA out of memory", "disk full at home")
        assert "unreachable since" in seen
        order = rows(pilot)
        assert order[-1] == "fine-aaaaaa"
        assert order[2] == "dead-cccccc", "a failure is past; what still runs and is in trouble comes first"
        assert "◌" in seen
        assert "✗" in seen

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("lora", {"lora-aaaaaa"}),
        ("lra", {"lora-aaaaaa"}),
        ("host:far", {"full-bbbbbb"}),
        ("!host:far", {"lora-aaaaaa", "dora-cccccc"}),
        ("state:failed", {"dora-cccccc"}),
        ("!lora state:running", {"full-bbbbbb"}),
        ("is:trouble", {"dora-cccccc"}),
        ("nothing-like-it", set()),
    ],
)
def test_the_filter_takes_words_fuzzy_inverse_and_keys(world: World, typed: str, found: set[str]) -> None:
    world.run("lora-aaaaaa")
    world.run("full-bbbbbb", host="far")
    world.run("dora-cccccc", state="failed", reason="oom")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("slash")
        pilot.app.screen.query_one("#filter", Input).value = typed
        await until(pilot, lambda: set(rows(pilot)) == found)
        await pilot.press("enter")
        await shows(pilot, f"/ {typed}", f"{len(found)} of 3 runs")
        await pilot.press("escape")
        await until(pilot, lambda: len(rows(pilot)) == 3)

    drive(world.board(), use)


def test_typing_into_the_filter_presses_no_keys(world: World) -> None:
    world.run("quick-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "quick-aaaaaa")
        await pilot.press("slash", "q", "x", "1")
        assert pilot.app.is_running
        await shows(pilot, "0 of 1 runs")

    drive(world.board(), use)


def test_runs_are_sorted_grouped_and_reversed(world: World) -> None:
    world.run("b-aaaaaa", name="bee", host="h2")
    world.run("a-bbbbbb", name="ant", host="h1")
    world.run("c-cccccc", name="cat", host="h2")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("s")
        await until(pilot, lambda: rows(pilot) == ["a-bbbbbb", "b-aaaaaa", "c-cccccc"])
        await pilot.press("S")
        await until(pilot, lambda: rows(pilot) == ["c-cccccc", "b-aaaaaa", "a-bbbbbb"])
        await pilot.press("b")
        seen = await shows(pilot, "grouped by host", "2 runs", "1 run")
        assert seen.index("h2  2 runs") < seen.index("h1  1 run")

    drive(world.board(), use)


def test_a_click_on_a_title_sorts_by_its_column_and_another_turns_the_order_round(world: World) -> None:
    world.hosts(
        box={"ssh": "root@192.0.2.1", "price_per_hour": 10}, cheap={"ssh": "root@192.0.2.2", "price_per_hour": 1}
    )
    for run_id, host, loss in (("a-aaaaaa", "cheap", 1.0), ("b-bbbbbb", "box", 3.0), ("c-cccccc", "free", 2.0)):
        world.run(run_id, host=host)
        world.losses(run_id, [loss])
    world.run("q-dddddd", host="box", state="queued", started_at=None)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "$10.0", "$1.0")
        assert "$0" not in next(line for line in seen.splitlines() if "dddddd" in line), "what waits costs nothing yet"
        heads = next(line for line in seen.splitlines() if "PROGRESS" in line)
        y = seen.splitlines().index(heads)
        for title, order in (
            ("LOSS", ["a-aaaaaa", "c-cccccc"]),
            ("LOSS", ["q-dddddd", "b-bbbbbb"]),
            ("NAME", ["a-aaaaaa", "b-bbbbbb"]),
            ("COST", ["b-bbbbbb", "a-aaaaaa"]),
        ):
            await pilot.click(offset=(heads.index(title) + 1, y))
            await until(pilot, lambda order=order: rows(pilot)[:2] == order)  # type: ignore[misc]  # bound by its default

    drive(world.board(), use, (170, 40))


def test_rows_move_when_what_they_are_sorted_by_changes(world: World) -> None:
    for number, run_id in enumerate(("one-aaaaaa", "two-bbbbbb")):
        world.run(run_id)
        world.losses(run_id, [1.0 + number])

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 2)
        await pilot.press("s", "s", "s", "s")
        await shows(pilot, "by loss")
        await until(pilot, lambda: rows(pilot) == ["one-aaaaaa", "two-bbbbbb"])
        world.losses("two-bbbbbb", [0.5])
        await until(pilot, lambda: rows(pilot) == ["two-bbbbbb", "one-aaaaaa"])
        runs.mark_unreachable(world.database, ["one-aaaaaa"], "no answer")
        await shows(pilot, "no answer", "2 need you")  # they are on one host

    drive(world.board(), use)


def test_marks_are_for_acting_on_several_and_the_question_names_them(world: World) -> None:
    world.run("one-aaaaaa")
    world.run("two-bbbbbb")
    world.run("end-cccccc", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("a")
        await shows(pilot, "3 marked")
        await pilot.press("x")
        seen = await shows(pilot, "Stop 2 runs?")
        assert "one-aaaaaa on box" in seen
        assert "two-bbbbbb on box" in seen
        assert "end-cccccc on box" not in seen
        await pilot.press("escape")
        await shows(pilot, "3 marked")
        await pilot.press("escape")
        await lacks(pilot, "marked")

    drive(world.board(), use)


def test_the_cursor_stays_on_its_run_when_others_come(world: World) -> None:
    for letter in "abc":
        world.run(f"run-{letter * 6}")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 3)
        await pilot.press("end")
        table = pilot.app.screen.query_one(RunTable)
        held = table.cursor
        world.run("zoo-dddddd", state="failed")
        await until(pilot, lambda: len(rows(pilot)) == 4)
        assert table.cursor == held

    drive(world.board(), use)


@pytest.mark.parametrize("keys", [("end",), ("pagedown",) * 12, ("down",) * 60])
def test_the_last_run_can_be_reached_though_a_line_under_it_says_why(world: World, keys: tuple[str, ...]) -> None:
    for number in range(50):
        world.run(f"run-{number:06}", state="failed", reason="oom")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 50)
        await pilot.press(*keys)
        assert pilot.app.screen.query_one(RunTable).cursor == rows(pilot)[-1]
        await pilot.press("home")
        assert pilot.app.screen.query_one(RunTable).cursor == rows(pilot)[0]

    drive(world.board(), use)


def test_the_preview_draws_the_loss_and_says_which_key_fetches_the_log(world: World) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=9)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "loss", "press l to follow", "highest 3")
        assert any(0x2800 < ord(character) <= 0x28FF for character in seen)
        world.losses("demo-aaaaaa", [0.5])
        await shows(pilot, "0.5")

    drive(world.board(), use)


def test_a_run_that_waits_for_its_start_has_no_log(world: World) -> None:
    world.run("demo-aaaaaa", state="queued", started_at=None)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no log yet: it waits; press l to follow")
        await pilot.press("enter")
        await shows(pilot, "overview", "no log yet: it waits; press l to follow")
        world.run("again-bbbbbb", state="queued", started_at=1.0)  # it was put back into the queue
        await pilot.press("escape")
        await shows(pilot, "again")
        await pilot.press("home")
        await shows(pilot, "log not synced yet; press l to follow")

    drive(world.board(), use, (160, 48))


def test_the_end_of_a_local_log_is_in_the_preview(world: World) -> None:
    log = world.local_log("demo-aaaaaa", "first line\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "first line")
        with log.open("a") as file:
            file.write("second line\n")
            file.write("日本語 " * 200 + "\n")
            file.write("the last line\n")
        seen = await shows(pilot, "first line", "second line", "the last line")
        places = [number for number, line in enumerate(seen.splitlines()) if " line" in line or "日本語" in line]
        assert places == list(range(places[0], places[0] + 4)), "a long line stays in its own place"

    drive(world.board(), use)


def test_read_only_starts_nothing_and_says_so(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 1)
        await until(pilot, world.home.looked_at.exists)  # so that a daemon knows that somebody looks
        for key in ("x", "y", "r"):
            await pilot.press(key)
        await until(pilot, lambda: len(heard(pilot)) >= 3)
        assert all("--read-only" in note for note in heard(pilot))
        assert len(pilot.app.screen_stack) == 1
        assert not (world.home.state / "dashboard").exists()

    drive(world.board(read_only=True), use)


def places() -> list[tuple[str, Key]]:
    """Every key that changes something, with the keys that lead to where it works."""
    ways = {"runs": "", "run": "2", "hosts": "3", "sync": "4", "launch": "5", "everywhere": "", "history": "7"}
    ways["compare"] = "6"
    return [(ways[key.where], key) for key in KEYS if key.changes]


@pytest.mark.parametrize(("way", "key"), places(), ids=lambda value: getattr(value, "action", ""))
def test_read_only_refuses_every_key_that_changes_something(world: World, way: str, key: Key) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa")
    world.checkpoint("demo-aaaaaa", 7, home=False)

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 1)
        await pilot.press(*way)
        if key.page:
            await pilot.press("h")
            await shows(pilot, "checkpoint-7")
        if way == "3":
            await shows(pilot, "not checked")
            await pilot.press("home")
        if key.where == "launch" and not key.always:
            await pilot.press("shift+tab")  # out of the field, which would take the key
        before = len(pilot.app.screen_stack)
        await pilot.press(key.keys.split(",")[0])
        await pilot.pause()
        await until(pilot, lambda: heard(pilot) or key.action == "launch")
        assert all("--read-only" in note or key.where == "launch" for note in heard(pilot))
        assert len(pilot.app.screen_stack) <= before + (key.action == "launch")
        assert not (world.home.state / "dashboard").exists()
        if key.action != "launch":  # there a question mark would be typed into a field
            await pilot.press("question_mark")
            await shows(pilot, "(off: --read-only)")

    drive(world.board(read_only=True), use)


def test_help_and_palette_have_every_key_of_every_place(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 1)
        text = words("runs", UNICODE, read_only=False).plain
        assert all(key.help in text and key.shown in text for key in KEYS)
        for place in ("runs", "run", "hosts", "sync", "launch", "compare"):
            pilot.app.call_later(pilot.app.run_action, f"go('{place}')")
            await until(pilot, lambda place=place: getattr(pilot.app.screen, "PLACE", "") == place)  # type: ignore[misc]
            titles = " ".join(command.title for command in pilot.app.get_system_commands(pilot.app.screen))
            mine = [key for key in KEYS if key.where in (place, "everywhere") and key.action != "command_palette"]
            assert all(f"{key.help} ({key.shown})" in titles for key in mine)

    drive(world.board(), use)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (80, 24), (300, 100)])
def test_every_size_is_drawn(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=9)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 1)
        for key in ("2", "c", "l", "3", "4", "5", "escape", "6", "escape", "question_mark", "escape"):
            await pilot.press(key)
            await pilot.pause()
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        assert pilot.app.is_running

    drive(world.board(), use, size)


def test_a_store_that_goes_away_is_said_and_comes_back(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        world.database.connection.execute("ALTER TABLE revision RENAME TO gone")
        await shows(pilot, "the store cannot be read → armada recover: no such table", "demo-aaaaaa")
        world.database.connection.execute("ALTER TABLE gone RENAME TO revision")
        await shows(pilot, "1 running")

    drive(world.board(), use)


def test_ten_thousand_runs_keep_the_keys_alive(world: World) -> None:
    with world.database.transaction() as connection:
        connection.executemany(
            "INSERT INTO runs (run_id, name, host, task, spec, state, created_at) VALUES (?, ?, 'box', 'sft', '{}', 'queued', ?)",
            [(f"run-{number:06}", f"run {number}", float(number)) for number in range(10_000)],
        )

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 10_000)
        await pilot.press("end")
        await shows(pilot, "run 0 ")
        await pilot.press("home")
        assert "run 9999" in screen(pilot)

    drive(world.board(), use)


def test_under_the_cursor_the_keys_that_help_hang_behind_the_reason(world: World) -> None:
    world.run("dead-aaaaaa", state="failed", reason="oom", message="CUDA out of memory")
    world.run("lost-bbbbbb")
    runs.mark_unreachable(world.database, ["lost-bbbbbb"], "no route to host")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no route to host", "CUDA out of memory")
        first = pilot.app.screen
        assert isinstance(first, RunsScreen)
        table = first.table
        table.place("dead-aaaaaa")
        seen = await shows(pilot, "CUDA out of memory   u resume  R relaunch")
        assert "r check again" not in seen
        table.place("lost-bbbbbb")
        await shows(pilot, "no route to host   r check again")
        await lacks(pilot, "u resume  R relaunch")
        await pilot.resize_terminal(50, 30)
        await lacks(pilot, "r check again")

    drive(world.board(), use)


def test_the_key_line_leaves_out_what_a_run_that_succeeded_needs_no_more(world: World) -> None:
    world.run("calm-aaaaaa", state="succeeded")
    world.run("busy-bbbbbb", state="running")

    async def use(pilot: Pilot[None]) -> None:
        first = pilot.app.screen
        assert isinstance(first, RunsScreen)
        await shows(pilot, "2 of 2 runs", "x stop")
        first.table.place("calm-aaaaaa")
        seen = (await shows(pilot, "n launch")).splitlines()[-1]
        assert "x stop" not in seen
        assert "u resume" not in seen
        first.table.place("busy-bbbbbb")
        await shows(pilot, "x stop")

    drive(world.board(), use, (80, 24))


def test_runs_of_one_name_are_told_apart_by_the_ends_of_their_ids(world: World) -> None:
    for end in ("0d30y8", "q7q7q7"):
        world.run(f"own-script-{end}", name="own-script")
    world.run("other-script-abcdef", name="other-script")

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "own-scri… 0d30y8", "own-scri… q7q7q7", "other-script")
        assert "abcdef" not in seen.partition("NAME")[2].partition("╰")[0], "nobody else has its name"
        await pilot.resize_terminal(160, 48)
        await shows(pilot, "own-script 0d30y8", "own-script q7q7q7", "other-script abcdef")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_a_cost_in_a_currency_without_a_sign_is_not_cut(world: World, size: tuple[int, int]) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price": "12.40 EUR"})
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        if size[0] == 120:  # else COST has no room
            await until(pilot, lambda: " EUR" in screen(pilot).partition("NAME")[2].partition("╰")[0])
        assert "EUR…" not in screen(pilot)
        await pilot.press("3")
        seen = await shows(pilot, "PRICE", "not checked")
        assert "12.40 EUR/h" in next(line for line in seen.splitlines() if " box " in line)

    drive(world.board(), use, size)
