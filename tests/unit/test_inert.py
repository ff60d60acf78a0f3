from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.inert import inert_line, inert_text

HOSTILE = ["\x1b]52;c;cGF5\x07", "\x9b2J", "a\x00b", "\u202egnp.exe", "\x1b[31m", "\x7f", "\u2066x", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_would_obey_is_shown_not_obeyed(text: str) -> None:
    assert "�" in inert_text(text)
    assert "�" in inert_line(text)


@given(st.text())
def test_any_text_comes_out_printable_and_encodable(text: str) -> None:
    out = inert_text(text)
    assert all(c in "\n\t" or ord(c) >= 32 for c in out)
    out.encode()
    assert "\n" not in inert_line(text)


def test_newlines_tabs_and_letters_stay() -> None:
    assert inert_text("größe\t1\r\nnext\rlast") == "größe\t1\nnext\nlast"


def test_a_line_of_a_megabyte_is_cut_with_a_mark() -> None:
    assert inert_line("x" * 1_000_000) == "x" * 499 + "…"
