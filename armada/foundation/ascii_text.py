"""Text for terminals without UTF-8: each sign becomes the nearest one of ASCII, so that it still says something."""

from __future__ import annotations

import codecs
import functools
import os
import unicodedata

ERRORS = "armada.ascii"
"""The name under which `register` makes this known to streams."""

_SIGNS = {
    **dict.fromkeys("●◆•", "*"),
    **dict.fromkeys("─━╌–—−‐‑▔╴╶", "-"),
    **dict.fromkeys("│┃║▕▏▎▍▌▐", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝┏┓┗┛", "+"),
    **dict.fromkeys("█▉▊▋▇▆▅▄▃▂▁▀░▒▓", "#"),
    **dict.fromkeys("→▸▶❯≥", ">"),
    **dict.fromkeys("←◂◀❮≤", "<"),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’‚", "'"),
    **dict.fromkeys("·…", "."),
    "✓": "v",
    "✗": "x",
    "◐": "q",
    "◌": "?",
    "×": "x",
    "⚠": "!",
    "▲": "^",
    "↑": "^",
    "▼": "v",
    "↓": "v",
    "≈": "~",
    "°": " ",
    "µ": "u",
    "ß": "s",
    "�": "?",
    "\u00a0": " ",
}


@functools.lru_cache(4096)
def _of_sign(sign: str) -> str:
    """The characters that take its place, as many as the cells it fills."""
    if sign in _SIGNS:
        return _SIGNS[sign]
    if unicodedata.combining(sign):
        return ""
    plain = unicodedata.normalize("NFKD", sign)[:1]
    if plain.isascii() and plain.isprintable():
        return plain
    return "??" if unicodedata.east_asian_width(sign) in "WF" else "?"


def in_ascii(text: str) -> str:
    """The text in ASCII, every cell of it in its place."""
    return text if text.isascii() else "".join(sign if sign.isascii() else _of_sign(sign) for sign in text)


def is_utf8_terminal() -> bool:
    """Go by the locale's words for the encoding; a terminal cannot be asked."""
    words = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return not words or "utf" in words.casefold()


def register() -> None:
    """Let streams write what their encoding does not have with `errors=ERRORS`."""

    def replace(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        found = error.object[error.start : error.end].replace("…", "...")
        return in_ascii(found), error.end

    codecs.register_error(ERRORS, replace)
