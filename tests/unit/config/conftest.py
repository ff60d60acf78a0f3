from __future__ import annotations

from pathlib import Path

import pytest

from armada.paths import HomePaths


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    made = HomePaths(tmp_path / "home" / "config", tmp_path / "home" / "state")
    made.make()
    return made
