"""The history of a host with many GPUs: each can be told from the others, with colours and without."""

from __future__ import annotations

import math
import time
from array import array

import pytest
from textual.color import Color
from textual.pilot import Pilot

from armada.store import hosts, telemetry
from armada.tui import heat
from armada.tui.curves import NAN, Levels
from armada.tui.gpu_strips import gpu_spans, loads
from armada.tui.symbols import ASCII, UNICODE, Symbols
from armada.tui.widgets.braille import Window
from armada.tui.widgets.chart_plane import LABEL, Line
from armada.tui.widgets.gpu_chart import GpuChart, columns_of, spread
from tests.tui.conftest import World, drive, lacks, screen, shows, strips, until


def record(world: World, count: int) -> None:
    """A host whose GPU n is used by n × 12 per cent, draws n × 50 W, and is at 40 + n °C."""
    world.hosts(box={"ssh": "root@192.0.2.1"})
    gpus = [{"index": gpu, "name": "NVIDIA H100", "memory_total_bytes": 80 << 30} for gpu in range(count)]
    hosts.record_facts(world.database, "box", {"gpus": gpus})
    now = time.time()
    telemetry.record(
        world.database,
        "box",
        [
            telemetry.Point(gpu, now - ago, min(100.0, gpu * 12.0), gpu << 30, gpu * 50.0, 40.0 + gpu)
            for gpu in range(count)
            for ago in range(890, 0, -10)
        ],
    )


def rows(seen: str) -> list[list[str]]:
    """The lines of the charts: number, value and strip of each measure."""
    found = [line.strip("│").replace("│", " ").split() for line in seen.splitlines() if line.startswith("│")]
    return [words for words in found if words and words[0].isdecimal()]


@pytest.mark.parametrize("size", [(160, 48), (120, 36), (80, 24), (250, 60)])
def test_each_of_eight_gpus_has_a_strip_with_its_value_for_each_measure(world: World, size: tuple[int, int]) -> None:
    record(world, 8)
    expected = [[gpu, min(100, gpu * 12), gpu, gpu, gpu, gpu * 50, gpu, 40 + gpu] for gpu in range(8)]

    def told(seen: str) -> list[list[int]]:
        """The numbers of each line: the limits, and each GPU."""
        return [[int(word) for word in words if word.isdecimal()] for words in rows(seen)]

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "8×H100")
        await shows(pilot, "utilisation %", "memory GiB", "power W", "temperature °C", "0 to 100", "0 to 80", "15 m")
        await until(pilot, lambda: told(screen(pilot))[1:] == expected)  # the charts are placed after they are filled
        assert not any(0x2800 < ord(character) <= 0x28FF for character in screen(pilot))

    drive(world.board(), use, size)


def test_of_more_gpus_than_lines_the_extremes_and_the_median_are_curves(world: World) -> None:
    record(world, 16)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "16×H100")
        await shows(pilot, "- min 0", "+ max 100", "~ median 90", "+ max 750", "~ median 375")
        await pilot.resize_terminal(160, 60)
        await lacks(pilot, "median")
        await shows(pilot, "15  100")
        await pilot.resize_terminal(80, 24)
        await shows(pilot, "~ median 90")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize("others", range(7))
def test_a_chart_of_a_host_has_two_ticks_at_least_wherever_it_has_two_rows(world: World, others: int) -> None:
    record(world, 30)
    world.hosts(
        box={"ssh": "root@192.0.2.1"}, **{f"other-{n}": {"ssh": f"root@192.0.2.{n + 2}"} for n in range(others)}
    )

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "30×H100", "~ median")

        def is_well_labelled(chart: GpuChart) -> bool:
            lines = [chart.render_line(row).text for row in range(1, chart.size.height)]
            labels = [line[:LABEL].strip() for line in lines if line[:LABEL].strip()]
            # two rows are the plot's, and more have times below it
            has_times = bool(lines) and ":" in lines[-1]
            return (len(labels) >= 2 or (len(lines) < 2 and not labels)) and has_times is (len(lines) != 2)

        # The charts are placed after they are filled.
        await until(pilot, lambda: all(is_well_labelled(chart) for chart in pilot.app.screen.query(GpuChart)))

    drive(world.board(), use, (80, 24))


