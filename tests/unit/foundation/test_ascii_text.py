from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from armada.foundation.ascii_text import ERRORS, in_ascii, is_utf8_terminal, register
from armada.verdicts.states import STATE_GLYPHS


def test_the_signs_of_states_stay_apart() -> None:
    assert len({in_ascii(sign) for sign in STATE_GLYPHS.values()}) == len(set(STATE_GLYPHS.values()))
    assert in_ascii("8×A100 — größe “日本”…") == '8xA100 - grose "????".'


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_any_text_becomes_ascii(text: str) -> None:
    assert in_ascii(text).isascii()


@given(st.text("●◐·✓✗–?─│╭█▁→“”×⚠▲°日本éö"))
def test_every_cell_stays_in_its_place(text: str) -> None:
    assert len(in_ascii(text)) == cell_len(text)


@pytest.mark.parametrize(("encoding", "said"), [("ascii", "v done - 2x ..."), ("latin-1", "v done - 2× ...")])
def test_a_stream_writes_what_its_encoding_has_not_as_the_nearest_sign(encoding: str, said: str) -> None:
    register()
    bytes_ = io.BytesIO()
    stream = io.TextIOWrapper(bytes_, encoding=encoding, errors=ERRORS)
    stream.write("✓ done — 2× …")
    stream.flush()
    assert bytes_.getvalue().decode(encoding) == said


@pytest.mark.parametrize(
    ("names", "utf8"),
    [
        ({}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.utf8", "LC_ALL": ""}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
    ],
)
def test_the_locale_says_whether_there_is_utf8(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str], utf8: bool
) -> None:
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert is_utf8_terminal() is utf8
