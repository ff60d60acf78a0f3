"""Convert text for terminals without UTF-8: each character becomes the nearest one in ASCII, so that it stays readable."""

from __future__ import annotations

import codecs
import functools
import os
import unicodedata

ERRORS = "armada.ascii"
"""The name of the error handler that `register` registers."""

_SIGNS = {
    **dict.fromkeys("●◆•★", "*"),
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
    """Return the ASCII characters for a character, as many as the cells that it fills."""
    if sign in _SIGNS:
        return _SIGNS[sign]
    if unicodedata.combining(sign):
        return ""
    plain = unicodedata.normalize("NFKD", sign)[:1]
    if plain.isascii() and plain.isprintable():
        return plain
    return "??" if unicodedata.east_asian_width(sign) in "WF" else "?"


def in_ascii(text: str) -> str:
    """Convert text to ASCII and keep the position of every cell."""
    return text if text.isascii() else "".join(sign if sign.isascii() else _of_sign(sign) for sign in text)


def is_utf8_terminal() -> bool:
    """Return whether the locale's encoding is UTF-8. A terminal itself cannot be asked."""
    words = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return not words or "utf" in words.casefold()


def register() -> None:
    """Register the error handler `ERRORS`, with which streams write characters that their encoding lacks."""

    def replace(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        found = error.object[error.start : error.end].replace("…", "...")
        return in_ascii(found), error.end

    codecs.register_error(ERRORS, replace)
