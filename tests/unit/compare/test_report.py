"""Charts and samples of a report: whatever the numbers are, and whatever a file contains."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from armada.compare.marks import ABOVE
from armada.compare.report.chart import HEIGHT, WIDTH, Line, draw_chart, swatch, ticks
from armada.compare.report.samples import MOST_PROMPTS, read_samples


def drawing(figure: str) -> ET.Element:
    """The picture of a figure; parsing it as XML proves that every quote and tag is closed."""
    return ET.fromstring(re.sub(r"&(?!amp;|lt;|gt;|quot;|#x27;)", "&amp;", figure))


def test_gaps_divide_a_curve_and_a_lonely_point_is_a_dot() -> None:
    points = [(1.0, 1.0), (2.0, 2.0), (3.0, None), (4.0, math.inf), (5.0, 3.0), (6.0, math.nan), (7.0, 1.0), (8.0, 0.0)]
    found = drawing(draw_chart("loss", [None, Line("a", points)]))
    assert [len(each.attrib["points"].split()) for each in found.iter("polyline")] == [2, 2]
    assert [each.attrib["class"] for each in found.iter("circle")] == ["dot c1"]


def test_marks_stand_at_the_height_of_the_curve_beside_them_in_the_colour_of_the_run() -> None:
    points = [(1.0, 1.0), (1.5, 4.0), (2.0, 3.0), (3.0, None), (4.0, 2.0)]
    plain = draw_chart("loss", [Line("a", points)])
    assert "mark" not in plain
    found = drawing(draw_chart("loss", [Line("z", points), Line("a", points, [(3.0, "gap"), (4.0, "resumed")])]))
    signs = [each for each in found.iter("path") if each.attrib["class"].startswith("mark ")]
    assert [each.attrib["class"] for each in signs] == ["mark c1", "mark c1"]
    assert [each[0].text for each in signs] == ["NaN: step 3", "resumed: step 4"]
    heights = [float(re.split("[ a-z]", each.attrib["d"])[1]) for each in signs]
    height_of_3 = 10 + (4 - 3) / (4 - 1) * (HEIGHT - 40)
    assert heights == pytest.approx([height_of_3 - ABOVE - 4, height_of_3 - ABOVE], abs=0.1), "the value before both"


def test_marks_out_of_the_picture_stay_in_it() -> None:
    line = Line("a", [(5.0, 1.0), (6.0, 1.0)], [(1.0, "gap"), (9.0, "gap"), (2.0, "resumed")])
    found = drawing(draw_chart("loss", [line]))
    places = [
        float(re.split("[ a-z]", each.attrib["d"][1:])[0])
        for each in found.iter("path")
        if "c0" in each.attrib["class"]
    ]
    assert len(places) == 3
    assert all(0 <= place <= WIDTH for place in places)


def test_a_metric_without_a_drawable_value_says_so() -> None:
    for line in (None, Line("a", []), Line("a", [(1.0, None), (2.0, math.nan), (3.0, 1e305)])):
        assert "no value that can be drawn" in draw_chart("loss", [line])


@hypothesis.given(
    strategies.lists(
        strategies.tuples(
            strategies.integers(0, 1 << 53), strategies.none() | strategies.floats(allow_nan=True, allow_infinity=True)
        ),
        max_size=30,
    )
)
def test_every_point_lies_on_the_picture(points: list[tuple[float, float | None]]) -> None:
    figure = draw_chart("x", [Line("a", sorted(points, key=lambda point: point[0]))])
    found = drawing(figure)
    places = [
        tuple(map(float, pair.split(","))) for each in found.iter("polyline") for pair in each.attrib["points"].split()
    ]
    places += [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in found.iter("circle")]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    for each in found.iter("svg"):
        told = json.loads(each.attrib["data-curves"], parse_constant=pytest.fail)
        assert len(told["lines"][0]["p"]) == len(points)


@hypothesis.given(strategies.floats(-1e300, 1e300), strategies.floats(-1e300, 1e300))
def test_ticks_are_few_and_inside(one: float, two: float) -> None:
    low, high = min(one, two), max(one, two)
    found = ticks(low, high, 6)
    assert 0 < len(found) <= 8 or high - low < 1e-290
    assert all(math.isfinite(value) for value in found)


def test_ticks_are_round() -> None:
    assert ticks(0.0, 1.0, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(3, 1234, 6) == [500, 1000]


def test_names_are_escaped_where_they_stand() -> None:
    hostile = "\"><script>alert(1)</script>'&"
    figure = draw_chart(hostile, [Line(hostile, [(1.0, 1.0), (2.0, 2.0)])])
    assert "<script" not in figure
    assert next(drawing(figure).iter("svg")).attrib["aria-label"] == hostile


def test_more_runs_than_colours_get_dashes() -> None:
    looks = {swatch(place) for place in range(40)}
    assert len(looks) == 40


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
    return path


def test_the_newest_answer_to_each_prompt_is_read(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hello"}]
    path = write(
        tmp_path / "samples.jsonl",
        {"step": 10, "prompt": chat, "expected": "hi", "generated": "x"},
        {"step": 20, "prompt": chat, "expected": "hi", "generated": "hi"},
        {"step": 15, "prompt": chat, "expected": "hi", "generated": "late"},
        {"step": 20, "prompt": "text", "expected": "more", "generated": "y"},
    )
    found = read_samples(path)
    assert [(each.step, each.prompt, each.generated) for each in found.values()] == [
        (20, "user: hello", "hi"),
        (20, "text", "y"),
    ]


def test_what_is_no_sample_is_left_out(tmp_path: Path) -> None:
    good = {"step": 1, "prompt": 7, "expected": None, "generated": "g"}
    path = write(
        tmp_path / "samples.jsonl", "", "{", "[]", "[" * 100_000, {"step": -1, "generated": "x"}, {"step": 1}, good
    )
    assert [each.generated for each in read_samples(path).values()] == ["g"]
    many = [{"step": 1, "prompt": str(number), "generated": "g" * 9000} for number in range(MOST_PROMPTS * 2)]
    found = read_samples(write(tmp_path / "many.jsonl", *many))
    assert len(found) == MOST_PROMPTS
    assert max(len(each.generated) for each in found.values()) == 4000


def test_a_link_or_a_folder_is_no_file_of_samples(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"step": 1, "prompt": "p", "generated": "g"})
    (tmp_path / "samples.jsonl").symlink_to("elsewhere")
    assert read_samples(tmp_path / "samples.jsonl") == {}
    assert read_samples(tmp_path) == {}
    assert read_samples(tmp_path / "nothing") == {}
