"""Where the parts of a run's overview are, at every size of the terminal."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from textual.geometry import Region

from armada.tui.overview_places import OWN, Needs, place

FACTS = 18
SIZES = {"80x24": (80, 21), "120x36": (120, 33), "160x48": (160, 45), "250x70": (250, 67)}
"""Of a terminal, and what is left of it for the page."""


def needs(**more: int | bool) -> Needs:
    found = Needs(lambda width: FACTS + 400 // width, lambda width: 5 + (width < 60))
    return found._replace(times=6, gpus=8, kept=3, log=60)._replace(**more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    width: int
    height: int
    needs: Needs


KINDS = {
    "training": needs(),
    "short log": needs(log=2),
    "one GPU": needs(gpus=1),
    "no GPU": needs(gpus=0),
    "64 GPUs": needs(gpus=64),
    "no steps": needs(times=0),
    "50 checkpoints": needs(kept=50),
    "no curve": needs(curve=False, settings=12),
    "queued": needs(curve=False, times=0, kept=0, gpus=0, log=1, settings=300),
    "queued with a plan": needs(curve=False, times=0, kept=0, gpus=0, log=1, settings=12, plan=150),
    "much happened": needs(log=1, gpus=1, events=50, settings=40),
    "nothing known": needs(curve=False, times=0, kept=0, gpus=0, log=1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_parts_fill_any_size_without_a_gap_and_without_overlap(kind: str) -> None:
    for width in (1, 5, 20, 49, 59, 60, 80, 105, 106, 120, 160, 199, 200, 250, 500):
        for height in (*range(1, 80), 120, 200):
            for edge in (0, 2):
                places = place(width, height, KINDS[kind], edge)
                regions = list(places.values())
                whole = Region(0, 0, width, height)
                assert "facts" in places, (width, height)
                assert all(whole.contains_region(each) for each in regions), (width, height, places)
                assert all(each.height > edge and each.width > 0 for each in regions) or height <= edge, (width, height)
                assert sum(each.area for each in regions) == whole.area, (width, height, places)
                assert not any(one.overlaps(two) for one in regions for two in regions if one is not two), places


@pytest.mark.parametrize(("width", "height"), SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_must_be_in_sight_is(kind: str, width: int, height: int) -> None:
    wanted = KINDS[kind]
    places = place(width, height, wanted)
    lines = wanted.keys(places["facts"].width) + len([part for part in OWN if part not in places])
    assert places["facts"].height - 2 >= lines, "with a line for each part that has no place of its own"
    assert ("chart" in places) == wanted.curve
    if wanted.curve:
        assert places["chart"].height >= 8
    assert places["tail"].height >= 5


def test_curve_and_log_take_most_of_a_large_screen() -> None:
    places = place(250, 67, needs())
    assert set(places) == {"facts", "times", "kept", "gpus", "chart", "tail"}
    assert places["chart"].area + places["tail"].area > 250 * 67 / 2
    assert places["facts"].height == FACTS + 400 // 96 + 2, "all of its facts, and no empty line"
    assert places["kept"].height == 3 + 2


def test_a_log_of_few_lines_leaves_its_room_to_the_others() -> None:
    assert place(160, 45, needs(log=1))["tail"].height == 5
    assert place(250, 67, needs(log=1))["gpus"].x == 0, (
        "the GPUs are below the facts, and the curve has all of its side"
    )
    assert place(250, 67, needs(log=1))["chart"].height == 67


def test_room_that_nothing_else_needs_is_for_events_and_settings() -> None:
    assert not {"happened", "settings"} & set(place(250, 67, needs(events=50, settings=12)))
    places = place(250, 67, needs(log=1, gpus=0, events=20, settings=12))
    assert (places["happened"].height, places["tail"].height) == (20 + 2, 5 + 2)
    assert "settings" not in places
    assert place(250, 67, needs(log=1, gpus=0, events=8, settings=12))["settings"].height == 12 + 2
    assert place(160, 45, needs(log=1, gpus=0, times=0, events=50))["happened"].height >= 5


def test_many_checkpoints_are_listed_where_there_is_room() -> None:
    assert place(80, 21, needs(kept=50)).get("kept") is None
    assert place(120, 33, needs(kept=50))["kept"].height < 2 + 8
    assert place(500, 197, needs(kept=50))["kept"].height == 2 + 50


def test_more_gpus_than_lines_are_one_line_of_the_facts() -> None:
    assert "gpus" in place(160, 45, needs(gpus=16))
    assert "gpus" not in place(160, 45, needs(gpus=64))


def test_settings_take_the_place_of_a_curve() -> None:
    places = place(160, 45, needs(curve=False, settings=12, log=1))
    assert places["settings"].height == 14
    assert places["settings"].x == places["tail"].x > 0


def test_the_plan_of_a_run_without_a_curve_takes_the_room_that_settings_and_log_leave() -> None:
    waits = needs(curve=False, gpus=0, settings=12, plan=150, log=1)
    places = place(160, 45, waits)
    assert (places["settings"].height, places["tail"].height) == (12 + 2, 3 + 2)
    assert places["plan"].height == 45 - 14 - 5
    assert place(160, 45, waits._replace(plan=4))["plan"].height == 4 + 2
    assert "plan" not in place(160, 45, waits._replace(log=80))
    assert "plan" not in place(160, 45, waits._replace(curve=True))


def test_a_slim_terminal_has_curve_and_log_below_each_other_and_no_part_without_a_title() -> None:
    places = place(45, 22, needs(), 0)
    assert set(places) == {"facts", "chart", "tail"}
    assert places["chart"].width == places["tail"].width == 45
