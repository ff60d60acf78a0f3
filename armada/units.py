"""Spans of time, amounts of bytes and numbers as a person reads them."""

from __future__ import annotations

import math
import re
import time

DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
UNKNOWN = "?"
"""Stands for a duration or a time that cannot be written."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str:
    """Format a duration for a sentence: `4 s`, `5 m 43 s`, `12 m`, `3 h 05 m`, `2 d 4 h`; `?` if it is not finite."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    return f"{whole // 60} m {whole % 60:02} s" if 60 <= whole < 600 else brief_span(whole)


def brief_span(seconds: float) -> str:
    """Format a duration without the seconds of a minute: `41 s`, `6 m`, `3 h 05 m`, `2 d 4 h`; `?` if it is not finite."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 3600:
        return rough_span(whole)
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def rough_span(seconds: float) -> str:
    """Format a duration in its largest unit, for a column: `41 s`, `6 m`, `3 h`, `2 d`; `?` if it is not finite."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    size, unit = next((size, unit) for size, unit in _UNITS if whole >= size or size == 1)
    return f"{whole // size} {unit}"


def exact_span(seconds: float) -> str:
    """Format a round duration, such as a tick or a limit: `0`, `40 s`, `5 m`, `1 h 30 m`, `2 d`; `?` if it is not finite."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole, words = round(seconds), []
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        words += [f"{count} {unit}"] if count else []
    return " ".join(words[:2]) or "0"


def duration_s(text: str) -> float:
    """`30s`, `10m`, `2h`, `1d` in seconds.

    Raises:
        ValueError: It is none of these.
    """
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 10m")
    return float(match[1]) * _SECONDS[match[2]]


def clock(moment: float, now: float) -> str:
    """Format a time: `09:51` today, `Mon 09:51` within a week, a date before; `?` for what is none."""
    age = now - moment
    try:
        then = time.localtime(moment)
    except (OverflowError, ValueError, OSError):
        return UNKNOWN
    return time.strftime("%H:%M" if age < 43_200 else "%a %H:%M" if age < 500_000 else "%Y-%m-%d", then)


def amount(size_bytes: float) -> str:
    """`812 B`, `3.1 MB`, `2.1 GB`: powers of ten, as disks are sold and links are rated."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def memory_amount(size_bytes: float) -> str:
    """`512 MiB`, `70.2 GiB`, `80 GiB`: powers of two, as memory is sold; a GPU of 80 GB has 80 GiB."""
    size = float(size_bytes) / 2**30
    return f"{size * 1024:.0f} MiB" if size < 1 else f"{size:.3g} GiB" if size < 999.5 else f"{size:.0f} GiB"


def counted(number: int, thing: str) -> str:
    """`1 file`, `3 files`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def counted_processes(number: int) -> str:
    """`1 process`, `3 processes`."""
    return f"{number:,} process{'' if number == 1 else 'es'}"


def short_number(value: float, room: int) -> str:
    """Write a number with at most four digits, and with as many as fit into a column: `0.00861`, `-0.0321`, `1.2e-5`.

    A number that is cut reads as another one; only where not even one digit fits, it is longer than the column.
    """
    if not math.isfinite(value):
        return str(value)
    shown = f"{value:.4g}"
    for digits in (4, 3, 2, 1):
        plain = f"{value:.{digits}g}"
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        shown = plain if len(plain) <= room else f"{mantissa}e{int(power)}"
        if len(shown) <= room:
            break
    return shown
