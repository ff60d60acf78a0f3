"""Keep text in a table's file from being taken for a formula by a spreadsheet: hosts and people name metrics, runs and values."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""Some programs leave out spaces and tabs before them."""


def plain_cell(text: str) -> str:
    """Return a cell's text, with a `'` before what a spreadsheet would compute."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
