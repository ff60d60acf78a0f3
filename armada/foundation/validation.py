"""Check values from hosts against what a store can hold and a calendar can show. A value out of range counts as missing."""

from __future__ import annotations

import sys
from typing import Any

from armada.foundation.sanitize import sanitize_line

MOST = 1 << 53
"""The largest number that JSON's numbers represent exactly. There are never more steps, bytes or records."""

YEAR_10000 = 253_402_214_400.0


def whole(value: object) -> int | None:
    """Return a count, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def positive(value: object) -> int:
    """Return a count above 0, however large; 0 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def finite(value: object, most: float = sys.float_info.max) -> float | None:
    """Return a number whose absolute value is at most `most`, or None: JSON has NaN, infinities, and integers too large for a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= most else None  # type: ignore[arg-type]  # as was looked at


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object; empty for any other value."""
    return value if isinstance(value, dict) else {}


def flat_sources(value: object) -> list[Any]:
    """Return the items of a recorded list of sources, or of a mapping of names to sources and lists of them."""
    items = value.values() if isinstance(value, dict) else [value]
    return [one for item in items for one in (item if isinstance(item, list) else [item]) if one is not None]


def sentences(value: object) -> list[str]:
    """Return a host's sentences, sanitized and limited in number; empty for a value that is not a list."""
    return [sanitize_line(item, 600) for item in value[:20]] if isinstance(value, list) else []


def moment(value: object) -> float | None:
    """Return a unix time in seconds that is a valid date, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < YEAR_10000 else None  # type: ignore[arg-type, operator]  # as was looked at
