"""The line of a run's overview about where a step's time goes."""

from __future__ import annotations

from armada.store.queries.step_times import StepTimes
from armada.tui.screens.overview_text import step_words


def test_the_line_names_the_parts_by_their_share() -> None:
    parts = {"data": 6.0, "forward": 13.0, "backward": 31.0, "saving": 0.01, "evaluation": 0.0}
    assert step_words(StepTimes(1, 50, 50, parts, 6.0)) == "1 s: backward 62% · forward 26% · data 12%"
