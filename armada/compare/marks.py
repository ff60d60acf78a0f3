"""Draw the signs of marks on a curve as SVG: ✗ where values that are not finite begin, ↻ where the run was resumed.

They are shapes, not letters: a picture looks alike whatever fonts its reader has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Kind = Literal["gap", "resumed"]
WORDS: dict[Kind, str] = {"gap": "NaN", "resumed": "resumed"}
"""What each sign means, in the order of the legend."""
NEAR = 8.0
"""Signs of one kind that are nearer than these pixels to one before are not drawn."""
ABOVE = 11.0
"""How many pixels a sign stands above its curve."""


def sign(kind: Kind, x: float, y: float) -> str:
    """Return the sign around a place, as the `d` of a path."""
    if kind == "gap":
        return f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return f"M{x + 4:.1f} {y:.1f}a4 4 0 1 1 -4 -4m-1 -2.5l3.5 2.5l-3.5 2.5"


def apart(marks: Iterable[tuple[float, Kind]]) -> Iterator[tuple[int, float, Kind]]:
    """Yield marks with their numbers, without those that would be drawn onto one of their kind.

    Args:
        marks: Place in pixels, and kind; the places of each kind rise.
    """
    last: dict[Kind, float] = {}
    for number, (x, kind) in enumerate(marks):
        if kind not in last or x - last[kind] >= NEAR:
            last[kind] = x
            yield number, x, kind
