"""The modules that a script cannot start without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from armada.provision.code import take_snapshot
from armada.provision.script_imports import required_modules

SCRIPT = """
import os, torch.nn as nn
import numpy as np
from helpers import more
from mine.deep import thing
from . import sibling
import armada_log
from typing import TYPE_CHECKING
try:
    import wandb
except ImportError:
    wandb = None
if TYPE_CHECKING:
    import tyro
def main():
    import late
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "train.py": SCRIPT,
        "helpers.py": "import einops\nimport numpy\n",
        "mine/__init__.py": "import yaml\n",
        "mine/deep.py": "import mine, helpers\nimport scipy.stats\n",
        "unused.py": "import nothing_needs_this\n",
        "broken.py": "import (",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_what_every_start_imports_from_outside_is_found_with_its_line(project: Path) -> None:
    found = required_modules(take_snapshot(project), "train.py")
    assert {name: place for name, place in found.items() if name not in ("os", "typing")} == {
        "torch": "train.py:2",
        "numpy": "train.py:3",
        "einops": "helpers.py:1",
        "yaml": "mine/__init__.py:1",
        "scipy": "mine/deep.py:2",
    }


@pytest.mark.parametrize("source", ["import (", "\0", "x = " + "(" * 5000, "# nothing"])
def test_what_is_no_python_source_needs_nothing(project: Path, source: str) -> None:
    (project / "train.py").write_text(source)
    assert required_modules(take_snapshot(project), "train.py") == {}


def test_a_script_in_a_folder_finds_its_neighbours(project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "run.py").write_text("import near\nimport torch\n")
    (project / "src" / "near.py").write_text("import jax\n")
    found = required_modules(take_snapshot(project), "src/run.py")
    assert found == {"torch": "src/run.py:2", "jax": "src/near.py:1"}
