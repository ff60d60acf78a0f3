"""The visual language: ticks, strips, what is safe, what happened, the crosshair, frames and themes."""

from __future__ import annotations

import math
import time

import pytest
from textual.color import Color
from textual.constants import DIM_FACTOR
from textual.pilot import Pilot

from armada.store import hosts, runs, telemetry
from armada.store.telemetry import Point
from armada.tui import heat, ticks
from armada.tui import theme as themes
from armada.tui.curves import Levels, nearest
from armada.tui.gpu_strips import strip
from armada.tui.screens.host_text import ranges
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.snapshot import DaemonView
from armada.tui.symbols import ASCII, UNICODE, Symbols
from armada.tui.watcher import Watcher
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.run_table import height_of_few
from armada.tui.widgets.table import Entry
from armada.units import exact_span
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, screen, shows, strips, until


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.31, 3.47, [1.0, 2.0, 3.0]),
        (0.0, 0.05, [0.0, 0.02, 0.04]),
        (-5.0, 5.0, [-4.0, -2.0, 0.0, 2.0, 4.0]),
        (20.0, 14_400.0, [5000.0, 10_000.0]),
    ],
)
def test_ticks_are_at_1_2_or_5_times_a_power_of_ten(low: float, high: float, expected: list[float]) -> None:
    assert ticks.ticks(low, high, 5 if low < 0 else 3) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0.0, 0.0),
        (1.0, 1.0),
        (5.0, 1.0),
        (math.nan, 1.0),
        (0.0, math.inf),
        (-1e308, 1e308),
        (0.0, 5e-324),
        (1e16, 1e16 + 2),
    ],
)
def test_ticks_of_no_range_or_a_huge_one_are_few(low: float, high: float) -> None:
    assert len(ticks.ticks(low, high, 4)) <= 10
    assert all(math.isfinite(each) for each in ticks.ticks(low, high, 4))
    assert len(ticks.log_ticks(low, high, 4) if math.isfinite(high - low) and high - low < 400 else []) <= 1200


def test_ticks_of_one_axis_share_a_unit_and_their_digits() -> None:
    places = ticks.ticks(0, 12_000, 5)
    assert [ticks.figure(each, ticks.distance(places), 12_000) for each in places] == ["0", "5k", "10k"]
    assert [ticks.figure(each, 0.05, 0.2) for each in (0.05, 0.1)] == ["0.05", "0.10"]
    assert ticks.figure(3e-05, 1e-05) == "3e-05"
    assert [ticks.figure(each) for each in (0.0, math.inf, 0.38, 403_200_000.0)] == ["0", "inf", "0.38", "403.2M"]


def test_ticks_of_durations_are_whole_and_short() -> None:
    places = ticks.time_ticks(0, 20_000, 4, local=False)
    assert [exact_span(each) for each in places] == ["0", "2 h", "4 h"]
    assert exact_span(5400) == "1 h 30 m"


def test_the_nearest_point_of_a_curve_is_found_and_a_gap_has_no_value() -> None:
    xs, levels = [1.0, 2.0, 4.0], Levels([3.0, 2.0, math.nan])
    assert [nearest(xs, levels, place) for place in (-9, 1.4, 1.6, 2.9, 3.9, 9)] == [3.0, 3.0, 2.0, 2.0, None, None]
    assert nearest([], Levels(), 1.0) is None


def test_a_strip_holds_a_measurement_for_a_while_and_shows_silence() -> None:
    points = [Point(0, 1000.0 + at, load, None, None, None) for at, load in ((0, 100.0), (60, 500.0), (840, 0.0))]
    shown = strip(points, 15)
    assert shown[0] == shown[1] == shown[2] == 1.0
    assert shown[5] is None
    assert shown[-1] == 0.0
    assert strip([], 15) == strip(points, 0) == []
    assert strip([Point(0, 1.0, math.nan, None, None, None)], 2)
    for symbols in (UNICODE, ASCII):
        assert len(symbols.strip([0.0, None, 1.0, math.nan, 9.0, -1.0])) == 6


def test_numbers_are_written_as_ranges() -> None:
    assert ranges([6, 0, 1, 2, 3, 3]) == "0-3,6"
    assert ranges([]) == ""


def test_meters_have_their_width_and_a_share_that_is_no_number_is_nothing() -> None:
    for symbols in (UNICODE, ASCII):
        assert [len("".join(symbols.meter(share, 9))) for share in (-1, 0, 0.5, 1, 7, math.nan, math.inf)] == [9] * 7
        assert symbols.meter(math.nan, 4)[0] == ""


