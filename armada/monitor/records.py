"""Parse lines that a job wrote into its own files. They are untrusted: a job may write anything there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from armada.foundation.sanitize import sanitize_line

_DEEPEST = 50
"""Nesting of brackets beyond that of any record of ours; the parser's own limit depends on the caller's stack."""

_BRACKET = re.compile(r"[\[\]{}]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Lines:
    """Records, and the number of invalid lines; `first` says what was wrong with the first of those."""

    records: list[dict[str, object]]
    unreadable: int = 0
    first: str = ""


def read_lines(text: str, name: str) -> Lines:
    """Parse JSON objects, one per line.

    Args:
        text: Whole lines.
        name: The file's name, for messages.
    """
    records, unreadable, first = [], 0, ""
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            records.append(_read(line))
        except (ValueError, RecursionError) as error:
            unreadable += 1
            first = first or f"{name}: {sanitize_line(error, 120)}: {sanitize_line(line, 60)}"
    return Lines(records, unreadable, first)


def _read(line: str) -> dict[str, object]:
    if line.count("[") + line.count("{") > _DEEPEST and _is_deep(line):
        raise ValueError("nested too deep")
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  # the same type as for invalid JSON
    return {sanitize_line(key, 100): item for key, item in value.items()}


def _is_deep(line: str) -> bool:
    """Whether brackets are nested deeper than in any record; those in names do not count (`expert[3]/load`)."""
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", line)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _DEEPEST:
            return True
    return False
