"""Lines of Markdown have at most 120 characters, and the tool that folds them changes nothing but where lines end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.reflow import ROOT, WIDTH, pages, reflow

LONG = "word " * 40


def test_a_long_paragraph_is_folded_and_says_the_same() -> None:
    folded = reflow(LONG.strip())
    assert max(map(len, folded.split("\n"))) <= WIDTH
    assert folded.split() == LONG.split()


def test_a_list_item_keeps_its_indentation() -> None:
    lines = reflow(f"- {LONG.strip()}\n- short").split("\n")
    assert (lines[0][:2], lines[1][:3], lines[-1]) == ("- ", "  w", "- short")


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LONG}\n```",
        f"| {LONG}|",
        f"# {LONG}",
        f"<!-- x: begin -->\n- {LONG}\n<!-- x: end -->",
        f"two lines\nthat are short\n\n~~~\n{LONG}\n~~~\n",
        f"meant  \n{LONG}",
    ],
)
def test_code_tables_headings_and_made_parts_stay(text: str) -> None:
    assert reflow(text) == text


def test_no_line_begins_a_list_by_accident_and_no_code_or_link_is_parted() -> None:
    text = " ".join(
        [*["word"] * 23, "x", "-", "`a code span with blanks`", *["word"] * 22, "[text](a%20b)", "1.", "``a`b``"]
    )
    folded = reflow(text)
    assert folded.split() == text.split()
    assert "\n- " not in folded
    assert "\n1. " not in folded
    assert "`a code span with blanks`" in folded
    assert reflow(folded) == folded


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_page_is_folded(page: Path) -> None:
    text = page.read_text("utf-8")
    assert reflow(text) == text, "`make format` folds it"
