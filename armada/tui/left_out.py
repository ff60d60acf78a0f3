"""Say which metrics of a run have no curve, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.store.metrics import MOST_LEFT_OUT
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAMED = 3
"""So many are named."""
LONGEST = 30
FILE = "metrics.jsonl"


def unmatched(wanted: str, kept: int, names: Sequence[str]) -> str:
    """Say that a filter shows no metric, and that it was not looked for among those that are not kept.

    Args:
        wanted: The filter, sanitized.
        kept: How many metrics are kept.
        names: The metrics that are not kept, as far as they are known.
    """
    if not names:
        return f"no metric matches {wanted}"
    return f"none of the {kept:,} kept metrics matches {wanted}; {_number(names)} not kept"


def matched(wanted: str, found: int, kept: int, names: Sequence[str]) -> str:
    """Say how many metrics a filter shows, and how many it was not looked for among.

    Args:
        wanted: The filter, sanitized.
        found: How many metrics match.
        kept: How many metrics are kept.
        names: The metrics that are not kept, as far as they are known.
    """
    if not names:
        return f"{found:,} of {kept:,} metrics match {wanted}"
    return f"{found:,} of the {kept:,} kept metrics match {wanted}; {_number(names)} not kept"


def _number(names: Sequence[str]) -> str:
    more = f"{len(names):,} or more" if len(names) >= MOST_LEFT_OUT else f"{len(names):,}"
    return f"{more} {'is' if len(names) == 1 else 'are'}"


def words(names: Sequence[str], outputs: Path) -> str:
    """Return a sentence for the charts of a run, sanitized; empty if all of its metrics are kept.

    Args:
        names: The metrics that are not kept, as far as they are known.
        outputs: The folder at home for what the run wrote.
    """
    if not names:
        return ""
    many = ("At least " if len(names) >= MOST_LEFT_OUT else "") + counted(len(names), "more metric")
    named = ", ".join(sanitize_line(name, LONGEST) for name in names[:NAMED]) + (", …" if len(names) > NAMED else ".")
    file = outputs / FILE
    where = str(file) if file.is_file() else f"{FILE} of the run, which y brings home"
    return f"{many} {'is' if len(names) == 1 else 'are'} not kept: {named} All are in {sanitize_line(where, 300)}"
