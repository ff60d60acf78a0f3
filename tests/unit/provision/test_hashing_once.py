"""Files that several cells of a sweep send are read once, unless they change."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from armada.provision.content import hashing_once, take_stock


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files whose bytes were hashed."""
    found: list[str] = []
    digest = hashlib.file_digest

    def noted(stream: Any, name: str) -> Any:
        found.append(str(stream.name))
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    return found


def test_a_file_is_read_once_inside_and_each_time_outside(tmp_path: Path, reads: list[str]) -> None:
    (tmp_path / "a").write_text("one")
    with hashing_once():
        first = take_stock("data", tmp_path, ["a"])
        with hashing_once():
            assert take_stock("data", tmp_path, ["a"]).sha == first.sha
    assert len(reads) == 1
    take_stock("data", tmp_path, ["a"])
    take_stock("data", tmp_path, ["a"])
    assert len(reads) == 3


def test_a_file_that_changes_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    with hashing_once():
        first = take_stock("data", tmp_path, ["a"])
        file.unlink()
        file.write_text("two")
        assert take_stock("data", tmp_path, ["a"]).sha != first.sha
    assert len(reads) == 2
