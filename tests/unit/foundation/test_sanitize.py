from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.foundation.sanitize import OutputText, last_states, sanitize_line, sanitize_text

HOSTILE = ["\x1b]52;c;cGF5\x07", "\x9b2J", "a\x00b", "\u202egnp.exe", "\x1b[31m", "\x7f", "\u2066x", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_would_obey_is_shown_not_obeyed(text: str) -> None:
    assert "�" in sanitize_text(text)
    assert "�" in sanitize_line(text)


@given(st.text())
def test_any_text_comes_out_printable_and_encodable(text: str) -> None:
    out = sanitize_text(text)
    assert all(c in "\n\t" or ord(c) >= 32 for c in out)
    out.encode()
    assert "\n" not in sanitize_line(text)


def test_newlines_tabs_and_letters_stay() -> None:
    assert sanitize_text("größe\t1\r\nnext\rlast") == "größe\t1\nnext\nlast"


def test_a_line_of_a_megabyte_is_cut_with_a_mark() -> None:
    assert sanitize_line("x" * 1_000_000) == "x" * 499 + "…"


BAR = "start\n" + "".join(f"\r{done:>3}%|##| {done}/100" for done in range(0, 101, 5)) + "\nend\n"


def test_of_a_line_that_was_written_over_the_newest_state_stays_without_colours() -> None:
    assert last_states(BAR) == "start\n100%|##| 100/100\nend\n"
    assert last_states("50%\r\x1b[2K\x1b[1;31m60%\x1b[0m\r\r\nlast\r\n") == "60%\nlast\n"


@pytest.mark.parametrize(
    "text", ["\x1b]52;c;cGF5\x07", "\x1b[\x1b[0m31m", "\x1bP+q544e\x1b\\", "\x9b31m", "\x1b[1" + ";1" * 40 + "m"]
)
def test_what_is_no_colour_is_left_to_be_shown_inert(text: str) -> None:
    assert "�" in sanitize_text(last_states(text))


@given(cuts=st.sets(st.integers(1, len(BAR) - 1)))
def test_output_in_pieces_ends_as_it_does_in_one(cuts: set[int]) -> None:
    printed, pieces = OutputText(), [0, *sorted(cuts), len(BAR)]
    shown = "".join(printed.take(BAR[start:end]) for start, end in itertools.pairwise(pieces))
    assert last_states(shown) == last_states(BAR)


@given(text=st.text(), cut=st.integers(0, 50))
def test_no_piece_of_output_holds_what_a_terminal_would_obey(text: str, cut: int) -> None:
    printed = OutputText(rewrite="")
    shown = printed.take(text[:cut]) + printed.take(text[cut:])
    assert all(c in "\n\t" or ord(c) >= 32 for c in shown)


def test_a_bar_that_goes_on_takes_the_place_of_its_former_state() -> None:
    printed = OutputText(rewrite="<")
    assert printed.take("a\n 1%\r 2%\r") == "a\n 2%"
    assert printed.take(" 3%\x1b[3") == "< 3%"
    assert printed.take("1m!\r 4%") == "< 4%"
    assert printed.take(" more\nb\r\n") == " more\nb\n"
    assert printed.take("\r 5%\n") == " 5%\n"
