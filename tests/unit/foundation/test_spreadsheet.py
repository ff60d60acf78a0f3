"""No cell of a table is a formula."""

from __future__ import annotations

import pytest

from armada.foundation.spreadsheet import plain_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =2+2", "\t=1", "\u3000＝1", "＋1"])
def test_what_may_be_computed_is_text(text: str) -> None:
    assert plain_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "loss", "a=1", "eval/acc", "'=1", "1e-5"])
def test_all_else_stays(text: str) -> None:
    assert plain_cell(text) == text