def test_a_theme_is_the_chosen_one_else_the_one_that_fits_the_terminal() -> None:
    assert themes.choose({"ARMADA_THEME": "nord", "COLORFGBG": "0;15"}, "gruvbox") == "nord"
    assert themes.choose({"ARMADA_THEME": "no such theme"}, "gruvbox") == "gruvbox"
    assert themes.choose({"ARMADA_THEME": "textual-light"}, None) == "armada-light"
    assert themes.choose({"COLORFGBG": "0;default;15"}, None) == "armada-light"
    for words in ("15;0", "", ";", "0;15;x", "7"):
        assert themes.choose({"COLORFGBG": words}, None) == ("armada-light" if words == "7" else "armada-dark")


def test_the_first_screen_says_what_is_safe_and_what_happened(world: World) -> None:
    world.hosts(near={"ssh": "root@192.0.2.1"}, far={"ssh": "root@192.0.2.2"})
    world.run("keep-aaaaaa", host="box-[/b]\x1b[31m")
    world.checkpoint("keep-aaaaaa", 100, home=False)
    world.run("lost-bbbbbb", host="far")
    runs.mark_unreachable(world.database, ["lost-bbbbbb"], "no route to host")
    with world.database.transaction() as connection:  # half an hour from the next word, however slow the machine
        connection.execute(
            "UPDATE runs SET unreachable_since = ? WHERE run_id = 'lost-bbbbbb'", (time.time() - 3 * 86_400 - 45_000,)
        )
    world.run("done-cccccc", host="near", state="succeeded")
    world.checkpoint("done-cccccc", 7, home=True)
    world.run("fail-dddddd", host="near", state="failed", reason="oom", message="[bold]2.1 GiB[/]")
    for run_id in ("done-cccccc", "fail-dddddd"):
        world.last_sync(run_id)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Is everything safe?", "1 checkpoint only there, 1 active run")
        await shows(pilot, "unreachable 3 d 12 h", "1 checkpoint home · 3 r before you destroy it")
        await shows(pilot, "What happened", "done-cccccc ckpt-7 home", "fail-dddddd failed: [bold]2.1 GiB[/]")
        verdict = Verdict("succeeded", attempt=1, seq=2)
        runs.record(world.database, "keep-aaaaaa", verdict, ended_at=time.time())  # only this run is summed up again
        await shows(pilot, "keep-aaaaaa succeeded", "done-cccccc ckpt-7 home")
        await lacks(pilot, "1 checkpoint only there, 1 active run")
        await pilot.press("p")
        await lacks(pilot, "What happened")

    drive(world.board(), use, (160, 48))


