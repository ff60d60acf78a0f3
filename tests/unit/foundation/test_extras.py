from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from armada.foundation.extras import DISTRIBUTION, EXTRAS, install_command

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_extras_are_those_of_the_project() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"dev", "docs"}


def test_the_name_in_hints_is_the_one_that_is_published() -> None:
    assert PROJECT["name"] == DISTRIBUTION != "armada"


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hint_installs_the_extra_of_our_own_distribution_beside_this_armada(extra: str) -> None:
    assert shlex.split(install_command(extra)) == [sys.executable, "-m", "pip", "install", f"{DISTRIBUTION}[{extra}]"]


def test_nobody_is_told_to_install_the_stranger_of_our_name() -> None:
    pages = [*(ROOT / "armada").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    stranger = re.compile(r"pipx? install ['\"]?armada(?!-gpu)\b")
    assert [page.name for page in pages if stranger.search(page.read_text(encoding="utf-8"))] == []


def test_documented_installations_name_extras_that_exist() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = {extra for page in pages for extra in re.findall(rf"{DISTRIBUTION}\[(\w+)\]", page.read_text("utf-8"))}
    assert named == set(EXTRAS)
