"""What the first lessons show is what the commands print today, as far as it can be known without running them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.launch.comparison import estimate

ROOT = Path(__file__).parents[2]
LESSONS = ROOT / "docs" / "tutorial"
_FILE = re.compile(r"^`([\w.-]+)`\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [ROOT / "README.md", LESSONS / "first-run.md"])
def test_the_quickstart_says_why_its_time_is_not_known(page: Path) -> None:
    plan: Any = SimpleNamespace(gpus=())
    why = estimate._why_no_speed(plan, plan, None)  # noqa: SLF001 - its words stand in the page
    assert f" time       not known: {why}\n" in page.read_text("utf-8")


def test_the_box_lesson_sends_as_many_bytes_as_its_files_have() -> None:
    page = (LESSONS / "rented-box.md").read_text("utf-8")
    size = sum(len(text.encode()) for _, text in _FILE.findall(page))
    assert set(re.findall(r"\b(\d+) B(?: \(to| sent|, environment)", page)) == {str(size)}


def test_the_box_lesson_shows_what_a_priced_host_costs() -> None:
    page = (LESSONS / "rented-box.md").read_text("utf-8")
    header, row = re.findall(r"^(RUN +HOST +STATE.*)\n(.*)$", page, re.MULTILINE)[0]
    assert header.endswith("COST")
    assert "$" in row


def test_the_folder_of_the_script_lesson_has_the_files_that_its_experiment_names(tmp_path: Path) -> None:
    page = (LESSONS / "own-script.md").read_text("utf-8")
    shutil.copytree(ROOT / "examples" / "own-script", tmp_path / "armada" / "examples" / "own-script")
    (typed,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    subprocess.run(["sh", "-e", "-c", typed], cwd=tmp_path, check=True)
    names = re.findall(
        r"^(?:script: |files: \{.*?: )([\w./-]+)", dict(_FILE.findall(page))["finetuning.yaml"], re.MULTILINE
    )
    assert names == ["finetuning.py", "../data/puzzles.jsonl"]
    assert all((tmp_path / "own-script" / name).exists() for name in names)


def test_the_demo_prints_what_armada_prints_and_not_its_own_commands() -> None:
    (recipe,) = re.findall(r"^demo: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert all(line.startswith("\t@") for line in recipe.splitlines())
