"""Every file of the program that a page or a docstring names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.reflow import pages

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.py)\b[^`]*`")
_ROOMS = [
    ROOT / "armada",
    ROOT / "remote_payload",
    ROOT / "remote_payload/armada_agent",
    ROOT / "remote_payload/armada_train",
]
_ELSEWHERE = frozenset({"CHANGELOG.md", "tests.md"})
"""What was and is gone; names of tests, short and made by `make durations`."""


def sources() -> list[Path]:
    return [*pages(), *sorted((ROOT / "armada").rglob("*.py")), *sorted((ROOT / "remote_payload").rglob("*.py"))]


def is_there(name: str, page: Path) -> bool:
    return any((base / name).is_file() for base in (ROOT, page.parent, *page.parent.parents[:3], *_ROOMS))


@pytest.mark.parametrize("folder", ["docs", "armada", "remote_payload", "."])
def test_what_is_named_is_there(folder: str) -> None:
    chosen = [
        page
        for page in sources()
        if page.relative_to(ROOT).parts[0] == folder or (folder == "." and page.parent == ROOT)
    ]
    assert chosen
    missing = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in chosen
        if page.name not in _ELSEWHERE
        for name in _NAMED.findall(page.read_text("utf-8"))
        if not is_there(name, page)
    }
    assert sorted(missing) == []
