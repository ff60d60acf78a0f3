"""Curves, canvas, log files, keys: what screens are made of, without a screen."""

from __future__ import annotations

import io
import itertools
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.compare.settings import differing, flat
from armada.tui.bindings import KEYS, SCREENS, markdown
from armada.tui.curves import NAN, Curve, Levels
from armada.tui.filtering import fuzzy
from armada.tui.log_file import LINE_BYTES, LogFile
from armada.tui.symbols import ASCII, UNICODE
from armada.tui.widgets.braille import Canvas, Window, draw

VALUES = st.lists(st.one_of(st.just(NAN), st.floats(-1e6, 1e6)), max_size=300)


@given(values=VALUES, more=VALUES, start=st.integers(0, 400), length=st.integers(0, 400))
def test_extremes_by_blocks_are_those_of_the_points(
    values: list[float], more: list[float], start: int, length: int
) -> None:
    repeated = values * 20
    levels = Levels(repeated)
    levels.extend(more)
    everything = [*repeated, *more]
    start, end = min(start * 7, len(everything)), min(start * 7 + length * 9, len(everything))
    known = [value for value in everything[start:end] if not math.isnan(value)]
    assert levels.extremes(start, end) == ((min(known), max(known)) if known else None)


def drawn(values: list[float], width: int = 10, height: int = 4) -> list[str]:
    canvas = Canvas(width, height)
    known = [value for value in values if not math.isnan(value)]
    xs = list(range(len(values)))
    draw(canvas, xs, Levels(values), Window(0, len(values) - 1, min(known), max(known)), 0)
    return ["".join(text for text, _ in canvas.row(row, utf8=True)) for row in range(height)]


def test_a_rising_line_goes_from_corner_to_corner_without_holes() -> None:
    picture = drawn([float(value) for value in range(20)])
    assert picture[-1][0] != " "
    assert picture[0][-1] != " "
    assert all(any(row[column] != " " for row in picture) for column in range(10))


@pytest.mark.parametrize("steps", [3, 400])
@pytest.mark.parametrize("end", ["", "\r", "\n", "\r\nafter\n"])
def test_of_a_progress_bar_a_log_shows_the_newest_state(tmp_path: Path, steps: int, end: str) -> None:
    states = [f"\r\x1b[32m{100 * step // steps:>3}%\x1b[0m|{'#' * 20}| {step}/{steps}" for step in range(steps + 1)]
    path = tmp_path / "output.log"
    path.write_bytes(b"before\n" + "".join(states).encode() + end.encode())
    log = LogFile(path)
    shown = [line.text for line in log.forward(0, 10)]
    assert shown == ["before", f"100%|{'#' * 20}| {steps}/{steps}", *(["after"] if "after" in end else [])]
    assert log.forward(log.tail(1), 1)[0].text == shown[-1]


@pytest.mark.parametrize("count", [20, 2000])
def test_a_nan_is_a_gap(count: int) -> None:
    values = [1.0 + 0.01 * (place % 2) for place in range(count)]
    for place in range(count * 35 // 100, count * 65 // 100 + 1):
        values[place] = NAN
    picture = drawn(values)
    assert all(row[4:6].strip() == "" for row in picture), picture
    assert any(row[0] != " " for row in picture)


def test_a_single_spike_among_half_a_million_points_is_drawn() -> None:
    values = [0.0] * 500_000
    values[250_123] = 1.0
    picture = drawn(values, 60, 8)
    assert any(row[30] != " " for row in picture[:4])


def test_smoothing_keeps_gaps_and_the_level() -> None:
    curve = Curve((step, float(step), None if step == 50 else 2.0) for step in range(100))
    levels = curve.shown(log=False, smoothing=0.9)
    assert math.isnan(levels.values[50])
    assert levels.values[99] == pytest.approx(2.0)
    assert curve.shown(log=True, smoothing=0.0).values[0] == pytest.approx(math.log10(2.0))


def test_a_log_is_read_from_any_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [f"{number} " + "x" * random.Random(number).randrange(0, 300) for number in range(5000)]
    path.write_text("\n".join(lines) + "\n")
    log = LogFile(path)
    assert [line.text for line in log.forward(log.tail(3), 10)] == lines[-3:]
    assert [line.text for line in log.forward(log.backward(log.tail(1), 100), 2)] == lines[-101:-99]
    found = log.find_back("1234 ", log.size)
    assert found is not None
    assert log.forward(found, 1)[0].text == lines[1234]
    assert log.find_back("not there", log.size) is None
    assert log.find_back("4999 ", found) is None


def test_lines_of_a_log_have_their_numbers_from_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(1, 3001)))
    log = LogFile(path)
    starts = [line.start for line in log.forward(0, 3000)]
    for number in (1, 3000, 2999, 7, 1500, 1499, 1501):
        assert log.number_of(starts[number - 1]) == number
    path.write_bytes(b"1\n2\n")  # started again
    assert log.number_of(2) == 2
    log.rank = 3
    assert log.number_of(2) is None
    log.rank = None
    monkeypatch.setattr("armada.tui.log_file.COUNTED_BYTES", 2)
    path.write_bytes(b"1\n2\n3\n")
    assert log.number_of(4) == 3  # two bytes after a known one
    assert LogFile(path).number_of(4) is None


