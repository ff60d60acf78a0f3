"""Values from hosts, held to what a store can keep and a calendar can show; what is beyond that is treated as not said."""

from __future__ import annotations

import sys
from typing import Any

from armada.foundation.sanitize import sanitize_line

MOST = 1 << 53
"""What JSON's numbers keep exactly; more steps, bytes or records there are not."""

YEAR_10000 = 253_402_214_400.0


def whole(value: object) -> int | None:
    """A count, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def positive(value: object) -> int:
    """A count above 0, however large; 0 where it is something else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def finite(value: object, most: float = sys.float_info.max) -> float | None:
    """A number whose size is at most `most`, or None: JSON has NaN, infinities, and whole numbers that no float can hold."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= most else None  # type: ignore[arg-type]  # as was looked at


def mapping(value: object) -> dict[str, Any]:
    """An object of JSON's, empty where it is something else."""
    return value if isinstance(value, dict) else {}


def sentences(value: object) -> list[str]:
    """A list of a host's sentences, inert and not too many; empty where it is something else."""
    return [sanitize_line(item, 600) for item in value[:20]] if isinstance(value, list) else []


def moment(value: object) -> float | None:
    """Unix seconds that are a date, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < YEAR_10000 else None  # type: ignore[arg-type, operator]  # as was looked at
