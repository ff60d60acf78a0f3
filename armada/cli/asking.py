"""Ask for confirmation at the terminal."""

from __future__ import annotations

import sys

from armada.errors import Conflict, UsageError


def confirm(question: str, *, nothing: str) -> None:
    """Ask a question and go on only after a yes.

    Args:
        question: One sentence or more; the last one ends with a question mark.
        nothing: What is true after a no, such as `nothing was started`.

    Raises:
        UsageError: There is no terminal to ask at.
        Conflict: The answer was not yes.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{question} Nobody is there to be asked, so {nothing}", hint="add --yes if you mean it")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Conflict(nothing)