def test_the_overview_shows_curve_gpus_checkpoints_and_log_beside_the_facts(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", step=3, total_steps=9, gpus="[1]")
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])
    world.checkpoint("demo-aaaaaa", 3, home=True)
    gpus = [
        {"index": index, "name": "A100", "memory_total_bytes": 80 << 30, "memory_used_bytes": 1 << 30}
        for index in (0, 1)
    ]
    hosts.record_facts(world.database, "box", {"gpus": gpus})
    telemetry.record(world.database, "box", [Point(1, time.time(), 97.0, 71 << 30, 312.0, 71.0)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        seen = await shows(
            pilot, "because", "lowest 1 · highest 3", "97%   71/80 GiB", "2.1 GB  ✓ home", "press l to follow"
        )
        assert "1/80 GiB" not in seen.replace("71/80 GiB", ""), "only the GPUs of the run are shown"

    drive(world.board(), use, (140, 44))


def test_the_crosshair_is_at_the_same_place_in_all_charts_and_shows_their_values(world: World) -> None:
    world.run("demo-aaaaaa", step=100, total_steps=100)
    world.losses("demo-aaaaaa", [float(step) for step in range(100, 0, -1)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "v")
        await shows(pilot, "num_tokens (2 of 2)", "10k")
        await pilot.press("comma")
        await shows(pilot, "at step 100 1", "at step 100 10k")
        await pilot.press(*["comma"] * 10)
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        one, two = list(view.wall.query(Chart))[:2]
        assert one.cross == two.cross
        assert one.cross is not None
        assert 80 < one.cross < 100
        await pilot.press("full_stop")
        await until(pilot, lambda: one.cross is not None and two.cross == one.cross > 80)
        await pilot.hover(one, offset=(one.size.width // 2, 3))
        await until(pilot, lambda: one.cross is not None and one.cross < 60 and two.cross == one.cross)
        await pilot.press("0")
        await lacks(pilot, "at step")

    drive(world.board(), use)


def test_a_chart_without_points_has_no_crosshair() -> None:
    assert Chart(UNICODE).step_cross(-1) is None


def test_a_low_terminal_has_no_preview_and_its_table_all_the_room() -> None:
    runs_shown = [Entry(str(number), None) for number in range(5)]
    assert [height_of_few(runs_shown[:1], height) for height in (1, 5, 19, 20, 34)] == [None, None, None, 4, 6]
    assert [height_of_few(runs_shown, height) for height in (20, 24, 34)] == [8, 8, 10]
    assert height_of_few(runs_shown * 4, 36) is None


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 48), (250, 70)])
def test_few_runs_leave_their_room_to_the_preview(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa", host="[b]box")
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "1 of 1 runs", "· loss")
        first = board.screen
        assert isinstance(first, RunsScreen)
        await until(pilot, lambda: first.preview.size.height > first.table.size.height)
        assert first.table.size.height >= 2
        for number in range(size[1]):
            world.run(f"more-{number:02}aaaa", state="succeeded")
        await until(pilot, lambda: first.table.size.height > size[1] // 3)
        await pilot.press("slash", *"demo", "enter")  # the frames stay while one filters
        await shows(pilot, f"1 of {size[1] + 1} runs")
        assert first.table.size.height > size[1] // 3
        await pilot.press("escape", "p")
        await until(pilot, lambda: first.table.size.height > size[1] * 2 // 3)

    drive(board, use, size)


def eight_gpus(world: World) -> None:
    """A host with eight GPUs, each with a load of its own."""
    world.hosts(box={"ssh": "root@192.0.2.1"})
    gpus = [{"index": index, "name": "A100", "memory_total_bytes": 80 << 30} for index in range(8)]
    hosts.record_facts(world.database, "box", {"gpus": gpus})
    now = time.time()
    points = [
        Point(gpu, now - ago, 10.0 + 10 * gpu, gpu << 30, 50.0 + gpu, 30.0 + gpu)
        for gpu in range(8)
        for ago in range(850, 0, -50)
    ]
    telemetry.record(world.database, "box", points)


async def eight_curves(pilot: Pilot[None]) -> dict[str, list[tuple[str, str]]]:
    """Eight curves as a chart draws them, by their signs: pieces of text, each with its colour."""
    await shows(pilot, "Welcome")
    await pilot.press("3")
    await shows(pilot, "the daemon records this")
    chart = pilot.app.screen.query(Chart).first()
    await until(pilot, lambda: chart.size.height > 16)
    chart.show("", [Line("", [0.0, 1.0], Levels([10.0 * place] * 2), str(place)) for place in range(8)])
    found = {}
    for y in range(1, chart.size.height - 1):
        pieces = [(text, str(style.color) if style else "") for text, style, _ in chart.render_line(y)]
        sign = "".join(text for text, _ in pieces)[-1]  # the numbers of the axis are on the left
        if sign.isdigit():
            found[sign] = pieces
    return found


@pytest.mark.parametrize(
    ("symbols", "rows", "drawn"),
    [
        (UNICODE, 1, ["▁▁▄█ █"]),
        (UNICODE, 2, ["   █ █", "▁▁██ █"]),
        (UNICODE, 3, ["   █ █", "  ▄█ █", "▁▁██ █"]),
        (ASCII, 2, ["   # #", "__## #"]),
    ],
)
def test_loads_over_several_lines_stand_on_a_common_ground(symbols: Symbols, rows: int, drawn: list[str]) -> None:
    assert symbols.strips([0.0, 0.04, 0.5, 1.0, None, 7.0], rows) == drawn


@pytest.mark.parametrize(("gpus", "lines"), [("[0]", 3), ("[0, 1, 2, 3]", 15), ("[]", 31)])
def test_the_gpus_of_a_run_are_as_tall_as_their_frame_lets_them_be(world: World, gpus: str, lines: int) -> None:
    eight_gpus(world)
    world.run("demo-aaaaaa", gpus=gpus)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        first = pilot.app.screen
        assert isinstance(first, RunsScreen)
        panel = first.preview.gpus
        await until(pilot, lambda: len(panel.lines) == lines)
        await pilot.resize_terminal(250, 40)
        await until(pilot, lambda: len(panel.lines) <= panel.size.height)

    drive(world.board(), use, (250, 70))


def test_eight_curves_are_told_apart_by_colour_or_by_their_line(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        found = await eight_curves(pilot)
        assert sorted(found) == list("01234567")
        looks = set()
        for sign, pieces in found.items():
            colour = next(colour for text, colour in reversed(pieces) if sign in text)
            drawn = [text for text, its in pieces if its == colour and any("⠀" < each <= "⣿" for each in text)]
            looks.add((colour, len(drawn) > 1))
        assert len(looks) == 8

    drive(world.board(), use, (200, 70))


def test_without_colours_the_letters_of_curves_stand_along_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    world.hosts(box={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        found = await eight_curves(pilot)
        for sign, pieces in found.items():
            assert "".join(text for text, _ in pieces)[8:].count(sign) >= 2

    drive(world.board(), use, (200, 70))


@pytest.mark.parametrize("size", [(1, 1), (8, 2), (20, 5), (49, 15), (50, 16), (110, 34), (500, 200)])
def test_every_screen_draws_at_every_size(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=9)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        for keys in ("1", "2", "2c", "2l", "2k", "3", "4", "6", "5"):
            await pilot.press(*keys)
            await pilot.pause()
            assert len(strips(pilot.app)) == size[1]
            assert all(strip.cell_length == size[0] for strip in strips(pilot.app))

    drive(world.board(), use, size)


def test_without_utf8_everything_is_ascii(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    world.run("demo-aaaaaa", step=3, total_steps=9)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        for keys in ("1", "2", "2c", "3", "4"):
            await pilot.press(*keys)
            await pilot.pause()
            assert screen(pilot).isascii()
        assert "+-" in screen(pilot)

    drive(world.board(), use)


def _luminance(colour: Color) -> float:
    """Relative luminance, from 0 to 1, as WCAG 2.1 defines it."""
    parts = [each / 255 for each in colour.rgb]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("name", themes.CHOICES)
def test_all_words_of_a_theme_can_be_read_on_all_its_grounds(world: World, name: str) -> None:
    """3 to 1 is what WCAG asks of large text and of signs; dim text is measured as the screen draws it."""
    board = world.board()
    board.set_reactive(type(board).theme, name)
    found = {word: value for word, value in board.get_css_variables().items() if value.startswith("#")}
    ground, front, panel = (Color.parse(found[word]) for word in ("background", "foreground", "panel"))
    cursor = ground.blend(Color.parse(found["accent"]), 0.2)
    words = {role: Color.parse(found[f"text-{role}"]) for role in ("accent", "warning", "error", "success", "muted")}
    words |= {name: Color.parse(found[name]) for name in heat.STYLES}
    pairs = {
        (role, place): (words[role], behind)
        for role in words
        for place, behind in (("ground", ground), ("cursor", cursor))
    }
    pairs |= {
        ("dim", place): (behind.blend(front, DIM_FACTOR), behind)
        for place, behind in (("ground", ground), ("panel", panel))
    }
    for pair, (colour, behind) in pairs.items():
        low, high = sorted((_luminance(colour), _luminance(behind)))
        assert (high + 0.05) / (low + 0.05) >= 3.0, (pair, colour.hex, behind.hex)


def costly(world: World) -> None:
    """A run that needs the user, and an expensive host that is idle."""
    world.hosts(box={"ssh": "root@box", "price_per_hour": 2.5}, spare={"ssh": "root@spare", "price_per_hour": 122.5})
    world.run("demo-aaaaaa", host="box")
    world.run("dead-bbbbbb", host="gone")
    runs.mark_unreachable(world.database, ["dead-bbbbbb"], "no route to host")


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (140, ("6 Compare", "● 2 running", "▲ 1 needs you", "burning $125.00/h (idle $122.50)")),
        (120, ("6 Compare", "● 2 ", "▲ 1 needs you", "$125.00/h (idle $122.50)", "no daemon")),
        (100, ("1 Runs 2 3 4 5 6 ", "● 2 ", "▲ 1 needs you", "$125.00/h (idle $122.50)", "no daemon")),
        (80, ("1 Runs 2 3 4 5 6 ", "● 2 ", "▲ 1  $125.00/h (idle $122.50)", "no daemon")),
        (40, ("1 Runs", "● 2")),
    ],
)
def test_the_top_line_names_every_screen_before_it_says_a_sign_in_words(
    world: World, width: int, shown: tuple[str, ...]
) -> None:
    costly(world)

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: all(word in screen(pilot).splitlines()[0] for word in shown))

    drive(world.board(), use, (width, 30))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, ("● 2 ", "$125.00/h (idle $122.50)", "daemon ✓")),
        (76, ("1 Runs 2 3 4 5 6 ", "● 2 ", "▲ 1 ", "$125.00/h (idle $122.50)")),
    ],
)
def test_what_idle_hosts_cost_stays_longer_than_the_age_of_a_daemon_that_is_well(
    world: World, monkeypatch: pytest.MonkeyPatch, width: int, shown: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Watcher, "_daemon", lambda watcher: DaemonView("fresh", time.time()))
    costly(world)

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: all(word in screen(pilot).splitlines()[0] for word in shown))
        assert ("daemon" in screen(pilot).splitlines()[0]) == ("daemon ✓" in shown)

    drive(world.board(), use, (width, 30))
