"""Ask the terminal which background it has, while Textual is imported: most terminals do not say it in COLORFGBG."""

from __future__ import annotations

import contextlib
import os
import re
import select
import termios
import time
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WITHIN_S = 0.3
"""A terminal of this machine answers within milliseconds."""
WITHIN_FAR_S = 1.5
"""Over SSH, the answer takes a round trip, 0.2 s between continents; most of it passes while Textual is imported."""
_QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
"""Which colour the background has (OSC 11); and what the terminal can do (DA1), which each one answers, after the first."""
_LAST = re.compile(rb"\x1b\[\?[\d;]*c")
_COLOUR = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_WEIGHTS = (0.2126, 0.7152, 0.0722)
_MOST_BYTES = 4096
_MUTE = ("dumb", "linux", "unknown", "")

_said: bool | None = None


def is_light() -> bool | None:
    """Return whether this process's terminal said that its background is light; None if it was not asked, or did not say."""
    return _said


def is_worth_asking(env: Mapping[str, str], kept: str | None) -> bool:
    """Tell whether the theme depends on the answer.

    Args:
        env: The process's environment.
        kept: The theme that was chosen last.
    """
    is_known = kept is not None or any(env.get(name) for name in ("ARMADA_THEME", "COLORFGBG"))
    return not is_known and env.get("TERM", "") not in _MUTE


def patience_s(env: Mapping[str, str]) -> float:
    """Return how long an answer is waited for. One that comes later is dropped (`terminal_input.py`), and is no key."""
    is_far = any(env.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))
    return WITHIN_FAR_S if is_far else WITHIN_S


@contextlib.contextmanager
def asked(keys: int, screen: int, within_s: float = WITHIN_S) -> Iterator[None]:
    """Ask before a block, and read the answer after it. What was typed in between is lost.

    Args:
        keys: The descriptor from which keys come.
        screen: The one on which a terminal shows what is written.
        within_s: How long after the question an answer is waited for.
    """
    global _said  # noqa: PLW0603  # a process has one terminal
    before = termios.tcgetattr(keys)
    answer = b""
    try:
        tty.setcbreak(keys, termios.TCSANOW)  # or the answer is echoed
        os.write(screen, _QUESTION)
        until = time.monotonic() + within_s
        yield
        answer = _answer(keys, until)
        _said = read_light(answer)
    finally:  # half an answer would look like keys
        termios.tcsetattr(keys, termios.TCSANOW if _LAST.search(answer) else termios.TCSAFLUSH, before)


def read_light(answer: bytes) -> bool | None:
    """Return whether an answer names a light colour; None if it names none."""
    found = _COLOUR.search(answer)
    if found is None:
        return None
    parts = (int(part, 16) / ((1 << 4 * len(part)) - 1) for part in found.groups())
    return sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True)) > 0.5


def _answer(keys: int, until: float) -> bytes:
    """Read up to the answer to the last question."""
    read = b""
    while not _LAST.search(read) and len(read) < _MOST_BYTES:
        ready, _, _ = select.select([keys], [], [], max(0.0, until - time.monotonic()))
        more = os.read(keys, 1024) if ready else b""
        if not more:
            return read
        read += more
    return read
