"""Log, charts, checkpoints and config of one run: what is more than a look at them."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.pilot import Pilot
from textual.widgets import Input

from armada.store import checkpoints, metrics, operations
from armada.tui.screens.run import RunScreen
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.log_view import LogView
from tests.answers import outbox
from tests.tui.conftest import World, drive, heard, lacks, said, screen, shows, until


@functools.cache
def hundred_thousand_lines() -> str:
    """A line a second, from a midnight on."""
    start = 1_790_000_000 - 1_790_000_000 % 86_400
    times = (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(start + number)) for number in range(100_000))
    return "".join(f"{stamp} line {number}\n" for number, stamp in enumerate(times))


@pytest.fixture
def log(world: World) -> Path:
    """A long log of a run on this machine."""
    world.run("demo-aaaaaa", host="local")
    path = world.home.local_root / "runs" / "demo-aaaaaa" / "output.log"
    path.parent.mkdir(parents=True)
    path.write_text(hundred_thousand_lines())
    return path


def top(pilot: Pilot[None]) -> str:
    """The number of the first line in sight."""
    return screen(pilot).splitlines()[3].strip("│ ").partition(" line ")[2]


async def type_into(pilot: Pilot[None], key: str, text: str) -> None:
    await pilot.press(key)
    field = pilot.app.screen.query_one("#find", Input)
    await until(pilot, lambda: field.has_focus)
    field.value = text
    await pilot.press("enter")


@pytest.mark.parametrize(
    ("place", "first"),
    [
        ("1", 0),
        ("4,001", 4000),
        ("100000", 99_999),
        ("50%", None),
        ("@2600000", None),
        ("01:02:03", 86_400 + 3723),
        ("23:59", 86_340),
        ("2026-09-21 00:01", 60),
    ],
)
def test_the_log_goes_to_a_line_a_share_a_byte_or_a_time(
    world: World, log: Path, place: str, first: int | None
) -> None:
    if first is None:
        offset = 2_600_000 if place.startswith("@") else log.stat().st_size // 2
        first = log.read_bytes()[:offset].count(b"\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "line 99999", "following")
        await type_into(pilot, "J", place)
        await until(pilot, lambda: top(pilot) == str(first))
        await lacks(pilot, "following")
        await pilot.press("end")
        await shows(pilot, "line 99999", "following")

    drive(world.board(), use)


@pytest.mark.parametrize("place", ["nonsense", "101%", "25:00", "@x", "-5"])
def test_what_is_no_place_in_a_log_is_said_with_what_is(world: World, log: Path, place: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await type_into(pilot, "J", place)
        await until(pilot, lambda: f"{place!r} is not a position in a log" in said(pilot) and "45%" in said(pilot))
        await shows(pilot, "following")

    drive(world.board(), use)


@pytest.mark.parametrize("sign", ["{}", "@{}", "step {}", "{}%"])
def test_a_number_that_is_too_long_to_be_read_is_no_place_in_a_log(world: World, log: Path, sign: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await type_into(pilot, "J", sign.format("9" * 5000))
        await until(pilot, lambda: "…' is not a position in a log" in said(pilot))
        await shows(pilot, "following")

    drive(world.board(), use)


@pytest.mark.parametrize("place", ["2000000", "2027-01-01 00:00"])
def test_a_place_beyond_the_log_is_not_found_and_nothing_moves(world: World, log: Path, place: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await type_into(pilot, "J", place)
        await until(pilot, lambda: "not found" in said(pilot))
        await shows(pilot, "line 99999", "following")

    drive(world.board(), use)


def test_a_search_goes_both_ways(world: World, log: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await type_into(pilot, "slash", "LINE 777")  # capitals mean themselves
        await until(pilot, lambda: "not found" in said(pilot))
        await type_into(pilot, "slash", "line 777")
        for key, found in (("N", "77799"), ("n", "77798"), ("n", "77799")):
            await until(pilot, lambda found=found: top(pilot) == found)  # type: ignore[misc]  # bound by its default
            await pilot.press(key)
        await until(pilot, lambda: "towards the end" in said(pilot))
        assert top(pilot) == "77799"

    drive(world.board(), use)


@pytest.mark.parametrize("key", ["n", "N"])
def test_a_search_that_goes_on_from_the_only_match_says_so(world: World, log: Path, key: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await type_into(pilot, "slash", "line 77798")
        await shows(pilot, "1 of 1")
        await pilot.press(key)
        await until(pilot, lambda: "this is the only match in the copy at home: “line 77798”" in said(pilot))
        assert "not found" not in said(pilot)
        assert top(pilot) == "77798"

    drive(world.board(), use)


def test_a_page_that_is_drawn_again_has_not_forgotten_which_lines_it_has_counted(world: World, log: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "line 99999", "lines 99,9")
        page = pilot.app.screen
        assert isinstance(page, RunScreen)
        file = page.log_view.file
        page.tick()
        page.draw()
        assert page.log_view.file is file
        with log.open("a") as grown:
            grown.write("the newest line\n")
        await shows(pilot, "the newest line", "–100,001")
        assert page.log_view.file is file

    drive(world.board(), use)


def test_enter_without_a_word_ends_the_search(world: World, log: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await type_into(pilot, "slash", "line 7779")
        await shows(pilot, "search “line 7779”")
        view = pilot.app.screen.query_one(LogView)

        def marked() -> list[str]:
            drawn = [segment for y in range(view.size.height) for segment in view.render_line(y)]
            return [segment.text for segment in drawn if segment.style is not None and segment.style.bold]

        await until(pilot, marked)
        before = top(pilot)
        await type_into(pilot, "slash", "")
        await lacks(pilot, "search “line 7779”")
        assert not marked()
        assert top(pilot) == before
        assert "not found" not in said(pilot)

    drive(world.board(), use)


def _is_lit(segment: Segment) -> bool:
    return segment.style is not None and bool(segment.style.underline)


def said_in(row: str) -> str:
    """What a row of the log says, without the frame and the number of the line."""
    return row.lstrip("│ 0123456789")


def test_a_line_of_a_megabyte_and_no_newline_are_jumped_over(world: World) -> None:
    world.run("demo-aaaaaa", host="local")
    path = world.home.local_root / "runs" / "demo-aaaaaa" / "output.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1_000_000 + b"\nsecond\nthird without an end")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "third without an end")
        for place, first in (("2", "second"), ("3", "third without an end"), ("10%", "xxxxxxxx")):
            await type_into(pilot, "J", place)
            await until(pilot, lambda first=first: said_in(screen(pilot).splitlines()[3]).startswith(first))  # type: ignore[misc]
            view = pilot.app.screen.query_one(LogView)
            drawn = [view.render_line(y) for y in range(view.size.height)]
            (marked,) = [strip.text for strip in drawn if any(map(_is_lit, strip))]
            assert said_in(marked).startswith(first)

    drive(world.board(), use)


def test_dragging_over_a_chart_zooms_all_of_them_and_a_double_click_shows_the_whole(world: World) -> None:
    world.run("demo-aaaaaa", step=1000, total_steps=1000)
    world.losses("demo-aaaaaa", [3.0 / (1 + step / 10) for step in range(1000)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "v")
        await shows(pilot, "loss (1 of 2)", "num_tokens (2 of 2)")
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        first, second = list(view.wall.query(Chart))[:2]
        plot = first.size.width - 10
        quarter, half = 9 + plot // 4, 9 + plot // 2
        await pilot.mouse_down(first, offset=(quarter, 3))
        await pilot.hover(first, offset=(half, 3))
        await pilot.pause()
        marked = [segment for segment in first.render_line(3) if segment.style and segment.style.reverse]
        assert sum(len(segment.text) for segment in marked) == half - quarter + 1
        await pilot.mouse_up(first, offset=(half, 3))
        await shows(pilot, "zoomed: 0 shows all")
        low, high = first.view
        assert low == pytest.approx(250, abs=15)
        assert high == pytest.approx(500, abs=15)
        assert second.view == first.view
        await pilot.press("right")
        await until(pilot, lambda: first.view[0] > low)
        await pilot.double_click(first, offset=(half, 3))
        await lacks(pilot, "zoomed")
        assert (first.view, second.view) == ((1.0, 1000.0), (1.0, 1000.0))

    drive(world.board(), use)


def test_a_click_without_a_drag_changes_nothing(world: World) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=9)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 2)")
        chart = pilot.app.screen.query(Chart).first()
        await pilot.click(chart, offset=(30, 3))
        await pilot.pause()
        assert chart.chosen is None
        assert pilot.app.mouse_captured is None

    drive(world.board(), use)


def test_config_is_held_against_a_run_that_is_chosen_by_typing(world: World) -> None:
    for run_id, rate, revision in (
        ("one-aaaaaa", 1e-4, "abc"),
        ("two-bbbbbb", 5e-5, "def"),
        ("six-cccccc", 1e-4, "abc"),
    ):
        spec = {"job": {"argv": []}, "experiment": {"train": {"learning_rate": rate, "seed": 5}}}
        spec["project"] = {"revision": revision, "dirty": True}
        world.run(run_id, spec=spec)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        table = pilot.app.screen_stack[0].query_one("#table")
        table.place("one-aaaaaa")  # type: ignore[attr-defined]  # a RunTable
        await pilot.press("enter")
        await shows(pilot, "git revision abc, with uncommitted changes")
        await pilot.press("f", "d")
        await shows(pilot, "Compare its settings with which run?", "six-cccccc", "two-bbbbbb")
        await pilot.press(*"two")
        await lacks(pilot, "six-cccccc")
        await pilot.press("enter")
        seen = await shows(pilot, "train.learning_rate", "0.0001", "5e-05", "(project).revision")
        assert "seed" not in seen
        await pilot.press("escape")
        await shows(pilot, "seed")
        await pilot.press("d", *"six", "enter")
        await shows(pilot, "nothing differs")

    drive(world.board(), use)


def test_a_run_alone_has_nothing_to_be_compared_with(world: World) -> None:
    world.run("one-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await pilot.press("enter", "f", "d")
        await until(pilot, lambda: "no other run" in said(pilot))

    drive(world.board(), use)


SAVER = """
import hashlib, json, os
part = os.path.join(os.environ["ARMADA_RUN_DIR"], "outbox", ".part-7")
os.makedirs(part)
data = os.urandom(5000)
open(os.path.join(part, "weights.bin"), "wb").write(data)
files = [{"path": "weights.bin", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}]
text = json.dumps({"format": 1, "run_id": os.environ["ARMADA_RUN_ID"], "attempt": 1, "step": 7, "created_at": 1.0, "files": files})
open(os.path.join(part, "MANIFEST.json"), "w").write(text)
os.rename(part, os.path.join(os.environ["ARMADA_RUN_DIR"], "outbox", hashlib.sha256(text.encode()).hexdigest()))
"""


def test_one_checkpoint_is_pulled_and_copied_into_a_folder_and_its_path_is_copied(world: World) -> None:
    Path("saver.py").write_text(SAVER)
    argv = [sys.executable, str(Path("saver.py").absolute())]
    Path("exp.yaml").write_text(json.dumps({"name": "saver", "task": "command", "command": argv}))
    launched = subprocess.run(
        [sys.executable, "-m", "armada", "launch", "--host", "local", "exp.yaml", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    run_id = json.loads(launched.stdout)["run_id"]
    board = world.board()

    def known() -> list[checkpoints.Checkpoint]:
        return checkpoints.of_run(world.database, run_id)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("r")
        await until(pilot, lambda: "check all hosts done" in heard(pilot))
        await shows(pilot, "saver")
        await pilot.press("enter", "p")
        await shows(pilot, "checkpoint-7", "not yet")
        await pilot.press("P")
        await shows(pilot, "Copy checkpoint-7 into which folder?", f"{run_id}-checkpoint-7")
        await pilot.press("escape")
        await lacks(pilot, "which folder")
        assert not operations.of_run(world.database, run_id, kind="pull")
        await pilot.press("p")
        await until(pilot, lambda: known()[0].home_path is not None)
        await shows(pilot, "  home")
        await pilot.press("Y")
        assert board.clipboard == str(known()[0].home_path)
        await pilot.press("P")
        await shows(pilot, "which folder")
        pilot.app.screen.query_one(Input).value = "taken home"
        await pilot.press("enter")
        await until(pilot, lambda: "pull checkpoint-7 to taken home done" in said(pilot))

    drive(board, use)
    assert (Path("taken home") / "weights.bin").stat().st_size == 5000


def test_of_two_checkpoints_of_one_step_the_one_under_the_cursor_is_meant(world: World) -> None:
    world.run("demo-aaaaaa", host="local")
    entry = {"step": 7, "size_bytes": 1, "file_count": 1}
    entries = [{**entry, "digest": letter * 64, "created_at": at} for letter, at in (("a", 1.0), ("b", 2.0))]
    checkpoints.record_outbox(world.database, "demo-aaaaaa", outbox(entries))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "h")
        await shows(pilot, "checkpoint-7")
        await pilot.press("end", "p")
        await until(pilot, lambda: "pull checkpoint-7 ended with" in said(pilot))

    drive(world.board(), use)
    (pull,) = operations.of_run(world.database, "demo-aaaaaa", kind="pull")
    assert pull.argv[-1] == "a" * 16


def test_what_is_copied_is_what_is_in_sight(world: World, log: Path) -> None:
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("Y")
        assert board.clipboard == "demo-aaaaaa"
        await pilot.press("l")
        await shows(pilot, "line 99999")
        await pilot.press("Y")
        assert board.clipboard.splitlines()[-1].endswith(" line 99999")
        assert len(board.clipboard.splitlines()) > 10
        await pilot.press("o", "Y")
        assert board.clipboard == "demo-aaaaaa"

    drive(board, use)


def test_the_line_at_the_bottom_shows_the_keys_of_the_page_in_sight(world: World, log: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        for key, words, others in (
            ("enter", ("charts", "y sync now"), ("J jump", "m metric", "p pull")),
            ("l", ("/ search", "J jump"), ("m metric", "p pull")),
            ("c", ("m metric", "v panels"), ("J jump", "p pull")),
            ("h", ("p pull", "P pull to"), ("J jump", "m metric")),
            ("f", ("d compare",), ("J jump", "m metric")),
        ):
            await pilot.press(key)
            await until(pilot, lambda words=words: all(word in screen(pilot).splitlines()[-1] for word in words))  # type: ignore[misc]
            assert not any(word in screen(pilot).splitlines()[-1] for word in others)

    drive(world.board(), use)


@pytest.mark.parametrize("page", ["o", "e"])
def test_a_key_of_another_page_opens_that_page_and_does_nothing_else_at_first(
    world: World, log: Path, page: str
) -> None:
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        view = board.screen
        assert isinstance(view, RunScreen)
        choices = view.wall.choices

        def chosen() -> object:
            return (choices.smoothing, choices.against, choices.logarithmic, choices.panels, view.log_view.wrapping)

        before, windows = chosen(), len(board.screen_stack)
        for keys, tab in (("svbLm", "charts"), ("WJr", "log"), ("pP", "checkpoints"), ("d", "config")):
            for key in keys:
                await pilot.press(page)
                assert view.shown != tab
                await pilot.press(key)
                assert (view.shown, chosen(), len(board.screen_stack)) == (tab, before, windows), key
                assert not view.field.has_class("open"), key
                assert not said(pilot), key
        await pilot.press("s", "s")
        assert view.shown == "charts"
        assert chosen() != before, "the second press acts"

    drive(board, use)


def test_the_arrows_open_charts_on_the_overview_and_leave_no_list(world: World) -> None:
    world.run("demo-aaaaaa")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        view = board.screen
        assert isinstance(view, RunScreen)
        for page, tab in (("e", "events"), ("h", "checkpoints"), ("f", "config")):
            await pilot.press(page, "right", "left")
            assert view.shown == tab
        await pilot.press("o", "right")
        assert view.shown == "charts"

    drive(board, use)


def test_the_event_under_the_cursor_is_shown_whole_below(world: World) -> None:
    world.run("demo-aaaaaa")
    long = f"CUDA out of memory {'word ' * 120}the very end"
    detail = {"state": "failed", "reason": "oom", "message": long}
    assert len(long) > 400
    happened = [{"seq": 1, "time": 1.0, "kind": "begun"}, {"seq": 2, "time": 2.0, "kind": "state", **detail}]
    metrics.record_events(world.database, "demo-aaaaaa", happened, offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "e")
        seen = await shows(pilot, "CUDA out of memory", "very end")
        assert seen.index("very end") > seen.index("╰"), "below the list"
        await pilot.press("down")
        await lacks(pilot, "very end")
        await pilot.press("up")
        await shows(pilot, "very end")
        await pilot.press("h")
        await lacks(pilot, "very end")

    drive(world.board(), use, (80, 24))
