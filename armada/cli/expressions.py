"""Filter expressions on the command line: `ps EXPR` and `--where EXPR`."""

from __future__ import annotations

import sys


def say_no_match(text: str) -> None:
    """Say on standard error that no run passes a filter."""
    from armada.foundation.sanitize import sanitize_line

    sys.stderr.write(f"armada: no run matches {sanitize_line(text, 200)}\n")
