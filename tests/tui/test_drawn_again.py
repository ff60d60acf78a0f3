"""The pictures in the documentation are what the dashboard draws today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import screenshots
from tests.tools.scenes import SCENES, SIZES

MAIN = ("runs", "overview", "charts", "log", "hosts", "launch", "compare", "sync")
TRIES = 3
"""A busy machine may be pictured before it has read everything; what cannot be drawn alike in three tries is not alike."""


def draw(folder: Path, scenes: list[str], sizes: tuple[tuple[int, int], ...]) -> list[str]:
    """Draw scenes into a folder, and return the files that differ from those of the documentation."""
    argv = [sys.executable, "-m", "tests.tools.screenshots", "--to", str(folder), "--only", ",".join(scenes)]
    argv += ["--sizes", ",".join(f"{wide}x{high}" for wide, high in sizes)]
    done = subprocess.run(argv, cwd=screenshots.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    drawn = sorted(folder.glob("*.svg"))
    assert drawn
    return [each.name for each in drawn if each.read_bytes() != (screenshots.PICTURES / each.name).read_bytes()]


@pytest.mark.parametrize(
    ("scenes", "sizes"),
    [
        pytest.param(
            MAIN, ((120, 36),), id="the main screens", marks=pytest.mark.takes_long("eight screens are opened and drawn")
        ),
        pytest.param(
            tuple(scene.name for scene in SCENES), SIZES, id="all", marks=[pytest.mark.long, pytest.mark.takes_long("all are")]
        ),
    ],
)  # fmt: skip
def test_the_pictures_are_as_the_dashboard_draws_them(
    scenes: tuple[str, ...], sizes: tuple[tuple[int, int], ...], tmp_path: Path
) -> None:
    differing: list[str] = []
    wanted = list(scenes)
    for number in range(TRIES):
        differing = draw(tmp_path / str(number), wanted, sizes)
        wanted = [scene.name for scene in SCENES if set(scene.files) & set(differing)]
        if not differing:
            return
    pytest.fail(f"make screenshots: {', '.join(differing)} look different now")
