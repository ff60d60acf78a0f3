"""Read the value of a comparison: numbers with units, moments, and texts with wildcards."""

from __future__ import annotations

import fnmatch
import functools
import math
import re
import time
from typing import Literal

Kind = Literal["text", "word", "number", "duration", "size", "moment", "flag", "any"]
"""What a key holds. A `word` is compared as a whole (a tag), a `text` by its parts; `any` is a setting of any type."""

_NUMBER = re.compile(r"\$?([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)")
_PARTS = re.compile(r"(\d+(?:\.\d*)?)\s*([a-z]+)\s*")
_PARTED = re.compile(rf"(?:{_PARTS.pattern})+")
_LONGEST_DURATION = 60
"""Longer texts are settings such as a prompt; the patterns above would take seconds for 10 kB of digits."""

_UNITS: dict[str, dict[str, float]] = {
    "number": {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "%": 0.01},
    "duration": {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0},
    "size": {
        "": 1.0,
        "B": 1.0,
        "kB": 1e3,
        "KB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "k": 1e3,
        "K": 1e3,
        "M": 1e6,
        "G": 1e9,
        "T": 1e12,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
    },
}
EXAMPLES = {
    "number": "0.4, 1e-5, 20k or 50%",
    "duration": "90s, 30m, 1d12h, 2h or 7d",
    "size": "800MB, 10GB or 2GiB",
    "moment": "2026-11-23, 2026-11-23T14:30 or an age such as 2d",
    "flag": "yes or no",
}
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")
_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def number_of(text: str, kind: str = "number") -> float | None:
    """Read a number with a unit of its kind, or a duration of several such as `1d12h`; None if it is none, or not finite."""
    found = _NUMBER.fullmatch(text.strip())
    factor = _UNITS[kind].get(found[2]) if found is not None else None
    if found is None and kind == "duration":
        return _several_units(text.strip())
    if found is None or factor is None:
        return None
    value = float(found[1]) * factor
    return value if math.isfinite(value) else None


def _several_units(text: str) -> float | None:
    """Read a duration of several parts, each with a smaller unit than the one before."""
    if len(text) > _LONGEST_DURATION or _PARTED.fullmatch(text) is None:
        return None
    parts = _PARTS.findall(text)
    factors = [_UNITS["duration"].get(unit, 0.0) for _, unit in parts]
    if 0.0 in factors or factors != sorted(set(factors), reverse=True):
        return None
    value = sum(float(number) * factor for (number, _), factor in zip(parts, factors, strict=True))
    return value if math.isfinite(value) else None


def moment_of(text: str, now: float) -> float | None:
    """Read a date, a date with a time, both local, or an age; None if it is none of these."""
    for form in _FORMATS:
        try:
            return time.mktime(time.strptime(text.strip(), form))
        except (ValueError, OverflowError):
            continue
    age = number_of(text, "duration") if text[-1:].isalpha() else None
    return None if age is None else now - age


def flag_of(text: str) -> bool | None:
    """Read yes or no; None if it is neither."""
    return _FLAGS.get(text.casefold())


def is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


@functools.lru_cache(maxsize=256)
def pattern_of(text: str, *, whole: bool) -> re.Pattern[str]:
    """Return the pattern of a text: one with wildcards is for the whole value, another for a part or, if `whole`, the whole.

    Upper and lower case are the same.
    """
    if is_glob(text):
        return re.compile(rf"\A{fnmatch.translate(text)}", re.IGNORECASE)
    return re.compile(rf"\A{re.escape(text)}\Z" if whole else re.escape(text), re.IGNORECASE)
