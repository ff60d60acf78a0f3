"""Text from a host, made harmless: what a terminal, a log or a screen would obey is taken out before it is stored or shown."""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, bidi controls, and lone surrogates (they cannot be encoded): terminals act on the first
# three, readers are deceived by the fourth. Sources: OSC 52 clipboard writes; CVE-2021-42574.
_LINE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WORD = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def inert_text(text: str, limit: int = 65_536) -> str:
    """Keep newlines and tabs; show every other control character as `�`; cut at `limit` characters."""
    return _LINE.sub("�", text[:limit].replace("\r\n", "\n").replace("\r", "\n"))


def inert_line(text: object, limit: int = 500) -> str:
    """The same on one line: newlines and tabs become spaces."""
    line = str(text)[: limit + 1]
    line = _WORD.sub(lambda m: " " if m[0] in "\n\r\t" else "�", line)
    return line if len(line) <= limit else line[: limit - 1] + "…"
