"""The font of `armada dashboard --web`: it has what its page names, in cells of the size of Roboto Mono's."""

from __future__ import annotations

import io
import re
from pathlib import Path

import textual_serve
from fontTools.ttLib import TTFont

from tests.tools.web_font import BRAILLE, FILE, SHAPES, WIDTH, font

ROBOTO = Path(textual_serve.__file__).parent / "static/fonts/RobotoMono-VariableFont_wght.ttf"
PICTURES = Path(__file__).resolve().parents[2] / "docs/screenshots"
BY_THE_TERMINAL = range(0x2500, 0x25A0)
"""Lines and blocks, which xterm.js draws itself."""


def test_the_kept_font_is_what_the_tool_draws() -> None:
    assert FILE.read_bytes() == font(), "python -m tests.tools.web_font"


def test_it_has_the_cells_of_roboto_mono() -> None:
    own, roboto = TTFont(io.BytesIO(FILE.read_bytes())), TTFont(ROBOTO)
    assert roboto["hmtx"]["a"][0] == WIDTH
    assert {own["hmtx"][name][0] for name in own.getGlyphOrder()} == {WIDTH}
    for table, key in (("head", "unitsPerEm"), ("hhea", "ascent"), ("hhea", "descent"), ("hhea", "lineGap")):
        assert getattr(own[table], key) == getattr(roboto[table], key), key


def test_the_page_takes_from_it_what_it_has_and_nothing_else() -> None:
    style = FILE.with_name("page.css").read_text(encoding="utf-8")
    ranges = re.findall(r"U\+([0-9A-F]+)(?:-([0-9A-F]+))?", style)
    named = {code for first, last in ranges for code in range(int(first, 16), int(last or first, 16) + 1)}
    assert named == set(TTFont(io.BytesIO(FILE.read_bytes())).getBestCmap()) == {*BRAILLE, *map(ord, SHAPES)}


def test_every_sign_of_the_pictures_is_drawn_by_it_or_roboto_mono_or_the_terminal() -> None:
    shown = set().union(
        *(re.findall(r">([^<]+)<", place.read_text(encoding="utf-8")) for place in PICTURES.glob("*-120x36.svg"))
    )
    signs = {ord(sign) for text in shown for sign in text if ord(sign) > 126}
    drawn = {*TTFont(ROBOTO).getBestCmap(), *BRAILLE, *map(ord, SHAPES), *BY_THE_TERMINAL}
    assert not {chr(code) for code in signs - drawn}