def test_the_crosshair_says_the_values_of_all_gpus_at_a_moment_of_all_measures(world: World) -> None:
    record(world, 6)
    telemetry.record(world.database, "box", [telemetry.Point(5, time.time() - 5, 1.0, 1 << 30, 1.0, 41.0)])

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, " 5    1")
        chart = pilot.app.screen.query(GpuChart).first()
        await pilot.hover(chart, offset=(15, 5))
        await shows(pilot, " 5   60", " at ")
        assert all(each.cross is not None for each in pilot.app.screen.query(GpuChart))
        assert sum("│" in line.strip("│").replace("││", "") for line in screen(pilot).splitlines()) > 6
        await pilot.hover("Table")
        await shows(pilot, " 5    1")

    drive(world.board(), use, (160, 48))


def test_loads_differ_in_colour_in_every_theme_and_in_shape_without_any(world: World) -> None:
    record(world, 9)
    seen: dict[str, set[str]] = {}

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "9×H100", "▁")
        for theme in ("armada-dark", "armada-light"):
            pilot.app.theme = theme
            wanted = {pilot.app.theme_variables[name].upper() for name in heat.STYLES}

            def are_there(wanted: set[str] = wanted) -> bool:
                parts = [part for strip in strips(pilot.app) for part in strip if set(part.text) & set(UNICODE.loads)]
                named = [part.style.color for part in parts if part.style is not None]
                return wanted <= {Color.from_rich_color(each).hex for each in named if each is not None}

            await until(pilot, are_there)
            seen[theme] = wanted

    drive(world.board(), use, (160, 48))
    assert all(len(colours) == len(heat.STYLES) for colours in seen.values())


@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_a_strip_has_a_colour_for_each_load_and_keeps_its_characters(symbols: Symbols) -> None:
    shares = [0.0, 0.2, 0.5, 0.75, 1.0, 1.0, None]
    drawn = heat.heated(symbols.strip(shares), shares)
    assert [style for _, style in drawn] == ["load-1", "load-2", "load-3", "load-4", "load-5", "plain"]
    assert "".join(text for text, _ in drawn) == symbols.strip(shares)
    assert len(set(symbols.strip(shares[:5]))) >= 4
    assert heat.style_of(math.inf) == "plain"


def test_a_gpus_line_and_all_gpus_of_a_row_are_heat_strips() -> None:
    from armada.protocol.recorded import RecordedGpu

    points = [
        telemetry.Point(0, 900.0 - ago, 100.0 if ago < 450 else 0.0, None, None, None) for ago in range(890, 0, -10)
    ]
    gpu = RecordedGpu(index=0)
    styles = [style for text, style in gpu_spans(gpu, points, UNICODE, 10) if set(text) & set(UNICODE.loads)]
    assert (styles[0], styles[-1]) == ("load-1", "load-5")
    assert ("▆", "load-5") in loads([gpu], {0: points}, UNICODE, 8, 0)


def test_a_column_of_a_strip_is_the_mean_of_its_points_and_a_gap_stays_empty() -> None:
    xs = array("d", [0, 1, 2, 3, 3, 8, 9])
    line = Line("", xs, Levels([10, 20, 30, 40, NAN, 80, 90]), "0")
    assert columns_of(line, Window(0, 9, 0, 100), 10) == [10, 20, 30, 40, None, None, None, None, 80, 90]
    assert columns_of(line, Window(0, 9, 0, 100), 4) == [15, 35, None, 85]
    assert columns_of(line, Window(1, 2, 0, 100), 3) == [20, 20, 30]


def test_the_spread_of_gpus_is_taken_at_each_moment() -> None:
    one = Line("", array("d", [0, 10, 10, 20]), Levels([1.0, 2.0, NAN, 3.0]), "0")
    two = Line("", array("d", [0, 10, 20]), Levels([5.0, 6.0, 7.0]), "1")
    three = Line("", array("d"), Levels(), "2")
    lowest, highest, median = spread([one, two, three])
    assert list(lowest.xs) == [0, 10, 10, 20]
    assert [list(each.levels.values)[:2] for each in (lowest, highest, median)] == [[1, 2], [5, 6], [3, 4]]
    assert math.isnan(lowest.levels.values[2])
    assert spread([three]) == ()


@pytest.mark.parametrize(("watts", "scale"), [(92.0, "0 to 300"), (412.0, "0 to 412")])
def test_little_power_is_no_full_strip(world: World, watts: float, scale: str) -> None:
    record(world, 8)
    world.database.connection.execute("UPDATE telemetry SET power_w = ?", (watts,))

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "power W", scale)

    drive(world.board(), use, (160, 48))
