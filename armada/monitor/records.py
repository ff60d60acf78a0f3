"""Lines that a job wrote into its own files, read by home: a job may write anything there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from armada.foundation.sanitize import sanitize_line

_DEEPEST = 50
"""More brackets than that within each other no record of ours has; the parser's own limit depends on who calls it."""

_BRACKET = re.compile(r"[\[\]{}]")


@dataclass(frozen=True, slots=True)
class Lines:
    """Records, and how many lines were none; `first` says what was wrong with the first of those."""

    records: list[dict[str, object]]
    unreadable: int = 0
    first: str = ""


def read_lines(text: str, name: str) -> Lines:
    """Read JSON objects, one a line.

    Args:
        text: Whole lines.
        name: Of the file, for what is said about it.
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
        raise ValueError("not an object")  # noqa: TRY004  # as what is no JSON raises
    return {sanitize_line(key, 100): item for key, item in value.items()}


def _is_deep(line: str) -> bool:
    """Whether more brackets stand within each other than any record has; those inside of texts count too."""
    depth = 0
    for bracket in _BRACKET.finditer(line):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _DEEPEST:
            return True
    return False
