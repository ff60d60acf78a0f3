"""A field for one line of text, into which no control character comes."""

from __future__ import annotations

from textual.widgets import Input

from armada.foundation.sanitize import without_controls


class Field(Input):
    """Drops control characters that are typed, pasted or filled in: a terminal would obey them, and no value has any."""

    def validate_value(self, value: str) -> str:
        return without_controls(value)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the text; the cursor stands after what is left of the new one."""
        super().replace(without_controls(text), start, end)
