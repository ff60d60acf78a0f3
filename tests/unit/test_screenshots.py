"""The story behind the pictures in the documentation can still be told, and each picture of the page is there."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from armada.paths import HomePaths
from armada.store import checkpoints, hosts, runs
from armada.store.database import Database
from tests.tools import scenes, screenshots, story, svg

UNHAPPY = {"oom", "stalled", "budget", "pruned"}


def test_its_runs_checkpoints_and_hosts_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMADA_HOME", raising=False)
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    story.tell(home)
    with Database(home.store) as database:
        told = runs.every(database)
        kept = [each for run in told for each in checkpoints.of_run(database, run.run_id)]
        record = hosts.find(database, "a100-1")
    assert {run.reason for run in told} >= UNHAPPY
    assert any(run.unreachable_since for run in told)
    assert any(run.loss_not_finite for run in told)
    assert any(run.state == "queued" for run in told)
    assert any(each.trouble for each in kept)
    assert {run.host for run in told} <= set(story.HOSTS) | {"local"}
    assert record is not None
    assert record.facts


def test_the_page_shows_every_scene_and_each_picture_is_there_and_names_nobody() -> None:
    page = screenshots.PAGE.read_text("utf-8")
    assert page == screenshots.page(), "make screenshots writes it"
    named = set(re.findall(r"screenshots/([\w-]+\.svg)", page))
    there = {path.name for path in screenshots.PICTURES.glob("*.svg")}
    assert named == there
    assert named == {name for scene in scenes.SCENES for name in scene.files}
    for path in screenshots.PICTURES.glob("*.svg"):
        assert not re.search("/(root|home|tmp|work)/", path.read_text("utf-8")), path
    assert sum(path.stat().st_size for path in screenshots.PICTURES.glob("*.svg")) < 10_000_000


def test_a_picture_has_words_in_their_cells_and_draws_lines() -> None:
    plain, lit = Style(color="#ffffff"), Style(color="#000000", bgcolor="#00ff00", bold=True)
    strips = [
        Strip([Segment("╭──╮ a <b>", plain), Segment(" x ", lit)]),
        Strip([Segment("⣀⣀ 日本 ✓", plain), Segment("  ", lit + Style(reverse=True))]),
    ]
    drawn = ET.fromstring(svg.picture(strips, 12, "#ffffff", "#101010", "a & b"))
    words = ["".join(each.itertext()) for each in drawn.iter("{http://www.w3.org/2000/svg}tspan")]
    assert words == ["a <b>", "x", "⣀⣀", "日本", "✓"]
    places = [each.get("x") for each in drawn.iter("{http://www.w3.org/2000/svg}tspan")]
    assert places == ["30", "66", "0 6", "18 30", "48"]
    paths = [each.get("d") or "" for each in drawn.iter("{http://www.w3.org/2000/svg}path")]
    assert any("M6 6h12" in path for path in paths), "the edge of the frame is one line"
    fills = [each.get("fill") for each in drawn.iter("{http://www.w3.org/2000/svg}path")]
    assert "#00ff00" in fills
    assert "#000000" in fills
    title = drawn.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == "a & b"
