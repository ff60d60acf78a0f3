"""Write a terminal's screen as a small SVG that looks alike everywhere.

Rich's own takes five times the bytes, and leaves lines, bars and dots to the reader's fonts. Here lines and bars are
drawn, dots and signs stand in their cells whatever the font, and only words depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.style import Style
from textual.strip import Strip

WIDE, HIGH, MARGIN, BASE = 6, 12, 6, 9
"""A cell, the frame around the screen, and where the letters of a line stand in it."""
FONT = "DejaVu Sans Mono,Menlo,Consolas,monospace"
_LINES = {
    "─": "M0 6h6", "│": "M3 0v12", "╭": "M3 12V9q0-3 3-3", "╮": "M0 6q3 0 3 3v3", "╰": "M3 0v3q0 3 3 3", "╯": "M0 6q3 0 3-3V0",
    "├": "M3 0v12M3 6h3", "┤": "M3 0v12M0 6h3", "└": "M3 0v6h3", "┬": "M0 6h6M3 6v6", "┴": "M0 6h6M3 0v6", "┼": "M0 6h6M3 0v12",
    "╴": "M0 6h3", "╶": "M3 6h3",
}  # fmt: skip
_HEAVY = {"━": "M0 6h6", "╸": "M0 6h3", "╺": "M3 6h3", "┃": "M3 0v12"}
_BLOCKS = {sign: (0.0, 12 - 1.5 * eighths, 6.0, 1.5 * eighths) for eighths, sign in enumerate("▁▂▃▄▅▆▇█", 1)}
_BLOCKS |= {sign: (0.0, 0.0, 6 - 0.75 * place, 12.0) for place, sign in enumerate("▉▊▋▌▍▎▏", 1)}
_BLOCKS |= {
    "▐": (3.0, 0.0, 3.0, 12.0),
    "▔": (0.0, 0.0, 6.0, 1.5),
    "▕": (5.25, 0.0, 0.75, 12.0),
    "▀": (0.0, 0.0, 6.0, 6.0),
}


@dataclass(frozen=True, slots=True)
class Look:
    """How a cell is drawn; colours are `#rrggbb`."""

    front: str
    behind: str
    bold: bool
    italic: bool
    underline: bool


@dataclass(slots=True)
class _Paths:
    """What is drawn in one colour, by kind."""

    thin: list[str] = field(default_factory=list)
    heavy: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)


def picture(strips: Sequence[Strip], width: int, front: str, behind: str, title: str) -> str:
    """Return a screen as SVG.

    Args:
        strips: Its lines.
        width: Its columns.
        front: The theme's colour of letters.
        behind: The theme's background.
        title: What a reader gets who cannot see it.
    """
    size = (WIDE * width + 2 * MARGIN, HIGH * len(strips) + 2 * MARGIN)
    grounds: list[str] = []
    words: list[str] = []
    drawn: dict[str, _Paths] = {}
    classes: dict[tuple[str, bool, bool, bool], str] = {}
    for row, strip in enumerate(strips):
        y, spans = HIGH * row, []
        for look, cells in groupby(_cells(strip, front, behind), key=lambda cell: cell[0]):
            run = [(x, sign) for _, x, sign in cells]
            if look.behind != behind:
                left, end = WIDE * run[0][0], run[-1][0] + max(1, cell_len(run[-1][1]))
                grounds.append(f'<path fill="{look.behind}" d="M{left} {y}H{WIDE * end}v{HIGH}H{left}z"/>')
            _draw([cell for cell in run if _is_drawn(cell[1])], y, drawn.setdefault(look.front, _Paths()))
            kind = (look.front, look.bold, look.italic, look.underline)
            found = list(_texts([cell for cell in run if not _is_drawn(cell[1])]))
            name = classes.setdefault(kind, _name(len(classes))) if found else ""
            spans += [f'<tspan class="{name}" {span}</tspan>' for span in found]
        if spans:
            words.append(f'<text y="{y + BASE}">{"".join(spans)}</text>')
    styles = "".join(f".{name}{{{_css(*kind)}}}" for kind, name in classes.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img">'
        f"<title>{escape(title)}</title>"
        f"<style>text{{font:10px {FONT};white-space:pre}}{styles}</style>"
        f'<rect width="{size[0]}" height="{size[1]}" rx="5" fill="{behind}"/>'
        f'<g transform="translate({MARGIN} {MARGIN})">{"".join(grounds)}{_paths(drawn)}{"".join(words)}</g></svg>\n'
    )


def _cells(strip: Strip, front: str, behind: str) -> Iterator[tuple[Look, int, str]]:
    """Yield how each cell is drawn, where it is, and what stands in it."""
    x = 0
    for text, style, _ in strip:
        look = _look(style, front, behind)
        for sign in text:
            cells = cell_len(sign)
            if cells:
                yield look, x, sign
            x += cells


def _look(style: Style | None, front: str, behind: str) -> Look:
    if style is None:
        return Look(front, behind, bold=False, italic=False, underline=False)
    ink, ground = _hex(style.color, front), _hex(style.bgcolor, behind)
    if style.reverse:
        ink, ground = ground, ink
    if style.dim:
        ink = _between(ink, ground)
    return Look(ink, ground, bold=bool(style.bold), italic=bool(style.italic), underline=bool(style.underline))


def _hex(colour: RichColor | None, usual: str) -> str:
    return usual if colour is None or colour.is_default else colour.get_truecolor().hex


def _between(one: str, other: str) -> str:
    pairs = ((int(each[at : at + 2], 16) for each in (one, other)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(0.6 * ink + 0.4 * ground):02x}" for ink, ground in pairs)


def _is_drawn(sign: str) -> bool:
    return sign in _LINES or sign in _HEAVY or sign in _BLOCKS


def _draw(cells: Iterable[tuple[int, str]], y: int, paths: _Paths) -> None:
    """Add lines and bars; equal neighbours become one."""
    for sign, group in _alike(cells):
        x, count = group
        if sign in _BLOCKS:
            left, top, wide, high = _BLOCKS[sign]
            wide = wide if wide < WIDE else float(WIDE * count)
            places = [x] if wide >= WIDE else range(x, x + count)
            paths.blocks += [f"M{WIDE * at + left:g} {y + top:g}h{wide:g}v{high:g}h{-wide:g}z" for at in places]
            continue
        target, shape = (paths.heavy, _HEAVY[sign]) if sign in _HEAVY else (paths.thin, _LINES[sign])
        if shape == "M0 6h6":
            target.append(f"M{WIDE * x} {y + 6}h{WIDE * count}")
        else:
            target += [_moved(shape, WIDE * at, y) for at in range(x, x + count)]


def _alike(cells: Iterable[tuple[int, str]]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each sign with its first place and how often it follows itself."""
    run: list[tuple[int, str]] = []
    for x, sign in cells:
        if run and run[-1] != (x - 1, sign):
            yield run[0][1], (run[0][0], len(run))
            run = []
        run.append((x, sign))
    if run:
        yield run[0][1], (run[0][0], len(run))


