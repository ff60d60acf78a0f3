from __future__ import annotations

from pathlib import Path

import pytest

from armada.paths import HomePaths


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    made = HomePaths(tmp_path / "home" / "config", tmp_path / "home" / "state")
    made.make()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("train", "eval"):
        (tmp_path / "data" / f"{name}.jsonl").write_text('{"text": "x"}\n')
    return tmp_path