def test_a_line_of_a_megabyte_is_cut_and_the_next_one_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 1_000_000 + b"\nnext\nunfinished")
    first, second, third = LogFile(path).forward(0, 5)
    assert len(first.text) <= LINE_BYTES + 2
    assert (second.text, third.text) == ("next", "unfinished")
    assert LogFile(path).backward(third.start, 2) == 0


def test_of_a_progress_bar_that_grows_without_a_newline_only_the_news_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\n" + b"step 1\r" * 600_000)
    log, read = LogFile(path), 0

    class Counting(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal read
            data = super().read(-1 if size is None else size)
            read += len(data)
            return data

    def shown() -> list[str]:
        return [line.text for line in log.forward(log.tail(2), 3)]

    assert shown() == ["first", "step 1"]
    monkeypatch.setattr(Path, "open", lambda path, _mode: Counting(path))
    for number in range(2, 5):
        with open(path, "ab") as file:  # noqa: PTH123  # Path.open counts
            file.write(b"step %d\r" % number * 1000)
        assert shown() == ["first", f"step {number}"]
    assert read < 1_000_000
    with open(path, "ab") as file:  # noqa: PTH123  # Path.open counts
        file.write(b"\nlast\n")
    assert shown() == ["step 4", "last"]
    monkeypatch.undo()
    path.write_bytes(b"other\n" * 800_000)
    assert shown() == ["other", "other"]
    path.write_bytes(b"first\nsecond\n")
    assert shown() == ["first", "second"]


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "none")
    assert (log.size, log.forward(0, 5), log.tail(5), log.find_back("x", 10)) == (0, [], 0, None)


@pytest.mark.parametrize(
    ("word", "text", "so"), [("lra", "lora", True), ("arl", "lora", False), ("abc", "a" + "-" * 50 + "bc", False)]
)
def test_fuzzy_means_letters_in_order_and_near(word: str, text: str, so: bool) -> None:
    assert fuzzy(word, text) is so


def test_only_settings_that_differ_are_listed() -> None:
    one, two = {"experiment": {"a": 1, "b": {"c": 2}}}, {"experiment": {"a": 1, "b": {"c": 3}, "d": 4}}
    assert differing([one, two]) == [("b.c", ["2", "3"]), ("d", ["", "4"])]


def test_a_run_of_an_earlier_armada_does_not_differ_by_the_settings_of_other_tasks() -> None:
    earlier = {"experiment": {"command": ["a"], "model": None, "arguments": [], "budget": None}}
    later = {"experiment": {"command": ["a"], "budget": 5}}
    assert differing([earlier, later]) == [("budget", ["", "5"])]


def test_settings_are_shown_without_secrets() -> None:
    one, two = (
        {"experiment": {"env": {"HF_TOKEN": f"hf_{letter * 30}"}, "arguments": ["--key", f"hf_{letter * 30}"]}}
        for letter in "ab"
    )
    assert [name for name, _ in differing([one, two])] == [
        "arguments",
        "env.HF_TOKEN",
    ]  # they differ, whatever is shown
    shown = [*(value for _, values in differing([one, two]) for value in values), *dict(flat(one)).values()]
    assert not [value for value in shown if "hf_" in value and "aaa" in value]


