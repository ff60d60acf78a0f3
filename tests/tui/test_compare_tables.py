"""Compare: the tables of runs and settings, and why a Pareto page has no front."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.pilot import Pilot

from armada.tui.symbols import UNICODE
from armada.tui.widgets.difference_table import cut_middle
from tests.tui.conftest import World, drive, lacks, screen, shows, styles, until
from tests.tui.test_compare import compared


def test_the_pinned_run_has_the_sign_of_pins_and_each_state_its_own(world: World) -> None:
    world.run("one-aaaaaa", state="succeeded", step=1, total_steps=1)
    world.run("two-bbbbbb", state="failed", step=1, total_steps=1)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c")
        seen = await shows(pilot, "✓ succeeded", "✗ failed")
        first, second = (line for line in seen.splitlines() if "✓ succeeded" in line or "✗ failed" in line)
        assert UNICODE.pin in first
        assert UNICODE.pin not in second
        assert UNICODE.star not in first + second, "a star marks starred runs"
        for word, colour in (("✓ succeeded", "text-success"), ("✗ failed", "text-error")):
            found = styles(pilot, word)[word].color
            assert found is not None
            assert Color.from_rich_color(found) == Color.parse(board.theme_variables[colour])

    drive(board, use)


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_the_best_value_has_a_word_and_columns_without_values_yield_their_room(
    world: World, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setenv("NO_COLOR", "1")
    for number, run_id in enumerate(("one-aaaaaa", "two-bbbbbb", "six-cccccc")):
        world.run(run_id, step=3, total_steps=3)
        world.losses(run_id, [3.0, 2.0, 1.5 - number / 4])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb", "six-cccccc")
        await pilot.press("a", "c")
        seen = await shows(pilot, "best 1 ", "AT STEP", "STATE")
        assert seen.count("best 1") == 1
        assert "best 1 " in next(line for line in seen.splitlines() if "six-cccccc" in line and "running" in line)
        assert "AT CURSOR" not in seen
        assert "COST" not in seen
        await pilot.press("comma")
        await shows(pilot, "AT CURSOR", "AT STEP", "running")
        world.hosts(box={"ssh": "root@box.example", "price": "123456 EUR"})
        seen = await shows(pilot, "COST", "AT CURSOR")
        assert "STATE" not in seen, "the last column leaves first, and none is cut"
        assert len(re.findall(r"123,\d{3} EUR ", seen)) == 3
        await pilot.press("0")
        await lacks(pilot, "AT CURSOR")
        await shows(pilot, "STATE")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize(("width", "name"), [(80, "…2e-05 r=64"), (160, "lr-rank learning_rate=2e-05 r=64")])
def test_cells_of_a_sweep_are_named_by_what_they_set(world: World, width: int, name: str) -> None:
    for cell, rank in enumerate((8, 64), 1):
        spec = {"job": {"argv": []}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": cell}}
        world.run(f"lr-{cell}aaaaa{cell}", name=f"lr-rank learning_rate={cell}e-05 r={rank}", spec=spec)
        world.losses(f"lr-{cell}aaaaa{cell}", [1.0, 12345.678])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7")
        await pilot.press("c")
        seen = await shows(pilot, "best 1 ", "running")
        rows = [line for line in seen.splitlines() if "● running" in line]
        assert len(rows) == 2
        assert any(f" {name} " in row for row in rows), rows

    drive(world.board(), use, (width, 24))


def test_a_pareto_page_without_a_front_says_the_reason_that_holds(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=3, total_steps=3)
        world.losses(run_id, [3.0, 2.0, 1.0])
        world.losses(run_id, [3.0, 2.0, 1.0], name="zeal")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c", "o")
        await shows(pilot, "no front: no run has a known price", "armada hosts set NAME --price")
        assert "does not say" not in screen(pilot)
        world.hosts(box={"ssh": "root@box.example", "price": "10 EUR"})
        await shows(pilot, "front: ")
        await lacks(pilot, "no front")
        view = compared(pilot)
        while view.choices.metric != "zeal":
            await pilot.press("m")
        await shows(pilot, "no front: it is not known whether low values are better")
        assert "known price" not in screen(pilot)

    drive(world.board(), use)


@pytest.mark.parametrize("right", ["→", ">"])
def test_the_settings_of_twelve_runs_scroll_and_the_value_under_the_cursor_is_whole(
    world: World, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if right == ">":
        monkeypatch.setenv("LC_ALL", "C")
    for number in range(12):
        data = f"/data/sets/with/a/long/name/part-{number:02}"
        spec = {"job": {"argv": []}, "experiment": {"train": {"data": data, "seed": 100 + number}}}
        world.run(f"r{number:02}-aaaa{number:02}", spec=spec)
    left = "←" if right == "→" else "<"

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "12 of 12 runs")
        await pilot.press("a", "c", "f")
        view = compared(pilot)
        seen = await shows(pilot, f"7 more runs {right}", "train.seed")
        assert left not in seen.splitlines()[-3], "nothing is to the left"
        row = next(line for line in seen.splitlines() if "train.data" in line)
        assert all(f"t-{run_id[1:3]} " in row for run_id in view.run_ids[:5]), "long values keep their ends"
        await pilot.press("down", "down")
        await shows(pilot, f"/data/sets/with/a/long/name/part-{view.run_ids[0][1:3]}")
        await pilot.press("right")
        await shows(
            pilot,
            f"{left} 1 more run ",
            f"6 more runs {right}",
            f"/data/sets/with/a/long/name/part-{view.run_ids[1][1:3]}",
        )
        await pilot.press(*["right"] * 10)
        await shows(pilot, f"{left} 7 more runs", "train.data", f"/part-{view.run_ids[11][1:3]}")
        await lacks(pilot, f"more runs {right}", f"more run {right}")
        await pilot.press("left")
        await shows(pilot, f"{left} 7 more runs", f"/part-{view.run_ids[10][1:3]}")
        assert view.lit is not None
        assert view.lit.row.id == view.run_ids[10], "other keys act on the same run"

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("short", 8, "short"),
        ("part-01.jsonl", 8, "par…sonl"),
        ("abcdef", 3, "abc"),
        ("abcdef", 0, ""),
        ("日本語日本語", 8, None),
    ],
)
def test_a_long_value_keeps_its_beginning_and_its_end(text: str, width: int, cut: str | None) -> None:
    found = cut_middle(text, width, "…")
    assert cell_len(found) <= width
    assert cut is None or found == cut


def test_a_terminal_without_frames_counts_the_runs_out_of_sight_below(world: World) -> None:
    for number in range(5):
        world.run(f"r{number:02}-aaaa{number:02}", spec={"job": {"argv": []}, "experiment": {"seed": number}})

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(pilot.app.snapshot.runs) == 5)  # type: ignore[attr-defined]
        await pilot.press("a", "c", "f")
        await shows(pilot, "a · r04-aaaa04 · 2 more runs →")
        await pilot.press("right")
        await shows(pilot, "← 1 more run · 1 more run →")

    drive(world.board(), use, (60, 12))


@pytest.mark.parametrize("tab", ["c", "f"])
def test_with_nothing_to_compare_there_is_no_empty_table_of_settings(world: World, tab: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet")
        await pilot.press("6")
        await shows(pilot, "No runs are marked")
        await pilot.press(tab)
        seen = await shows(pilot, "No runs are marked")
        assert not any(word in seen for word in ("Settings that differ", "no setting differs", "╭"))

    drive(world.board(), use, (160, 50))
