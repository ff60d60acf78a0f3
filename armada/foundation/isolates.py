"""Isolate what is read from right to left, so that terminals which reorder such text leave the cells beside it alone."""

from __future__ import annotations

import re

FIRST_STRONG, POP = "\u2068", "\u2069"
"""Unicode's isolates (UAX 9): they have no width, and no remote text has them (`armada.foundation.sanitize`)."""
_LETTER = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
# Within a name: one blank, and what is no letter. Two blanks or a sign divide columns, and are no part of it.
_JOINED = r"(?:[0-9\-_.,:'\"/()#]{0,8} ?[0-9\-_.,:'\"/()#]{0,8})"
_RUN = re.compile(f"{_LETTER}+(?:{_JOINED}{_LETTER}+)*")


def isolated(text: str) -> str:
    """Return a text in which each run of words from right to left is isolated."""
    return text if text.isascii() else _RUN.sub(f"{FIRST_STRONG}\\g<0>{POP}", text)