def test_bars_and_sparks_have_their_width() -> None:
    for symbols in (UNICODE, ASCII):
        assert [len(symbols.bar(share, 12)) for share in (-1, 0, 0.31, 1, 7)] == [12] * 5
        assert len(symbols.spark([1.0, None, float("nan"), 3.0])) == 4
        assert symbols.spark([-1.7e308, 1.7e308]) == symbols.sparks[0] + symbols.sparks[-1]
    assert UNICODE.spark([]) == ""


def test_a_steep_beginning_does_not_flatten_what_follows_in_a_sparkline() -> None:
    later = [2.0, 1.5, 1.0, 1.5]
    assert UNICODE.spark([90.0, *later]) == "█" + UNICODE.spark(later)


def test_every_key_has_an_action_and_a_place() -> None:
    from armada.tui.app import Dashboard
    from armada.tui.screens.columns import ColumnsWindow
    from armada.tui.screens.compare import CompareScreen
    from armada.tui.screens.history import HistoryWindow
    from armada.tui.screens.hosts import HostsScreen
    from armada.tui.screens.launch import LaunchScreen
    from armada.tui.screens.notifications import NotificationsWindow
    from armada.tui.screens.output import OutputWindow
    from armada.tui.screens.run import RunScreen
    from armada.tui.screens.runs import RunsScreen
    from armada.tui.screens.sync import SyncScreen
    from armada.tui.widgets.finding import Finding
    from armada.tui.widgets.log_view import LogView
    from armada.tui.widgets.table import Table

    owners: dict[str, type] = {"everywhere": Dashboard, "lists": Table, "runs": RunsScreen, "run": RunScreen}
    owners |= {"hosts": HostsScreen, "sync": SyncScreen, "launch": LaunchScreen, "compare": CompareScreen}
    owners |= {"find": Finding, "text": LogView, "history": HistoryWindow, "notifications": NotificationsWindow}
    owners |= {"output": OutputWindow, "columns": ColumnsWindow}
    assert set(owners) == set(SCREENS)
    for key in KEYS:
        assert hasattr(owners[key.where], "action_" + key.action.partition("(")[0]), key


def test_no_key_means_two_things_in_one_place() -> None:
    """A key has two rows only if they are of different pages, and then one action that asks which page is visible."""
    for place in SCREENS:
        taken = [(one, key) for key in KEYS if key.where == place for one in key.keys.split(",")]
        for (name, key), (other, second) in itertools.combinations(taken, 2):
            apart = key.page and second.page and not {*key.page.split(",")} & {*second.page.split(",")}
            assert name != other or (apart and key.action == second.action), (place, name)


def test_g_goes_to_the_first_line_wherever_it_does_something() -> None:
    assert {key.where for key in KEYS if {"g", "G"} & {*key.keys.split(",")}} == {"lists"}


def test_the_docs_hold_the_table_of_keys() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "dashboard.md").read_text()
    assert markdown() in page


def test_a_number_is_shown_without_the_digits_of_its_binary_form() -> None:
    assert dict(flat({"lr": 3 * 0.0001, "wd": 0.1, "n": 3, "on": True})) == {
        "lr": "0.0003",
        "wd": "0.1",
        "n": "3",
        "on": "true",
    }


@pytest.mark.parametrize("utf8", [True, False])
def test_curves_of_one_colour_differ_in_their_dashes(utf8: bool) -> None:
    looks = set()
    for kind in range(4):
        canvas = Canvas(24, 1)
        canvas.dash(0, kind)
        draw(canvas, [0, 1], Levels([1.0, 1.0]), Window(0, 1, 0.0, 2.0), 0)
        looks.add("".join(text for text, _ in canvas.row(0, utf8=utf8)))
    assert len(looks) == 4
    assert sum(" " not in look for look in looks) == 1
    assert not any("  " in look.rstrip() for look in looks), "wider gaps look as if data were missing"
