"""The colour of a load: five steps from idle to full. The height of its character says the same without colour."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.widgets.table import Span

STYLES = tuple(f"load-{place}" for place in range(1, 6))
"""From idle to full; each theme has a colour of this name."""


def style_of(share: float | None) -> str:
    """Return the style of a load between 0 and 1; None, or what is not finite, is not drawn."""
    if share is None or not math.isfinite(share):
        return "plain"
    return STYLES[round(min(1.0, max(0.0, share)) * (len(STYLES) - 1))]


def heated(text: str, shares: Sequence[float | None]) -> list[Span]:
    """Return a strip in the colours of its loads, one character for each."""
    pairs = zip(text, map(style_of, shares), strict=True)
    return [
        ("".join(character for character, _ in part), style) for style, part in groupby(pairs, lambda pair: pair[1])
    ]


def css_of(widget: str, kind: str) -> str:
    """Return the rules for these styles in a widget with the component classes `kind--load-…`."""
    return "\n".join(f"{widget} > .{kind}--{name} {{ color: ${name}; }}" for name in STYLES)
