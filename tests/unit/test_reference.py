"""The pages of docs/reference that are made from the code say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.reference import FOLDER, ROOT, pages

MADE = pages()


@pytest.mark.parametrize("name", MADE)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    kept = FOLDER / name
    assert kept.exists(), "make reference"
    assert kept.read_text("utf-8") == MADE[name], "make reference"


def test_every_check_that_a_launch_can_name_is_in_the_reference() -> None:
    used = {
        code
        for file in (ROOT / "armada").rglob("*.py")
        for code in re.findall(r"\bARM\d{3}\b", file.read_text("utf-8"))
    }
    listed = set(re.findall(r"^\| (ARM\d{3}) ", MADE["checks.md"], re.MULTILINE))
    assert used - {"ARM000"} == listed


@pytest.mark.parametrize("name", [name for name in MADE if name.startswith("keys-")])
def test_every_key_says_what_it_means(name: str) -> None:
    # Where a key's value is a part, its section says it; the experiment's own keys stand explained in docs/reference/experiments.md.
    explained = {"`name`", "`task`", "`code`", "`command`", "`env`", "`stop_grace_s`", "`wandb`", "`project`"}
    rows = [row.strip("| ").split(" | ") for row in MADE[name].splitlines() if row.endswith("|  |")]
    assert [row[0] for row in rows if "](#" not in row[1] and row[0] not in explained] == []


def test_no_page_names_this_machine() -> None:
    assert [name for name, text in MADE.items() if str(Path.home()) in text or str(ROOT) in text] == []
