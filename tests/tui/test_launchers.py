"""Which other home launched a run is found without the rest of its plan: a question about many runs reads none of them."""

from __future__ import annotations

from typing import Any

import pytest

from armada.home import own
from armada.store import runs
from armada.tui.operations import launchers
from tests.tui.conftest import World


def test_whose_runs_these_are_is_found_without_their_plans(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"id": "ab" * 16, "label": "ada@desktop", "path": "/home/ada"}
    told: dict[str, Any] = {
        "theirs-aaaaaa": theirs,
        "mine-bbbbbb": own(world.home).as_json(),
        "odd-cccccc": "ada",
        "odd-dddddd": [theirs],
        "odd-eeeeee": {"id": 7},
        "others-ffffff": theirs,
    }
    for run_id, home in told.items():
        world.run(run_id, spec={"job": {"argv": []}, "experiment": {}, "home": home})
    world.run("old-gggggg")

    def read(*_: object) -> None:
        raise AssertionError("a whole plan was read")

    monkeypatch.setattr(runs, "spec", read)
    asked = [*list(told)[:-1], "old-gggggg", "gone-hhhhhh"]
    assert launchers(world.home, asked) == {"theirs-aaaaaa": "ada@desktop (home abababab)"}
