"""Spans of time and amounts of bytes as a person reads them."""

from __future__ import annotations

import re

DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def span(seconds: float) -> str:
    """`4 s`, `12 m`, `3 h 05 m`, `2 d 4 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s" if whole < 600 else f"{whole // 60} m"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def duration_s(text: str) -> float:
    """`30s`, `10m`, `2h`, `1d` in seconds.

    Raises:
        ValueError: It is none of these.
    """
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 10m")
    return float(match[1]) * _SECONDS[match[2]]


def amount(size_bytes: float) -> str:
    """`812 B`, `3.1 MB`, `2.1 GB`: powers of ten, as disks are sold and links are rated."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def counted(number: int, thing: str) -> str:
    """`1 file`, `3 files`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def counted_processes(number: int) -> str:
    """`1 process`, `3 processes`."""
    return f"{number:,} process{'' if number == 1 else 'es'}"