def _moved(shape: str, x: int, y: int) -> str:
    """Move a path whose commands are M, H, V (absolute) and small letters (relative)."""
    moved, number, command, at = "", "", "", 0
    for sign in [*shape, "M"]:
        if sign.isalpha() or sign == " " or (sign == "-" and number):
            if number:
                across = command == "H" or (command == "M" and at == 0)
                shift = 0 if command.islower() else x if across else y
                moved += f"{int(number) + shift}"
                at += 1
            number = "-" if sign == "-" else ""
            if sign.isalpha():
                command, at = sign, 0
            moved += "" if sign == "-" else sign
        else:
            number += sign
    return moved.removesuffix("M")


def _texts(cells: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield the attributes and the text of spans: words keep their width, signs stand each in its cell."""
    for is_word, group in groupby(_runs(cells), key=lambda run: run[0]):
        for _, x, text in group:
            if is_word:
                length = f' textLength="{WIDE * len(text)}"' if len(text) > 1 else ""
                yield f'x="{WIDE * x}"{length}>{escape(text, quote=False)}'
            else:
                places = " ".join(str(WIDE * (x + cell_len(text[:at]))) for at in range(len(text)))
                yield f'x="{places}">{escape(text, quote=False)}'


def _runs(cells: Sequence[tuple[int, str]]) -> Iterator[tuple[bool, int, str]]:
    """Yield (is of the font itself, place, text) of what stands together; two blanks end a word."""
    begun, text, is_word = 0, "", True
    for x, sign in cells:
        plain = ord(sign) < 0x250
        follows = text and begun + cell_len(text) == x and plain == is_word
        if text and (not follows or (sign == " " and text.endswith(" "))):
            if text.strip():
                yield is_word, begun, text.rstrip()
            text = ""
        if not text:
            if sign == " ":
                continue
            begun, is_word = x, plain
        text += sign
    if text.strip():
        yield is_word, begun, text.rstrip()


def _name(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < 26 else letters[number // 26 - 1] + letters[number % 26]


def _css(front: str, bold: bool, italic: bool, underline: bool) -> str:
    parts = [f"fill:{front}"]
    parts += ["font-weight:bold"] if bold else []
    parts += ["font-style:italic"] if italic else []
    parts += ["text-decoration:underline"] if underline else []
    return ";".join(parts)


def _paths(drawn: dict[str, _Paths]) -> str:
    made = ""
    for colour, paths in drawn.items():
        if paths.blocks:
            made += f'<path fill="{colour}" d="{"".join(paths.blocks)}"/>'
        for lines, wide in ((paths.thin, ".8"), (paths.heavy, "2")):
            if lines:
                made += f'<path fill="none" stroke="{colour}" stroke-width="{wide}" d="{"".join(lines)}"/>'
    return made
