from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

from armada.extras import EXTRAS, install_command

ROOT = Path(__file__).parents[2]


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: packages for name, packages in project["optional-dependencies"].items() if name != "dev"}
    assert {name: [package] for name, package in EXTRAS.items()} == extras


def test_a_command_names_the_package_itself_and_this_python() -> None:
    words = shlex.split(install_command("notify"))
    assert words == [sys.executable, "-m", "pip", "install", "apprise>=1.9,<3"]


def test_nobody_is_told_to_install_the_stranger_of_our_name() -> None:
    pages = [*(ROOT / "armada").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    assert [page.name for page in pages if "pip install 'armada" in page.read_text(encoding="utf-8")] == []
